#include "bench/gpu_sampler.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/survive.h"
#include "bench/worker_protocol.h"
#include "report/metrics_json.h"
#include "report/report_json.h"
#include "sources/nvidia_driver.h"
#include "sources/nvml_source.h"

namespace headroom::bench {
namespace {

constexpr Nanoseconds kFirstWord{60'000'000'000};
constexpr Nanoseconds kAnswer{200'000'000};      // an idle H200 answers in 34 µs
constexpr Nanoseconds kSilence{10'000'000'000};  // from then on it is taken for dead
constexpr Nanoseconds kEnds{1'000'000'000};

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
  if (!requests || !answers || !log_pipe) return give_up("its pipes could not be made");
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

void GpuSampler::start_again() {
  if (!again_at_ || monotonic_now() < *again_at_) return;
  again_at_.reset();
  // One that hangs in the driver does not hear the signal that ends it, and it would be waited for.
  if ((child_.running() && !child_.poll()) || !sources::has_nvidia_driver()) return end();
  start();
}

void GpuSampler::end() {
  is_open_ = false;
  requests_.reset();
  child_.signal(SIGKILL);
  if (options_.again_after) again_at_ = monotonic_now() + *options_.again_after;
}

void GpuSampler::give_up(const std::string& why) {
  end();
  if (std::exchange(has_given_up_, true)) return;
  problem_ = again_at_
                 ? fmt::format("there are no metrics of GPUs for now: {}; they are tried again every {}", why,
                               format_duration(*options_.again_after))
                 : "there are no metrics of GPUs from here on: " + why;
  log::warning("{}", *problem_);
}

// What the driver's side of Headroom has to say: a GPU that was lost, or is back.
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

// Whether the child's first line has come.
bool GpuSampler::take_facts(Nanoseconds patience) {
  if (facts_) return true;
  const auto line = next_line(patience);
  if (!line && answers_.open()) {
    if (monotonic_now() - started_ > kFirstWord)
      give_up("the driver gave no sign of life for " + format_duration(kFirstWord));
    return false;
  }
  if (!line) {
    const auto ended = child_.wait_for(kEnds);
    // A machine whose driver has no management library, or no GPU.
    if (ended && ended->success())
      end();
    else
      give_up(fmt::format("the process that reads them {}",
                          ended ? "ended with " + ended->describe() : std::string("went away")));
    return false;
  }
  const auto document = parse_json(*line, "what the driver says of the host");
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
  if (!is_open_ || !take_facts(kFirstWord)) return;
  host.gpu_driver = facts_->gpu_driver;
  host.gpus = facts_->gpus;
}

void GpuSampler::add_to(SystemSample& sample) {
  if (!is_open_) start_again();
  if (!is_open_ || !take_facts({})) return;
  // An answer that comes late is of an earlier moment.
  if (is_awaited_ && next_line({})) is_awaited_ = false;
  std::optional<std::string> line;
  if (!is_awaited_) {
    asked_ = monotonic_now();
    is_awaited_ = write_all(requests_.get(), "?").has_value();
    line = next_line(kAnswer);
  }
  if (!line && answers_.open()) {
    if (monotonic_now() - asked_ > kSilence)
      give_up("the driver gave no sign of life for " + format_duration(kSilence));
    return;
  }
  if (!line) {
    const auto end = child_.wait_for(kEnds);
    return give_up(fmt::format("the process that reads them {}",
                               end ? "ended with " + end->describe() : std::string("went away")));
  }
  is_awaited_ = false;
  const auto document = parse_json(*line, "a sample of the GPUs");
  auto read = document ? report::metrics_line_from_json(*document) : tl::unexpected(document.error());
  if (!read) return give_up(read.error().sentence());
  SystemSample& told = read->system;
  sample.gpus = std::move(told.gpus);
  // On a Jetson devfreq has told it already: its driver answers NVML late or not at all.
  if (!sample.gpu_percent) sample.gpu_percent = told.gpu_percent;
  if (told.throttled) sample.throttled = sample.throttled.value_or(false) || *told.throttled;
}

std::optional<std::string> GpuSampler::take_problem() { return std::exchange(problem_, std::nullopt); }

int run_gpu_metrics_process(bool is_spared) {
  if (is_spared) survive_shortage_of_memory();
  log::set_console_level(log::Level::debug);  // why there are no metrics is for the run's log
  const auto source = sources::open_nvml_source();
  if (!source) return 0;
  HostInfo host;
  sources::read_gpu_info(host);
  const auto say = [](const Json& document) { return write_all(kEventsFd, to_line(document) + "\n"); };
  if (!say(report::to_json(host))) return 1;
  char request = 0;
  while (::read(STDIN_FILENO, &request, 1) == 1) {
    report::MetricsLine line;
    source->read(line.system);
    if (!say(report::to_json(line))) return 1;
  }
  return 0;
}

}  // namespace headroom::bench
