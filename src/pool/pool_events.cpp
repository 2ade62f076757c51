#include "pool/pool_events.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "base/json.h"
#include "sources/process_table.h"

namespace headroom::pool {
namespace {

constexpr std::chrono::milliseconds kBetweenWrites{250};
constexpr const char* kStatusFolder = "/dev/shm";

// Opens and locks a status file. The result is unset, with errno, if it cannot be opened; EAGAIN: a process
// has locked it.
UniqueFd lock_status(const std::filesystem::path& path, int flags) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0644));
  flock lock{};
  lock.l_type = F_WRLCK;
  if (fd && ::fcntl(fd.get(), F_OFD_SETLK, &lock) != 0) {
    fd.reset();
    errno = EAGAIN;
  }
  return fd;
}

// Removes the status files of killed programs of this user.
void remove_abandoned_status() {
  std::error_code code;
  for (std::filesystem::directory_iterator entry(kStatusFolder, code), end; !code && entry != end;
       entry.increment(code)) {
    if (entry->path().filename().string().compare(0, kPoolStatusPrefix.size(), kPoolStatusPrefix) != 0)
      continue;
    const UniqueFd locked = lock_status(entry->path(), 0);
    struct stat info {};
    if (locked && ::fstat(locked.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid())
      ::unlink(entry->path().c_str());
  }
}

}  // namespace

std::string event_line(const Event& event) {
  Json line;
  line["event"] = name_of(event.kind);
  line["time_ns"] = event.time.count;
  line["model"] = event.model;
  line["took_ns"] = event.took.count;
  if (event.kind == EventKind::loaded) {
    line["charged_bytes"] = event.promised.count;
    line["grown_bytes"] = event.changed.count;
  }
  if (event.kind == EventKind::unloaded) {
    line["promised_bytes"] = event.promised.count;
    line["returned_bytes"] = event.changed.count;
  }
  if (event.kind == EventKind::unloaded || event.kind == EventKind::unload_hangs)
    line["cause"] = name_of(event.cause);
  if (event.refusal != Refusal::none) line["refusal"] = name_of(event.refusal);
  set_if(line, "message", event.message);
  line["used_bytes"] = event.used.count;
  line["budget_bytes"] = event.budget.count;
  return to_line(line);
}

std::string metrics_line(const Metrics& metrics, Nanoseconds time, std::int64_t lost_events) {
  Json line;
  line["event"] = "metrics";
  line["time_ns"] = time.count;
  line["requests"] = metrics.requests;
  line["hits"] = metrics.hits;
  line["waits"] = metrics.waits;
  line["refusals"] = metrics.refusals;
  line["loads"] = metrics.loads;
  line["load_failures"] = metrics.load_failures;
  line["hangs"] = metrics.hangs;
  line["evictions"] = metrics.evictions;
  line["unloads"] = metrics.unloads;
  line["load_ns"] = metrics.load_time.count;
  line["reload_ns"] = metrics.reload_time.count;
  line["wait_ns"] = metrics.wait_time.count;
  line["budget_bytes"] = metrics.budget.count;
  line["used_bytes"] = metrics.used.count;
  line["peak_used_bytes"] = metrics.peak_used.count;
  line["resident_bytes"] = metrics.resident.count;
  line["loading_bytes"] = metrics.loading.count;
  line["unaccounted_bytes"] = metrics.unaccounted.count;
  line["stuck_bytes"] = metrics.stuck.count;
  line["measured_bytes"] = metrics.measured.count;
  line["promised_bytes"] = metrics.promised.count;
  line["returned_bytes"] = metrics.returned.count;
  line["short_returns"] = metrics.short_returns;
  line["lost_events"] = lost_events;
  return to_line(line);
}

Result<EventFile> EventFile::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (fd) return EventFile(std::move(fd));
  const int error = errno;
  return input_error("cannot write the pool's events to " + path,
                     error == ENXIO ? "no process reads this pipe" : errno_text(error),
                     error == ENXIO ? "start its reader first" : "check the path");
}

// One write() per line, so that lines of several threads do not mix. A pipe accepts up to 4 KiB completely
// or not at all. SIGPIPE is blocked meanwhile: a pipe without a reader would end the program, which did not
// ask for this write. A SIGPIPE that was pending before stays pending.
void EventFile::write(const std::string& line) {
  const std::string whole = line + "\n";
  sigset_t pipe{}, before{}, pending{};
  sigaddset(&pipe, SIGPIPE);
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const bool is_lost = ::write(fd_.get(), whole.data(), whole.size()) != static_cast<ssize_t>(whole.size());
  const timespec at_once{};
  if (is_lost && sigismember(&pending, SIGPIPE) == 0) ::sigtimedwait(&pipe, nullptr, &at_once);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (is_lost) ++lost_;
}

Result<std::unique_ptr<StatusFile>> StatusFile::open(const std::string& name, const std::string& device,
                                                     std::function<PoolSample()> read) {
  const std::string what = fmt::format("cannot publish the metrics of pool '{}'", name);
  if (!is_pool_name(name))
    return usage_error(what, "a name has at most 48 letters, digits, '_' and '-'", "choose another name");
  const std::string path = fmt::format("{}/{}{}.{}", kStatusFolder, kPoolStatusPrefix, ::getpid(), name);
  remove_abandoned_status();
  UniqueFd fd;
  struct stat info {};
  // Another program may lock and remove the file before it is locked here. That needs another try.
  for (int tries = 0; tries < 10 && info.st_nlink == 0; ++tries) {
    if (tries > 0) ::usleep(1000);
    fd = lock_status(path, O_CREAT);
    if (!fd && errno != EAGAIN) return input_error(what, fmt::format("{}: {}", path, errno_text(errno)));
    if (fd && ::fstat(fd.get(), &info) != 0) return internal_error(what, errno_text(errno));
  }
  if (info.st_nlink == 0)
    return usage_error(what, "another pool of this process has that name", "choose another name");
  std::unique_ptr<StatusFile> made(new StatusFile);
  made->path_ = path;
  made->fd_ = std::move(fd);
  made->read_ = [read = std::move(read), name, device] {
    PoolSample sample = read();
    sample.name = name;
    sample.pid = ::getpid();
    sample.device = device;
    return sample;
  };
  made->start_ticks_ = sources::read_process_start(::getpid()).value_or(0);
  try {
    made->thread_ = std::jthread([file = made.get()](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        file->write();
        std::unique_lock guard(file->mutex_);
        file->wake_.wait_for(guard, stop, kBetweenWrites, [] { return false; });
      }
    });
  } catch (const std::system_error& error) {
    return internal_error(what, error.what());
  }
  return made;
}

StatusFile::~StatusFile() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  ::unlink(path_.c_str());
}

void StatusFile::write() {
  const std::string text = pool_status_text(read_(), start_ticks_, ++sequence_);
  [[maybe_unused]] const ssize_t written = ::pwrite(fd_.get(), text.data(), text.size(), 0);
}

}  // namespace headroom::pool
