#include "bench/conductor/setup_phase.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/unfinished.h"
#include "bench/conductor/gpu_limit.h"
#include "bench/conductor/phases.h"
#include "bench/protocol.h"
#include "bench/vos/videos.h"
#include "report/run/run_words.h"

namespace headroom::bench {

tl::unexpected<Error> not_writable(Error error, const char* option) {
  error.kind = ErrorKind::input;
  error.fix = fmt::format("free space there, or choose another {}", option);
  return tl::unexpected<Error>(std::move(error));
}

namespace {

Status prove_limit(Run& run) {
  if (!run.options.memory_limit) return {};
  step(run, fmt::format("probing the memory limit of {}", format_bytes(*run.options.memory_limit)));
  auto limit = prove_memory_limit(*run.options.memory_limit, run.options.limit_mechanism);
  if (!limit && limit.error().kind == ErrorKind::usage) return forward_error(limit);
  if (!limit) {
    // The run continues: a limit that could not be proved is monitored, and the report shows that.
    run.result.limit = Limit{*run.options.memory_limit,
                             LimitType::unavailable,
                             LimitMechanism::none,
                             {},
                             limit.error().sentence()};
    run.result.warnings.push_back(limit.error().sentence());
  } else {
    run.result.limit = std::move(*limit);
  }
  step(run, fmt::format("the memory limit is {}, by {}", type_with_reason(*run.result.limit),
                        name_of(run.result.limit->mechanism)));
  run.metrics.restart_rates();
  return {};
}

Status prove_gpu_limit(Run& run) {
  auto account = open_device_account(run.options);
  if (!account) return forward_error(account);
  if (!*account) return {};
  run.device_account.emplace(std::move(**account));
  if (run.options.gpu_memory_limit.empty()) return {};
  const std::vector<unsigned> devices = cuda_devices(run.options);
  const ledger::Limits& limits = run.device_account->limits();
  if (std::none_of(devices.begin(), devices.end(),
                   [&](unsigned device) { return limits.bytes[device] != ledger::kNoLimit; }))
    return usage_error(
        fmt::format("--gpu-mem-limit {} has no effect", run.options.gpu_memory_limit),
        fmt::format("the models run on device{} {}", devices.size() > 1 ? "s" : "", fmt::join(devices, ", ")),
        fmt::format("use {}=SIZE, or one size for all devices", devices.front()));
  step(run, fmt::format("probing the GPU memory limit of {}", run.options.gpu_memory_limit));
  Limit limit = probe_gpu_limit(limits, devices, run.interrupt);
  step(run, fmt::format("the GPU memory limit is {}{}", name_of(limit.type),
                        limit.note.empty() ? "" : ": " + limit.note));
  if (limit.type != LimitType::hard && !limit.note.empty())
    run.result.warnings.push_back("GPU memory limit: " + limit.note);
  run.result.gpu_limit = std::move(limit);
  return {};
}

}  // namespace

Status prove_limits(Run& run) {
  if (auto proved = prove_limit(run); !proved) return proved;
  return prove_gpu_limit(run);
}

namespace {

void keep_wanted_models(Run& run) {
  std::erase_if(run.prepared.models, [&](const PreparedModel& model) {
    const auto wanted = [&](const ModelSpec& spec) { return spec.name == model.name; };
    return std::none_of(run.options.models.begin(), run.options.models.end(), wanted);
  });
}

// Copies the source's description into the run folder, because another run may replace the prepared one.
Status keep_copy(Run& run, const std::filesystem::path& from, const std::filesystem::path& to) {
  auto file = UnfinishedFile::create(to);
  if (!file) return not_writable(file.error(), "--output-dir");
  auto copied = write_copy(file->fd(), from);
  if (!copied && copied.error().kind == ErrorKind::input)
    return input_error(fmt::format("the prepared data in {} cannot be used", run.options.prepared_dir),
                       fmt::format("its {} cannot be read: {}", from.filename().string(), copied.error().why),
                       "run again without --skip-setup to prepare it again");
  if (copied) copied = file->finish();
  if (copied) return {};
  copied.error().what = fmt::format("cannot write {}", to.string());
  return not_writable(copied.error(), "--output-dir");
}

Status keep_metadata(Run& run) {
  const std::string& folder = run.options.prepared_dir;
  if (auto kept = keep_copy(run, metadata_path(folder), run.metadata_path); !kept || !run.options.vos)
    return kept;
  return keep_copy(run, videos_path(folder), videos_path(run.folder.path));
}

Status take_prepared(Run& run) {
  auto prepared = read_prepared_data(run.options.prepared_dir);
  if (!prepared) return forward_error(prepared);
  const auto fingerprint_of = [&](const PreparedModel& model) -> Result<std::string> {
    auto files = fingerprint_in_child(model.path, run.options.timeout, run.interrupt);
    if (!files) return forward_error(files);
    return files->fingerprint;
  };
  const auto problem = why_not_usable(*prepared, run.options, fingerprint_of);
  if (run.interrupt.requested()) return failure("the check of the prepared data was stopped", "interrupted");
  if (problem) return tl::unexpected<Error>(*problem);
  run.prepared = std::move(*prepared);
  keep_wanted_models(run);
  return {};
}

// Updates the report during the setup phase.
void keep_setup_result(Run& run, const PreparedModel& model) {
  for (ModelResult& result : run.result.models)
    if (result.name == model.name) result = not_yet_measured(model);
  save_progress(run);
}

// Runs the setup process.
Result<PreparedData> run_setup(Run& run) {
  HelperPlan plan;
  plan.verb = "_setup";
  plan.repeats_errors = true;  // for example a limit that is exceeded
  plan.purpose = "the setup phase";
  // The setup process watches its own children with --timeout each. This longer timeout is a safety net.
  plan.timeout = Nanoseconds{run.options.timeout.count * 12};
  plan.on_event = [&](const Json& event) {
    const std::string kind = get_text(event, "event"), text = get_text(event, "text");
    if (kind == "scanning") {
      if (!run.options.quiet)
        run.progress_line.update("scanning", -1,
                                 fmt::format("{} frames, {}", get_integer(event, "frames").value_or(0),
                                             get_text(event, "sequence")));
    } else if (kind == "model") {  // after each of its trials
      const auto model = message_from_json<PreparedModel>(get_member(event, "model"));
      if (model) keep_setup_result(run, *model);
    } else if (kind == "failure") {  // of a model that will not be measured
      run.progress_line.clear();
      log::error("{}", text);
    } else {
      step(run, text);
    }
  };
  Json job = to_json(run.options);
  job[kMetadataKey] = run.metadata_path.string();
  job[kVideosKey] = videos_path(run.folder.path).string();
  auto done = run_helper(plan, job, run.interrupt);
  if (!done) return forward_error(done);
  return prepared_data_from_json(get_member(*done, kPreparedKey), run.options.prepared_dir);
}

}  // namespace

Status prepare(Run& run) {
  const Nanoseconds started = monotonic_now();
  run.metadata_path = run.folder.path / "metadata.json";
  if (run.options.skip_setup) {
    if (auto taken = take_prepared(run); !taken) return taken;
  } else {
    auto prepared = run_setup(run);
    if (!prepared) return forward_error(prepared);
    run.prepared = std::move(*prepared);
  }
  run.result.setup_time = monotonic_now() - started;
  run.result.source = run.prepared.source;
  run.result.vos = run.prepared.vos;
  if (run.result.source) run.result.source->spec.path = run.result.source->spec.shown_path();
  if (!run.prepared.source) return {};
  for (const SkippedItem& item : run.prepared.source->skipped)
    log::warning("skipped {}: {}", item.name, item.reason);
  return run.options.skip_setup ? keep_metadata(run) : Status{};
}

std::vector<ModelResult> models_not_reached(const BenchOptions& options) {
  std::vector<ModelResult> results;
  for (const ModelSpec& spec : options.models) {
    ModelResult& result = results.emplace_back();
    result.name = spec.name;
    result.path = spec.path;
    result.error = report::kNotReached;
  }
  return results;
}

ModelResult result_of_setup(const PreparedModel& model) {
  ModelResult result = model.trial.value_or(ModelResult{});
  result.name = model.name;
  result.status = model.status;
  result.error = model.error;
  add_setup_facts(result, model);
  return result;
}

ModelResult not_yet_measured(const PreparedModel& model) {
  ModelResult result = result_of_setup(model);
  if (result.status != ModelStatus::ok) return result;
  result.status = ModelStatus::skipped;
  result.error = report::kNotReached;
  result.memory = {};  // the warm-up's memory is not a result of the run
  result.gpu_memory.clear();
  return result;
}

}  // namespace headroom::bench
