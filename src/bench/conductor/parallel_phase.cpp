#include "bench/conductor/phases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"
#include "bench/conductor/gpu_limit.h"
#include "types/device_name.h"

namespace headroom::bench {

void explain_kills_at_common_limit(std::vector<ModelResult>& together,
                                   const std::vector<ModelResult>& alone) {
  std::vector<std::string> too_large;  // models that exceed the limit alone
  for (const ModelResult& model : alone)
    if (model.status == ModelStatus::oom) too_large.push_back(model.name);
  if (too_large.empty()) too_large.emplace_back("no model");
  const std::string why = fmt::format("{} exceeded it alone", fmt::join(too_large, ", "));
  for (ModelResult& model : together) {
    if (model.status != ModelStatus::oom) continue;
    model.error += "; all models share that limit: " + why;
    // Neither over the limit nor within it: another model grew, but this one was killed.
    const ModelResult* const model_alone = find_result(alone, model.name);
    if (model_alone != nullptr && model_alone->status == ModelStatus::ok) model.memory.within_limit.reset();
  }
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

namespace {

// Sum of the proportional shares (PSS) of all workers at their last sample; workers that have ended add
// nothing. Absent if one share could not be read, because a partial sum would look like the total.
std::optional<Bytes> joint_pss(const std::vector<WorkerRun*>& workers) {
  Bytes joint;
  for (const WorkerRun* worker : workers) {
    const ProcessMemory& sample = worker->last_sample();
    if (worker->has_ended() || !sample.rss) continue;
    if (!sample.pss) return std::nullopt;
    joint += *sample.pss;
  }
  return joint;
}

std::optional<Bytes> joint_resident(const std::vector<WorkerRun*>& workers) {
  std::vector<ProcessMemory> samples;
  for (const WorkerRun* worker : workers)
    if (!worker->has_ended()) samples.push_back(worker->last_sample());
  return resident_without_duplicates(samples);
}

bool measures_frames(const WorkerRun* worker) { return !worker->has_ended() && worker->is_in_run(); }

// The sum of a figure that each of these models had alone. Absent if a model failed alone or has no such
// figure, because a sum that lacks a model cannot be compared with the joint peak.
template <class Figure>
std::optional<Bytes> sum_alone(const std::vector<ModelResult>& together,
                               const std::vector<ModelResult>& alone, Figure figure_of) {
  Bytes sum;
  for (const ModelResult& model : together) {
    const ModelResult* const model_alone = find_result(alone, model.name);
    if (model_alone == nullptr || model_alone->status != ModelStatus::ok) return std::nullopt;
    const std::optional<Bytes> figure = figure_of(*model_alone);
    if (!figure) return std::nullopt;
    sum += *figure;
  }
  return sum;
}

// The larger of load and run peak; absent without the ledger.
std::optional<Bytes> peak_on(const ModelResult& model, const std::string& device) {
  for (const GpuMemory& gpu : model.gpu_memory)
    if (gpu.device == device) return std::max(gpu.load_peak, gpu.run_peak);
  return std::nullopt;
}

// For each device that the models used together: their joint peak since the account's last reset, and the sum
// of their peaks alone. Logs an error if the peak exceeded the limit.
std::vector<JointGpuMemory> joint_gpu_memory(const trace::DeviceAccount& account,
                                             const std::vector<unsigned>& ordinals,
                                             const std::vector<ModelResult>& together,
                                             const std::vector<ModelResult>& alone) {
  std::vector<JointGpuMemory> devices;
  for (const unsigned ordinal : ordinals) {
    JointGpuMemory& joint = devices.emplace_back();
    joint.device = DeviceName{true, ordinal}.text();
    const std::uint64_t limit = account.limits().bytes[ordinal];
    if (limit != ledger::kNoLimit) joint.limit = Bytes{static_cast<std::int64_t>(limit)};
    const bool is_counted = std::ranges::any_of(together, [&](const ModelResult& model) {
      return peak_on(model, joint.device).has_value();
    });  // a ledger was loaded
    if (is_counted) joint.joint_peak = Bytes{static_cast<std::int64_t>(account.peak(ordinal))};
    if (joint.is_over_limit())
      log::error("all at once: peak of {} on {}, more than the limit of {}", format_bytes(*joint.joint_peak),
                 joint.device, format_bytes(*joint.limit));
    joint.sum_of_peaks = sum_alone(together, alone, [&](const ModelResult& model) {
      return model.settings.device == joint.device ? peak_on(model, joint.device) : Bytes{};
    });
  }
  return devices;
}

}  // namespace

Result<ParallelResult> measure_together(Run& run, const std::vector<ModelResult>& alone) {
  // All models share one limit. With a control group, its peak is the joint peak as the kernel counts it.
  auto limit = limit_for(run, "parallel");
  if (!limit) return forward_error(limit);
  std::vector<std::unique_ptr<WorkerRun>> workers;
  std::vector<const PreparedModel*> models;
  std::int64_t expected = 0;
  const std::int64_t sharers = frame_takers(run);
  for (const PreparedModel& model : run.prepared.models) {
    if (model.status != ModelStatus::ok) continue;
    WorkerJob job = inference_job(run, model);
    job.sample_images = 0;
    job.wait_for_gate = true;
    auto worker = WorkerRun::start(
        plan_for(run, model.name, std::move(job), model.takes_frames, limit->get(), sharers));
    if (!worker) return forward_error(worker);
    workers.push_back(std::move(*worker));
    models.push_back(&model);
    expected += frames_expected(run, model.takes_frames);
  }
  std::vector<WorkerRun*> pointers;
  for (const auto& worker : workers) pointers.push_back(worker.get());
  std::optional<Bytes> sampled_joint_peak, sampled_resident_peak, sampled_run_peak;
  if (run.device_account) run.device_account->reset_peaks();
  const ShareWatch shares{needs_shares(run, **limit), [&](const std::vector<WorkerRun*>& running) {
                            const std::optional<Bytes> share = joint_pss(running);
                            sampled_joint_peak = std::max(sampled_joint_peak, share);
                            if (std::ranges::any_of(running, measures_frames))
                              sampled_run_peak = std::max(sampled_run_peak, share);
                            sampled_resident_peak = std::max(sampled_resident_peak, joint_resident(running));
                          }};
  // An interrupted run keeps its results so far; its models are marked as cut short.
  supervise(pointers, run.interrupt, run.options.metrics_interval,
            ticker(run, "parallel", "all models at once", expected), shares);

  ParallelResult result;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    ModelResult& model = result.together.emplace_back(workers[i]->result());
    complete(model, *models[i], run.options);
    result.frames_held += workers[i]->account().frames_held;
    model.memory.cgroup_peak.reset();  // the peak of the common group belongs to no single model
    if (model.status != ModelStatus::ok) result.joint_peak_is_lower_bound = true;
  }
  // Other mechanisms limit each process separately.
  if ((*limit)->mechanism() == LimitMechanism::cgroup_v1 ||
      (*limit)->mechanism() == LimitMechanism::cgroup_v2)
    explain_kills_at_common_limit(result.together, alone);
  const CgroupMemory account = (*limit)->account();
  // Both sides of the comparison use the same measure: the groups' accounts, or PSS. Resident sizes would
  // count shared pages once per process.
  const auto sum = sum_alone(result.together, alone, [&](const ModelResult& model) {
    return account.peak ? model.memory.cgroup_peak : model.memory.pss_peak;
  });
  if (sum > Bytes{}) result.sum_of_peaks = sum;
  if (account.peak) {
    result.joint_peak = account.peak;
    result.joint_peak_source = name_of((*limit)->mechanism());
  } else if (sampled_joint_peak) {
    result.joint_peak = sampled_joint_peak;
    result.joint_peak_source = "pss_samples";
    result.joint_resident_peak = sampled_resident_peak;
    result.joint_peak_is_lower_bound = true;  // between two samples the peak may have been higher
  }
  result.joint_share_peak = sampled_run_peak;
  if (run.device_account)
    result.gpu_memory =
        joint_gpu_memory(*run.device_account, cuda_devices(run.options), result.together, alone);
  result.within_limit =
      stayed_within_common_limit(result, run.options.memory_limit, run.interrupt.signal_number() != 0);
  return result;
}

}  // namespace headroom::bench
