#include "bench/conductor/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>
#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "bench/processes.h"
#include "bench/protocol.h"
#include "report/run/report_json.h"
#include "sources/nvml_source.h"

namespace headroom::bench {
namespace {

constexpr Nanoseconds kFirstLineTimeout{60'000'000'000};
constexpr Nanoseconds kAnswerTimeout{200'000'000};      // an idle H200 answers in 34 µs
constexpr Nanoseconds kSilenceTimeout{10'000'000'000};  // after this the driver counts as hung
constexpr Nanoseconds kExitTimeout{1'000'000'000};

std::string describe_end(const std::optional<ExitStatus>& status) {
  return "the process that reads the GPUs " +
         (status ? "ended with " + status->describe() : std::string("closed its output"));
}

}  // namespace

GpuSampler::GpuSampler(GpuSamplerOptions options) : options_(options) {
  if (sources::has_nvidia_driver())
    start();
  else
    end();
}

void GpuSampler::start() {
  auto requests = Pipe::create();
  auto answers = Pipe::create();
  auto log_pipe = Pipe::create();
  if (!requests || !answers || !log_pipe) return give_up("cannot create pipes");
  SpawnOptions options;
  options.command = {own_executable().string(), "_gpu_metrics"};
  if (options_.is_spared) options.command.emplace_back("--spared");
  options.stdin_fd = requests->read_end.get();
  options.stderr_fd = log_pipe->write_end.get();
  options.inherited = {{answers->write_end.get(), kEventsFd}};
  auto child = Subprocess::spawn(options);
  if (!child) return give_up(child.error().sentence());
  child_ = std::move(*child);
  requests_ = std::move(requests->write_end);
  answers->write_end.reset();
  log_pipe->write_end.reset();
  answers_ = LineReader(std::move(answers->read_end));
  log_ = LineReader(std::move(log_pipe->read_end));
  lines_.clear();
  is_open_ = true;
  is_awaited_ = false;
  facts_.reset();
  started_ = monotonic_now();
}

void GpuSampler::restart_if_due() {
  if (!restart_at_ || monotonic_now() < *restart_at_) return;
  restart_at_.reset();
  // A child that hangs in the driver does not react to SIGKILL. Replacing it would wait for its end, so
  // Headroom tries again later.
  if ((child_.running() && !child_.poll()) || !sources::has_nvidia_driver()) return end();
  start();
}

void GpuSampler::end() {
  is_open_ = false;
  requests_.reset();
  child_.signal(SIGKILL);
  if (options_.restart_after) restart_at_ = monotonic_now() + *options_.restart_after;
}

void GpuSampler::give_up(const std::string& why) {
  end();
  if (std::exchange(has_given_up_, true)) return;
  problem_ = restart_at_ ? fmt::format("no GPU metrics for now: {}; Headroom tries again every {}", why,
                                       format_duration(*options_.restart_after))
                         : "no GPU metrics from here on: " + why;
  log::warning("{}", *problem_);
}

// Passes on the child's log: a GPU was lost, or is back.
void GpuSampler::relay_log() {
  log_.read_available([](std::string_view line) {
    for (const auto& [prefix, level] :
         {std::pair{std::string_view("warning: "), log::Level::warning}, {"info: ", log::Level::info}})
      if (line.starts_with(prefix)) return log::write(level, line.substr(prefix.size()));
    log::debug("[_gpu_metrics] {}", line);
  });
}

std::optional<std::string> GpuSampler::next_line(Nanoseconds patience) {
  const Nanoseconds deadline = monotonic_now() + patience;
  while (lines_.empty() && answers_.open()) {
    const std::int64_t left_ms = (deadline - monotonic_now()).count / 1'000'000;
    pollfd polled{answers_.fd(), POLLIN, 0};
    if (::poll(&polled, 1, static_cast<int>(std::max<std::int64_t>(0, left_ms))) == 0) return std::nullopt;
    answers_.read_available([this](std::string_view line) { lines_.emplace_back(line); });
  }
  relay_log();
  if (lines_.empty()) return std::nullopt;
  std::string line = std::move(lines_.front());
  lines_.erase(lines_.begin());
  return line;
}

// Whether the child's first line has arrived.
bool GpuSampler::take_facts(Nanoseconds patience) {
  if (facts_) return true;
  const auto line = next_line(patience);
  if (!line && answers_.open()) {
    if (monotonic_now() - started_ > kFirstLineTimeout)
      give_up("the GPU driver did not respond for " + format_duration(kFirstLineTimeout));
    return false;
  }
  if (!line) {
    const auto status = child_.wait_for(kExitTimeout);
    // The driver has no management library, or there is no GPU.
    if (status && status->success())
      end();
    else
      give_up(describe_end(status));
    return false;
  }
  const auto document = parse_json(*line, "the driver's description of the host");
  auto facts = document ? report::host_info_from_json(*document) : tl::unexpected(document.error());
  if (!facts) {
    give_up(facts.error().sentence());
    return false;
  }
  facts_ = std::move(*facts);
  return true;
}

void GpuSampler::wait(Nanoseconds patience) {
  if (is_open_) take_facts(patience);
}

void GpuSampler::add_to(HostInfo& host) {
  if (!is_open_ || !take_facts(kFirstLineTimeout)) return;
  host.gpu_driver = facts_->gpu_driver;
  host.gpus = facts_->gpus;
}

void GpuSampler::add_to(SystemSample& sample) {
  if (!is_open_) restart_if_due();
  if (!is_open_ || !take_facts({})) return;
  // A late answer describes an earlier moment, so it is dropped.
  if (is_awaited_ && next_line({})) is_awaited_ = false;
  std::optional<std::string> line;
  if (!is_awaited_) {
    asked_ = monotonic_now();
    is_awaited_ = write_all(requests_.get(), "?").has_value();
    line = next_line(kAnswerTimeout);
  }
  if (!line && answers_.open()) {
    if (monotonic_now() - asked_ > kSilenceTimeout)
      give_up("the GPU driver did not respond for " + format_duration(kSilenceTimeout));
    return;
  }
  if (!line) return give_up(describe_end(child_.wait_for(kExitTimeout)));
  is_awaited_ = false;
  const auto document = parse_json(*line, "a sample of the GPUs");
  auto read = document ? report::metrics_line_from_json(*document) : tl::unexpected(document.error());
  if (!read) return give_up(read.error().sentence());
  SystemSample& reported = read->system;
  sample.gpus = std::move(reported.gpus);
  // On a Jetson, devfreq has already reported it: its driver answers NVML late or not at all.
  if (!sample.gpu_percent) sample.gpu_percent = reported.gpu_percent;
  if (reported.throttled) sample.throttled = sample.throttled.value_or(false) || *reported.throttled;
}

std::optional<std::string> GpuSampler::take_problem() { return std::exchange(problem_, std::nullopt); }

int run_gpu_metrics_process(bool is_spared) {
  if (is_spared) survive_shortage_of_memory();
  log::set_console_level(log::Level::debug);  // the reason for missing metrics belongs in the run's log
  const auto source = sources::open_nvml_source();
  if (!source) return 0;
  HostInfo host;
  sources::read_gpu_info(host);
  const auto send = [](const Json& document) { return write_all(kEventsFd, to_line(document) + "\n"); };
  if (!send(report::to_json(host))) return 1;
  char request = 0;
  while (::read(STDIN_FILENO, &request, 1) == 1) {
    report::MetricsLine line;
    source->read(line.system);
    if (!send(report::to_json(line))) return 1;
  }
  return 0;
}

MetricsRecorder::MetricsRecorder(const std::filesystem::path& path)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644)),
      started_(monotonic_now()) {
  sampler_.sample();  // rates need an earlier sample
}

void MetricsRecorder::record(const std::string& phase, const std::vector<WorkerRun*>& runs) {
  report::MetricsLine line;
  line.system = sampler_.sample();
  gpus_.add_to(line.system);
  line.since_start = monotonic_now() - started_;
  line.phase = phase;
  if (runs.size() == 1) line.model = runs.front()->label();
  for (const WorkerRun* run : runs) {
    if (run->has_ended()) continue;
    line.processes.push_back(
        {run->label(), run->pid(), std::string(name_of(run->phase())), run->last_sample()});
  }
  throttled_ = throttled_ || line.system.throttled == true;
  for (const GpuSample& gpu : line.system.gpus)
    for (const std::string& reason : gpu.throttle_reasons)
      throttling_.insert(fmt::format("GPU {}: {}", gpu.index.value_or(0), reason));
  totals_.add(line.system);
  if (failed_) return;
  if (auto written = write_all(file_.get(), to_line(report::to_json(line)) + "\n"); !written) {
    failed_ = true;
    log::warning("metrics.jsonl is incomplete: {}", written.error().why);
  }
}

std::optional<std::string> MetricsRecorder::take_throttling(std::string_view while_what) {
  const auto reasons = std::exchange(throttling_, {});
  if (!std::exchange(throttled_, false)) return std::nullopt;
  std::string text = fmt::format("the clock was throttled while {}", while_what);
  if (!reasons.empty()) text += fmt::format(" ({})", fmt::join(reasons, ", "));
  return text;
}

}  // namespace headroom::bench
