#include "pool/status_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <system_error>

#include "base/text.h"

namespace headroom::pool {
namespace {

constexpr std::chrono::milliseconds kBetweenWrites{250};

std::int64_t own_start_ticks() {
  const auto text = read_small_file("/proc/self/stat");
  if (!text) return 0;
  const std::size_t name_ends = text->rfind(')');
  if (name_ends == std::string::npos) return 0;
  constexpr std::size_t kStartTicks = 22 - 3;  // field 22; the text after the name begins with field 3
  const auto words = split_words(std::string_view(*text).substr(name_ends + 1));
  return words.size() > kStartTicks ? parse_number<std::int64_t>(words[kStartTicks]).value_or(0) : 0;
}

}  // namespace

Result<std::unique_ptr<StatusFile>> StatusFile::open(const std::string& name, const std::string& device,
                                                     std::function<PoolSample()> read) {
  const std::string what = fmt::format("cannot publish the metrics of pool '{}'", name);
  if (!is_pool_name(name))
    return usage_error(what, "a name has at most 48 letters, digits, '_' and '-'", "choose another name");
  const std::string path = fmt::format("/dev/shm/{}{}.{}", kPoolStatusPrefix, ::getpid(), name);
  // A killed program leaves its file behind, so a new process with the same pid must be able to open it.
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd) return input_error(what, fmt::format("{}: {}", path, errno_text(errno)));
  flock lock{};
  lock.l_type = F_WRLCK;
  if (::fcntl(fd.get(), F_OFD_SETLK, &lock) != 0)
    return usage_error(what, "another pool of this process has that name", "choose another name");
  PoolSample kept;
  kept.name = name;
  kept.pid = ::getpid();
  kept.device = device;
  std::unique_ptr<StatusFile> made(new StatusFile(path, std::move(fd), std::move(kept), std::move(read)));
  try {
    made->thread_ = std::thread([file = made.get()] { file->run(); });
  } catch (const std::system_error& error) {
    return internal_error(what, error.what());
  }
  return made;
}

StatusFile::StatusFile(std::string path, UniqueFd fd, PoolSample kept, std::function<PoolSample()> read)
    : path_(std::move(path)),
      fd_(std::move(fd)),
      kept_(std::move(kept)),
      read_(std::move(read)),
      start_ticks_(own_start_ticks()) {}

StatusFile::~StatusFile() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  ::unlink(path_.c_str());
}

void StatusFile::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    lock.unlock();
    write();
    lock.lock();
    wake_.wait_for(lock, kBetweenWrites, [this] { return stopped_; });
  }
}

void StatusFile::write() {
  PoolSample now = read_();
  now.name = kept_.name;
  now.pid = kept_.pid;
  now.device = kept_.device;
  const std::string text = pool_status_text(now, start_ticks_, ++sequence_);
  [[maybe_unused]] const ssize_t written = ::pwrite(fd_.get(), text.data(), text.size(), 0);
}

}  // namespace headroom::pool
