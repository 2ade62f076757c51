#include "watch/live_input.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <limits>

#include "base/log.h"
#include "base/subprocess.h"
#include "monitoring/sample_metrics.h"

namespace headroom::watch {
namespace {

// Time from the first sample, which has no rates and is dropped, to the next one.
constexpr Nanoseconds kFirstInterval{100'000'000};
// Reading PSS walks page tables: too slow for faster samples. PSS of 20 other processes took 6.6 ms.
constexpr Nanoseconds kPssInterval{100'000'000}, kPssTableInterval{1'000'000'000};
constexpr Nanoseconds kGpuStartTimeout{3'000'000'000};  // a driver may have to initialize the GPUs first
constexpr Nanoseconds kCommandSlice{100'000'000};       // how quickly the end of a command is noticed
constexpr Nanoseconds kCommandTimeout{5'000'000'000};   // after a signal; then the command is killed

// Returns false if a signal came.
bool wait_until(Nanoseconds deadline, bench::Interrupt& interrupt) {
  for (;;) {
    const Nanoseconds left = deadline - monotonic_now();
    if (left.count <= 0) return !interrupt.requested();
    const timespec timeout{left.count / 1'000'000'000, left.count % 1'000'000'000};
    pollfd polled{interrupt.fd(), POLLIN, 0};
    ::ppoll(&polled, 1, &timeout, nullptr);
    if (interrupt.requested()) return false;
  }
}

Result<Subprocess> start_command(const std::vector<std::string>& command) {
  SpawnOptions options;
  options.command = command;
  options.stdin_fd = STDIN_FILENO;
  options.stdout_fd = STDOUT_FILENO;
  options.new_process_group = false;  // Ctrl-C must reach the command, too
  auto child = Subprocess::spawn(options);
  if (!child) child.error().kind = ErrorKind::usage;
  return child;
}

// Passes a signal to the command. Ctrl-C in a terminal has already reached it; a signal by kill reached
// only Headroom.
std::optional<ExitStatus> end_command(Subprocess& command, int signal) {
  if (signal != SIGINT || ::isatty(STDIN_FILENO) == 0) command.signal(signal);
  auto end = command.wait_for(kCommandTimeout);
  if (end) return end;
  command.signal(SIGKILL);  // it ignored the first signal
  return command.wait();
}

class Sampler {
 public:
  explicit Sampler(const WatchOptions& options) : machine_(options.sysroot) {
    machine_.wait_for_gpus(kGpuStartTimeout);  // the columns of a CSV file come from its first sample
    choice_.roots = options.pids;
    choice_.name = options.name;
    choice_.largest = options.follows() ? 0 : options.largest_processes;
    interval_ = options.interval;
    wants_pss_ = options.pss && (options.baseline ||
                                 options.interval >= (options.follows() ? kPssInterval : kPssTableInterval));
  }
  void follow(pid_t pid) { choice_.roots.push_back(pid); }

  // Reading PSS of large processes, or under memory pressure, can make samples late. After a reading that
  // takes more than a quarter of the interval, the next samples have no PSS. The pause is nine times the
  // reading's duration, so reading PSS takes at most a tenth of the time.
  void sample_into(SystemSample& sample) {
    machine_.sample_into(sample);
    if (!choice_.follows() && choice_.largest == 0) return;
    const Nanoseconds begin = monotonic_now();
    choice_.with_pss = wants_pss_ && begin >= pss_again_;
    machine_.read_processes(sample, choice_);
    const Nanoseconds end = monotonic_now(), took = end - begin;
    if (choice_.with_pss && 4 * took.count > interval_.count) pss_again_ = end + Nanoseconds{9 * took.count};
    if (choice_.follows()) add_followed_sums(sample);
  }

 private:
  MachineSampler machine_;
  sources::ProcessChoice choice_;
  Nanoseconds interval_, pss_again_;
  bool wants_pss_ = false;
};

constexpr Nanoseconds kMinReported{1'000'000'000};  // smaller changes are NTP corrections

Nanoseconds now_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return {std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec};
}

// Since boot: CLOCK_BOOTTIME continues during suspension.
Nanoseconds time_suspended() { return now_of(CLOCK_BOOTTIME) - now_of(CLOCK_MONOTONIC); }

}  // namespace

MachineSampler::MachineSampler(const std::filesystem::path& root) : system_(root), table_(root) {
  if (root == "/") gpus_.emplace(bench::GpuSamplerOptions::of_monitor());
}

void MachineSampler::wait_for_gpus(Nanoseconds patience) {
  if (gpus_) gpus_->wait(patience);
}

void MachineSampler::sample_into(SystemSample& sample) {
  system_.sample_into(sample);
  if (gpus_) gpus_->add_to(sample);
}

void add_followed_sums(SystemSample& sample) {
  constexpr std::pair<const char*, std::optional<Bytes> ProcessSample::*> kSums[] = {
      {"followed_rss_bytes", &ProcessSample::rss},
      {"followed_pss_bytes", &ProcessSample::pss},
      {"followed_swapped_bytes", &ProcessSample::swapped},
      {"followed_gpu_bytes", &ProcessSample::gpu}};
  sample.other.push_back({"followed_processes", static_cast<double>(sample.processes.size())});
  for (const auto& [name, figure] : kSums) {
    std::optional<Bytes> sum;
    for (const ProcessSample& process : sample.processes)
      if (process.*figure) sum = sum.value_or(Bytes{}) + *(process.*figure);
    if (!sum) continue;
    sample.other.push_back({name, static_cast<double>(sum->count)});
    const bool is_resident = figure == &ProcessSample::rss;
    if (const auto percent = is_resident ? monitoring::percent_of(sum, sample.ram_total) : std::nullopt)
      sample.other.push_back({"followed_rss_percent", *percent});
  }
  std::optional<double> descriptors;
  for (const ProcessSample& process : sample.processes)
    if (process.descriptors)
      descriptors = descriptors.value_or(0) + static_cast<double>(*process.descriptors);
  if (descriptors) sample.other.push_back({"followed_descriptors", *descriptors});
}

Status check_sysroot(const std::filesystem::path& root) {
  std::error_code code;
  if (std::filesystem::is_directory(root / "proc", code) || std::filesystem::is_directory(root / "sys", code))
    return {};
  return usage_error(fmt::format("{} is not the root folder of a machine", root.string()),
                     "it has neither proc nor sys", "pass the folder that contains them to --sysroot");
}

Result<LiveEnd> sample_live(const WatchOptions& options, bench::Interrupt& interrupt,
                            const std::function<bool(SystemSample& sample)>& on_sample) {
  if (auto sound = check_sysroot(options.sysroot); !sound) return forward_error(sound);
  for (const pid_t pid : options.pids)
    if (::access((options.sysroot / fmt::format("proc/{}/stat", pid)).c_str(), R_OK) != 0)
      return usage_error(fmt::format("process {} does not exist", pid), "",
                         "check the number given to --pid");
  Sampler sampler(options);
  LiveEnd end;
  std::optional<Subprocess> command;
  SystemSample sample;
  sampler.sample_into(sample);  // the first sample has no rates
  const Nanoseconds start = monotonic_now();
  Nanoseconds next = start + std::min(options.interval, kFirstInterval);
  if (!options.command.empty()) {
    auto child = start_command(options.command);
    if (!child) return forward_error(child);
    sampler.follow(child->pid());
    command = std::move(*child);
  }
  survive_shortage_of_memory();  // after the command has started, which must not inherit it
  ClockWatch clock;
  bool has_followed = false;
  const Nanoseconds over =
      options.duration ? start + *options.duration : Nanoseconds{std::numeric_limits<std::int64_t>::max()};
  const auto take_sample = [&] {
    sampler.sample_into(sample);
    sample.time = sample.time - start;
    if (sample.unix_time)
      if (const std::string message = clock.check(sample.time, *sample.unix_time, time_suspended());
          !message.empty())
        log::warning("{}", message);
    return on_sample(sample);
  };
  for (;;) {
    while (command && std::min(next, over) - monotonic_now() > kCommandSlice) {
      if (!wait_until(monotonic_now() + kCommandSlice, interrupt)) break;
      end.command = command->poll();
      if (end.command) break;
    }
    if (end.command || (interrupt.requested() && !command)) break;
    if (!interrupt.requested() && !wait_until(std::min(next, over), interrupt) && !command) break;
    if (over < next) break;
    const Nanoseconds late = monotonic_now() - next;
    if (!take_sample() && !command) break;
    if (late > options.interval) {
      ++end.samples_late;
      const std::int64_t missed = late.count / options.interval.count;
      end.intervals_missed += missed;
      next += Nanoseconds{missed * options.interval.count};
    }
    next += options.interval;
    if (command) end.command = command->poll();
    if (end.command) break;
    if (options.follows() && !command) {
      if (has_followed && sample.processes.empty()) {
        end.followed_ended = true;
        break;
      }
      has_followed = has_followed || !sample.processes.empty();
    }
    if (interrupt.requested()) break;
  }
  // --duration limits the log. The command still runs to its end, which a signal causes.
  while (command && !end.command) {
    if (!wait_until(monotonic_now() + kCommandSlice, interrupt)) {
      end.command = end_command(*command, interrupt.signal_number());
      break;
    }
    end.command = command->poll();
  }
  // The reason for the command's end may be new: this sample contains an OOM kill in the kernel log.
  if (end.command && monotonic_now() < over) take_sample();
  return end;
}

std::string ClockWatch::check(Nanoseconds time, Nanoseconds unix_time, Nanoseconds suspended) {
  const Offsets now{unix_time - time, suspended};
  const Offsets before = last_.value_or(now);
  last_ = now;
  const Nanoseconds slept = now.suspended - before.suspended;
  const Nanoseconds jumped = now.wall - before.wall - slept;
  std::string message;
  if (slept > kMinReported)
    message =
        fmt::format("the machine was suspended for {:.1f} s; time_ns excludes this time", slept.seconds());
  if (std::abs(jumped.count) > kMinReported.count) {
    if (!message.empty()) message += "; ";
    message += fmt::format("the wall clock jumped by {:+.1f} s; time_ns is not affected", jumped.seconds());
  }
  return message;
}

}  // namespace headroom::watch
