#include "trace/attach.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "trace/attach_checks.h"
#include "trace/attach_process.h"
#include "trace/attach_thread.h"
#include "trace/live_figures.h"
#include "trace/summary_lines.h"

namespace headroom::trace {
namespace fs = std::filesystem;
namespace {

constexpr Nanoseconds kSafePlaceTimeout{10'000'000'000}, kQuietTimeout{2'000'000'000};
constexpr std::uint64_t kStackBytes = 96 << 10;  // what dlopen and the recorder need of a thread's stack

// preload/attach.cpp has the same numbers.
enum State : int { kIdle = 0, kRecording = 1, kDetached = 2 };
enum Answer : std::uint32_t { kDone = 0, kAlreadyRecording = 1, kCannotRecord = 2 };

void sleep_for(std::int64_t nanoseconds) {
  const timespec time{0, nanoseconds};
  ::nanosleep(&time, nullptr);
}

// --- a thread to call functions in

const Mapping* mapping_of(const std::vector<Mapping>& mappings, std::uint64_t address) {
  const auto found =
      std::ranges::find_if(mappings, [&](const Mapping& m) { return address >= m.start && address < m.end; });
  return found == mappings.end() ? nullptr : &*found;
}

// The stack of the main thread grows when it is used.
bool has_stack_space(const std::vector<Mapping>& mappings, std::uint64_t stack) {
  const Mapping* const mapping = mapping_of(mappings, stack);
  return mapping != nullptr && (mapping->path == "[stack]" || stack - mapping->start >= kStackBytes);
}

// The address to which a signal handler returns (its code is a call of sigreturn).
std::uint64_t signal_return_of(const RemoteProcess& process,
                               [[maybe_unused]] const std::vector<Mapping>& mappings,
                               [[maybe_unused]] std::uint64_t c_library) {
#if defined(__x86_64__)
  constexpr std::uint8_t kCode[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
  const Mapping* const first = mapping_of(mappings, c_library);
  for (const Mapping& mapping : mappings) {
    if (first == nullptr || mapping.path != first->path || mapping.end - mapping.start > (16u << 20))
      continue;
    std::vector<std::uint8_t> bytes(mapping.end - mapping.start);
    if (!process.read(mapping.start, bytes.data(), bytes.size())) continue;
    const auto found = std::search(bytes.begin(), bytes.end(), std::begin(kCode), std::end(kCode));
    if (found != bytes.end()) return mapping.start + static_cast<std::uint64_t>(found - bytes.begin());
  }
  return 0;
#else
  return process.address_of(process.base_of("[vdso]"), "__kernel_rt_sigreturn");
#endif
}

// A thread that computes is inside the allocator or the loader only while its code is theirs, or while a
// signal handler has interrupted them.
class CodeOfLocks {
 public:
  CodeOfLocks(const RemoteProcess& process, std::uint64_t c_library)
      : process_(process),
        mappings_(process.mappings()),
        signal_return_(signal_return_of(process, mappings_, c_library)) {}

  const std::vector<Mapping>& mappings() const { return mappings_; }

  bool may_be_inside(std::uint64_t pc, std::uint64_t stack) {
    const Mapping* const code = mapping_of(mappings_, pc);
    if (code == nullptr || code->path.empty() || code->path[0] != '/') return true;  // compiled just in time
    return is_of_lock_holder(*code) || has_signal_frame(stack);
  }

 private:
  // The loader, the C library, unwinders that iterate over the loader's list, and all that define malloc.
  bool is_of_lock_holder(const Mapping& code) {
    const std::string name = fs::path(code.path).filename().string();
    for (const std::string_view holder : {"ld-", "libc.so", "libc-", "libdl", "libpthread", "libgcc_s",
                                          "libunwind", "libheadroom", "libstdc++"})
      if (name.starts_with(holder)) return true;
    const auto first = std::ranges::find(mappings_, code.path, &Mapping::path);
    return process_.address_of(first->start, "malloc") != 0 || process_.address_of(first->start, "free") != 0;
  }
  bool has_signal_frame(std::uint64_t stack) const {
    const Mapping* const mapping = mapping_of(mappings_, stack);
    if (mapping == nullptr || signal_return_ == 0) return true;
    std::vector<std::uint64_t> words((mapping->end - stack) / sizeof(std::uint64_t));
    if (!process_.read(stack, words.data(), words.size() * sizeof(std::uint64_t))) return true;
    return std::ranges::find(words, signal_return_) != words.end();
  }

  const RemoteProcess& process_;
  std::vector<Mapping> mappings_;
  std::uint64_t signal_return_;
};

// Stops a thread that holds no lock of the allocator or the loader. Most programs have one that waits.
Result<StoppedThread> stop_at_safe_place(const RemoteProcess& process, std::uint64_t c_library) {
  const Nanoseconds deadline = monotonic_now() + kSafePlaceTimeout;
  std::optional<CodeOfLocks> code;
  for (int round = 0; monotonic_now() < deadline; ++round) {
    const std::vector<Mapping> mappings = process.mappings();
    const std::vector<pid_t> threads = process.threads();
    if (threads.empty()) return failure(cannot_attach(process.pid()), "it has ended");
    for (const pid_t thread : threads) {
      const auto call = system_call_of(thread);
      if (!call || !is_safe_wait(process, *call)) continue;
      auto stopped = StoppedThread::stop(thread);
      if (stopped && is_safe_wait(process, stopped->system_call()) &&
          has_stack_space(mappings, stopped->stack_pointer()))
        return std::move(*stopped);
    }
    // No thread waits. So one that computes is stopped, wherever it is, until it is at a safe place.
    constexpr int kRoundsOfWaiting = 20;
    if (round >= kRoundsOfWaiting) {
      if (!code) code.emplace(process, c_library);
      for (const pid_t thread : threads) {
        if (system_call_of(thread)) continue;
        auto stopped = StoppedThread::stop(thread);
        if (stopped && has_stack_space(code->mappings(), stopped->stack_pointer()) &&
            !code->may_be_inside(stopped->program_counter(), stopped->stack_pointer()))
          return std::move(*stopped);
      }
    }
    sleep_for(3'000'000);
  }
  return failure(cannot_attach(process.pid()),
                 "in 10 s, none of its threads was outside the allocator, the loader and the C library",
                 "try again, or start the program with headroom trace --");
}

// --- the recorder in the process

class Recorder {
 public:
  explicit Recorder(const RemoteProcess& process, fs::path library)
      : process_(process), library_(std::move(library)) {
    c_library_ = process.base_of("libc.so.6");
    if (c_library_ == 0) c_library_ = process.base_of("libc-2.");
    landing_ = find_landing(process, c_library_);
  }

  // Whether the library is in the process, from an earlier recording.
  bool find() {
    base_ = process_.base_of(library_.filename().string());
    return base_ != 0;
  }

  int state() const {
    int state = kIdle;
    const std::uint64_t place = process_.address_of(base_, "headroom_trace_state");
    return place != 0 && process_.read(place, &state, sizeof state) ? state : kIdle;
  }

  Status load(StoppedThread& thread) {
    std::uint64_t function = process_.address_of(c_library_, "dlopen");
    std::uint64_t message = process_.address_of(c_library_, "dlerror");
    std::uint64_t flags = RTLD_NOW;
    if (function == 0) {  // glibc before 2.34
      const std::uint64_t other = process_.base_of("libdl");
      function = process_.address_of(other, "dlopen");
      message = process_.address_of(other, "dlerror");
    }
    if (function == 0) {  // a program without libdl
      constexpr std::uint64_t kFromTheLibrary = 0x80000000;
      function = process_.address_of(c_library_, "__libc_dlopen_mode");
      flags |= kFromTheLibrary;
    }
    if (function == 0 || landing_ == 0)
      return failure(cannot_attach(process_.pid()), "its C library lacks dlopen",
                     "use another version of glibc");
    auto handle = thread.call(process_, landing_, function, {{0, library_.string()}, {flags}});
    if (!handle) return forward_error(handle);
    if (*handle != 0 && find()) return {};
    std::string why = "its loader did not load the library";
    if (message != 0)
      if (auto text = thread.call(process_, landing_, message, {}); text && *text != 0)
        why = process_.read_text(*text, 400);
    const bool is_tls = why.find("static TLS") != std::string::npos;
    return failure(cannot_attach(process_.pid()), why,
                   is_tls ? "start the program with GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096" : "");
  }

  Result<std::uint32_t> call(StoppedThread& thread, const char* name,
                             std::initializer_list<StoppedThread::Argument> arguments) const {
    const std::uint64_t function = process_.address_of(base_, name);
    if (function == 0)
      return failure(cannot_attach(process_.pid()),
                     fmt::format("{} has no function {}", library_.string(), name),
                     "use the library of the same version of Headroom");
    auto answer = thread.call(process_, landing_, function, arguments);
    if (!answer) return forward_error(answer);
    return static_cast<std::uint32_t>(*answer);
  }

  std::uint64_t c_library() const { return c_library_; }

  // Stops all threads and returns them if none is inside a hook.
  std::vector<StoppedThread> stop_all_outside_hooks() const {
    std::ptrdiff_t guard = 0;
    const std::uint64_t place = process_.address_of(base_, "headroom_trace_guard");
    if (place == 0 || !process_.read(place, &guard, sizeof guard) || guard == 0) return {};
    std::vector<StoppedThread> stopped;
    // New threads may begin until all are stopped.
    for (bool is_new = true; is_new;) {
      is_new = false;
      for (const pid_t thread : process_.threads()) {
        if (std::ranges::find(stopped, thread, &StoppedThread::id) != stopped.end()) continue;
        auto one = StoppedThread::stop(thread);
        if (!one) return {};
        is_new = true;
        std::uint32_t inside = 0;
        const std::uint64_t data = one->thread_pointer();
        if (data != 0 &&
            (!process_.read(data + static_cast<std::uint64_t>(guard), &inside, sizeof inside) || inside != 0))
          return {};
        stopped.push_back(std::move(*one));
      }
    }
    return stopped;
  }

  // Returns the memory of an ended recording. If a thread stays inside a hook, the memory stays until the
  // next recording.
  bool release() const {
    const Nanoseconds deadline = monotonic_now() + kQuietTimeout;
    while (monotonic_now() < deadline) {
      if (std::vector<StoppedThread> threads = stop_all_outside_hooks(); !threads.empty()) {
        auto answer = call(threads.front(), "headroom_trace_release", {});
        return answer && *answer == kDone;
      }
      sleep_for(5'000'000);
    }
    return false;
  }

 private:
  const RemoteProcess& process_;
  fs::path library_;
  std::uint64_t c_library_ = 0, landing_ = 0, base_ = 0;
};

// --- the wait

// SIGINT, SIGTERM and SIGHUP, as a descriptor.
UniqueFd listen_for_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

UniqueFd descriptor_of(pid_t pid) {
#ifndef SYS_pidfd_open
  constexpr long SYS_pidfd_open = 434;
#endif
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // Linux 5.3
}

enum class Ending { time, signal, process };

Ending wait_for_end(const UniqueFd& signals, const UniqueFd& process, pid_t pid,
                    std::optional<Nanoseconds> duration) {
  const Nanoseconds start = monotonic_now();
  for (;;) {
    Nanoseconds slice{500'000'000};  // where the kernel has no descriptors of processes, they are asked for
    if (duration) {
      const Nanoseconds left = start + *duration - monotonic_now();
      if (left.count <= 0) return Ending::time;
      slice = std::min(slice, left);
    }
    pollfd polled[] = {{signals.get(), POLLIN, 0}, {process.get(), POLLIN, 0}};
    const timespec time{slice.count / 1'000'000'000, slice.count % 1'000'000'000};
    ::ppoll(polled, 2, &time, nullptr);
    if ((polled[0].revents & POLLIN) != 0) return Ending::signal;
    const bool has_ended =
        process ? (polled[1].revents & POLLIN) != 0 : ::kill(pid, 0) != 0 && errno == ESRCH;
    if (has_ended) return Ending::process;
  }
}

// Runs `work` in a child process, and returns its result. If a tracer dies, the kernel lets the stopped
// thread run on, even in the middle of a call, and the program would crash. So the tracer is a process that
// goes on if headroom is killed. Its work takes milliseconds.
Status run_in_child(const std::function<Status()>& work) {
  const auto failed = [](const char* what) {
    return failure("cannot attach", fmt::format("{}: {}", what, errno_text(errno)));
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failed("pipe");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return failed("fork");
  if (child == 0) {
    ::setsid();  // Ctrl-C of the terminal is for headroom
    const Status done = work();
    const Json answer = done ? Json::object()
                             : Json{{"kind", static_cast<int>(done.error().kind)},
                                    {"what", done.error().what},
                                    {"why", done.error().why},
                                    {"fix", done.error().fix}};
    ::_exit(write_all(writer.get(), answer.dump(-1, ' ', false, Json::error_handler_t::replace)) ? 0 : 1);
  }
  writer = UniqueFd();
  const auto text = read_descriptor(reader.get(), "answer");
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const Json answer = text ? Json::parse(*text, nullptr, false) : Json();
  if (!answer.is_object()) return failure("cannot attach", "the tracer process ended");
  if (answer.empty()) return {};
  return tl::unexpected<Error>(Error{static_cast<ErrorKind>(answer.value("kind", 3)),
                                     answer.value("what", ""), answer.value("why", ""),
                                     answer.value("fix", "")});
}

// The recorder in the process ends the recording when this lock is gone, that is, when headroom was killed.
UniqueFd lock_recording(const fs::path& recording) {
  UniqueFd fd(::open(recording.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd) ::flock(fd.get(), LOCK_SH);
  return fd;
}

// The kernel asks for the same rights when a process's memory is read.
bool may_attach(const RemoteProcess& process) {
  const std::vector<Mapping> mappings = process.mappings();
  char first = 0;
  return !mappings.empty() && process.read(mappings.front().start, &first, sizeof first);
}

std::vector<std::string> command_of(const RemoteProcess& process) {
  std::vector<std::string> command;
  const std::string text = read_small_file(process.folder() / "cmdline").value_or("");
  for (const std::string_view word : split(text, '\0'))
    if (!word.empty()) command.emplace_back(word);
  if (command.empty()) command.push_back(fmt::format("process-{}", process.pid()));
  return command;
}

Status attach(const RemoteProcess& process, Recorder& recorder, const AttachOptions& options,
              const fs::path& output) {
  if (recorder.find() && recorder.state() == kDetached && !recorder.release())
    return failure(cannot_attach(process.pid()),
                   "a thread is still inside the recorder of the last recording", "try again");
  auto thread = stop_at_safe_place(process, recorder.c_library());
  if (!thread) return forward_error(thread);
  if (auto loaded = recorder.load(*thread); !loaded) return forward_error(loaded);
  auto answer =
      recorder.call(*thread, "headroom_trace_attach",
                    {{0, output.string()}, {0, tracer_settings(options.trace, default_size_limit(output))}});
  if (!answer) return forward_error(answer);
  if (*answer == kAlreadyRecording)
    return usage_error(cannot_attach(process.pid()), "another headroom trace --pid records it",
                       "end that one first");
  if (*answer != kDone)
    return usage_error(fmt::format("process {} cannot write {}", process.pid(), output.string()), "",
                       "with --out, name a file in a folder that its user may write to");
  return {};
}

Status detach(const RemoteProcess& process, const Recorder& recorder) {
  {
    auto thread = stop_at_safe_place(process, recorder.c_library());
    if (!thread) return forward_error(thread);
    if (auto answer = recorder.call(*thread, "headroom_trace_detach", {}); !answer)
      return forward_error(answer);
  }
  recorder.release();
  return {};
}

}  // namespace

Result<int> run_attach(const AttachOptions& options) {
  const RemoteProcess process(options.pid);
  const AttachFacts facts = facts_of(options.pid);
  if (auto fine = check_state(options.pid, facts); !fine) return forward_error(fine);
  if (auto usable = check_library(options.trace.library); !usable) return forward_error(usable);
  if (!may_attach(process)) return tl::unexpected<Error>(forbidden_by_kernel(options.pid, facts));
  if (auto fine = check_program(process, options.trace.library); !fine) return forward_error(fine);
  Recorder recorder(process, options.trace.library);
  if (recorder.find() && recorder.state() == kRecording)
    return usage_error(cannot_attach(options.pid), "another headroom trace --pid records it",
                       "end that one first");
  const std::vector<std::string> command = command_of(process);
  auto output = prepare_recording(options.trace, command[0]);
  if (!output) return forward_error(output);

  const UniqueFd signals = listen_for_signals();
  const UniqueFd ended = descriptor_of(options.pid);
  auto attached = run_in_child([&] { return attach(process, recorder, options, *output); });
  if (!attached) return forward_error(attached);
  const UniqueFd lock = lock_recording(*output);
  const Nanoseconds start = monotonic_now();
  log::info(
      "recording process {} to {}{}", options.pid, output->string(),
      options.duration ? fmt::format(" for {}", format_duration(*options.duration)) : "; Ctrl-C ends it");

  const Ending ending = wait_for_end(signals, ended, options.pid, options.duration);
  CommandEnd end;
  end.duration = monotonic_now() - start;
  std::string how =
      fmt::format("(process {}) was recorded for {}", options.pid, format_duration(end.duration));
  if (ending == Ending::process) {
    how += ", until its end";
  } else if (!recorder.find()) {
    how += ", until it started another program";
  } else {
    auto detached = run_in_child([&] { return detach(process, recorder); });
    if (!detached) log::warning("the process will end its recording itself: {}", detached.error().sentence());
  }
  TraceOutcome outcome = finish_recordings(command, *output, end, LiveFigures(*output, false));
  outcome.attached = how;
  [[maybe_unused]] const auto written = write_all(STDERR_FILENO, trace_summary(outcome));
  return 0;
}

}  // namespace headroom::trace
