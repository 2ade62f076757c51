#include "analysis/run_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace headroom::analysis {
namespace {

constexpr double kSameClock = 0.02;     // a governor's steps are larger
constexpr double kSameLoad = 15;        // percent of all cores
constexpr double kSameTemperature = 8;  // degrees

class Facts {
 public:
  void add(std::string_view what, std::string before, std::string after) {
    if (before != after) found_.push_back({std::string(what), std::move(before), std::move(after)});
  }
  // Where one side does not say, nothing is known.
  void add_known(std::string_view what, const std::string& before, const std::string& after) {
    if (!before.empty() && !after.empty()) add(what, before, after);
  }
  std::vector<FactChange> take() { return std::move(found_); }

 private:
  std::vector<FactChange> found_;
};

const MetricSummary* find_metric(const BenchResult& result, std::string_view name) {
  const auto found = std::find_if(result.system.begin(), result.system.end(),
                                  [&](const MetricSummary& metric) { return metric.name == name; });
  return found == result.system.end() ? nullptr : &*found;
}

std::string source_of(const BenchResult& result) {
  if (!result.source) return "none";
  return fmt::format("{} frames of {}, fingerprint {}", result.source->total_frames,
                     result.source->spec.path.empty() ? "a camera" : result.source->spec.path,
                     result.source->fingerprint);
}

std::string limit_of(const std::optional<Limit>& limit) {
  return limit ? fmt::format("{} ({})", format_bytes(limit->bytes), name_of(limit->mechanism)) : "none";
}

void add_machine_state(Facts& facts, const BenchResult& before, const BenchResult& after) {
  for (const MetricSummary& a : before.system) {
    const MetricSummary* b = find_metric(after, a.name);
    if (b == nullptr) continue;
    const double moved = b->mean - a.mean;
    if (a.name.starts_with("clock_hz.") && a.mean > 0 && std::abs(moved) / a.mean > kSameClock)
      facts.add("clock " + a.name.substr(9), fmt::format("{:.0f} MHz", a.mean / 1e6),
                fmt::format("{:.0f} MHz", b->mean / 1e6));
    if (a.name == "throttled" && (a.mean > 0) != (b->mean > 0))
      facts.add("throttling", a.mean > 0 ? fmt::format("{:.0f} % of the samples", 100 * a.mean) : "none",
                b->mean > 0 ? fmt::format("{:.0f} % of the samples", 100 * b->mean) : "none");
    if (a.name == "cpu_percent" && std::abs(moved) > kSameLoad)
      facts.add("load of all cores", fmt::format("{:.0f} %", a.mean), fmt::format("{:.0f} %", b->mean));
    if (a.name.starts_with("temperature_celsius.") && std::abs(moved) > kSameTemperature)
      facts.add("temperature " + a.name.substr(20), fmt::format("{:.0f} °C", a.mean),
                fmt::format("{:.0f} °C", b->mean));
  }
}

}  // namespace

std::vector<FactChange> model_facts(const ComparedModel& before, const ComparedModel& after) {
  const ModelResult &a = *before.result, &b = *after.result;
  Facts facts;
  facts.add_known("model file", before.fingerprint, after.fingerprint);
  if (before.fingerprint.empty() || after.fingerprint.empty())
    if (a.file_size && b.file_size)
      facts.add("size of the model file", format_bytes(*a.file_size), format_bytes(*b.file_size));
  facts.add("runtime", a.backend, b.backend);
  facts.add_known("version of the runtime", a.backend_version, b.backend_version);
  facts.add("settings", a.settings.describe(), b.settings.describe());
  facts.add("device", a.settings.device, b.settings.device);
  facts.add_known("input", a.input, b.input);
  facts.add_known("task", a.task, b.task);
  const auto threshold = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : std::string("none");
  };
  facts.add("confidence", threshold(a.confidence), threshold(b.confidence));
  facts.add("IoU", threshold(a.iou), threshold(b.iou));
  facts.add("measured frames", fmt::format("{}", a.frames), fmt::format("{}", b.frames));
  return facts.take();
}

std::vector<FactChange> run_facts(const ComparedRun& before, const ComparedRun& after) {
  const BenchResult &a = *before.result, &b = *after.result;
  Facts facts;
  facts.add("source", source_of(a), source_of(b));
  facts.add("memory limit", limit_of(a.limit), limit_of(b.limit));
  facts.add("limit of GPU memory", limit_of(a.gpu_limit), limit_of(b.gpu_limit));
  facts.add_known("board", a.host.board, b.host.board);
  facts.add_known("processor", a.host.cpu_model, b.host.cpu_model);
  facts.add_known("machine", a.host.hostname, b.host.hostname);
  if (a.host.cpus > 0 && b.host.cpus > 0)
    facts.add("cores", fmt::format("{}", a.host.cpus), fmt::format("{}", b.host.cpus));
  facts.add_known("GPU driver", a.host.gpu_driver, b.host.gpu_driver);
  facts.add_known("kernel", a.host.kernel, b.host.kernel);
  facts.add_known("operating system", a.host.os, b.host.os);
  facts.add_known("Headroom", a.host.headroom_version, b.host.headroom_version);
  add_machine_state(facts, a, b);
  return facts.take();
}

}  // namespace headroom::analysis
