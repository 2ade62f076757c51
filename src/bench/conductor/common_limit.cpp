#include "bench/conductor/common_limit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

namespace headroom::bench {

void explain_kills_at_common_limit(std::vector<ModelResult>& together,
                                   const std::vector<ModelResult>& alone) {
  std::vector<std::string> too_large;  // models that exceed the limit alone
  for (const ModelResult& model : alone)
    if (model.status == ModelStatus::oom) too_large.push_back(model.name);
  for (ModelResult& model : together) {
    if (model.status != ModelStatus::oom) continue;
    const auto same = [&](const ModelResult& other) { return other.name == model.name; };
    const auto model_alone = std::find_if(alone.begin(), alone.end(), same);
    if (model_alone == alone.end()) continue;
    model.error += "; all models share that limit: ";  // appended to any error text
    if (model_alone->status == ModelStatus::oom) {
      model.error += "alone it exceeds the limit, too";
    } else if (model_alone->status == ModelStatus::ok) {
      model.error += too_large.empty()
                         ? "each model fits alone, but not all together"
                         : fmt::format("this model fits alone, {} does not", fmt::join(too_large, ", "));
      // neither: another model exceeded the limit, but this one was killed
      model.memory.within_limit.reset();
    } else {
      model.error += "its memory alone is unknown";
    }
  }
}

std::optional<Bytes> joint_pss(const std::vector<WorkerRun*>& runs) {
  Bytes joint;
  for (const WorkerRun* run : runs) {
    const ProcessMemory& sample = run->last_sample();
    if (run->has_ended() || !sample.rss) continue;
    if (!sample.pss) return std::nullopt;
    joint += *sample.pss;
  }
  return joint;
}

std::optional<Bytes> joint_resident(const std::vector<WorkerRun*>& runs) {
  std::vector<ProcessMemory> samples;
  for (const WorkerRun* run : runs)
    if (!run->has_ended()) samples.push_back(run->last_sample());
  return resident_without_duplicates(samples);
}

std::optional<Bytes> resident_without_duplicates(const std::vector<ProcessMemory>& samples) {
  Bytes anonymous, files, shared, most_files, most_shared;
  for (const ProcessMemory& sample : samples) {
    if (!sample.rss) continue;
    if (!sample.pss || !sample.pss_file || !sample.pss_shared || !sample.file_backed || !sample.shared)
      return std::nullopt;
    anonymous += *sample.pss - *sample.pss_file - *sample.pss_shared;
    files += *sample.pss_file;
    shared += *sample.pss_shared;
    most_files = std::max(most_files, *sample.file_backed);
    most_shared = std::max(most_shared, *sample.shared);
  }
  return anonymous + std::max(files, most_files) + std::max(shared, most_shared);
}

std::optional<bool> stayed_within_common_limit(const ParallelResult& result,
                                               const std::optional<Bytes>& limit, bool was_cut_short) {
  if (!limit) return std::nullopt;
  const auto is_over = [](const ModelResult& model) {
    return model.status == ModelStatus::oom || model.memory.violations > 0;
  };
  if (std::any_of(result.together.begin(), result.together.end(), is_over)) return false;
  if (result.joint_peak && *result.joint_peak > *limit) return false;
  return was_cut_short ? std::nullopt : std::optional(true);
}

}  // namespace headroom::bench
