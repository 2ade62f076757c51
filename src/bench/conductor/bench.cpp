// The run is a sequence of named steps. After each step, report.json is on disk, marked incomplete until the
// last one. If the conductor is killed or the disk is full, the results so far remain.
#include "bench/conductor/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "bench/conductor/bench_state.h"
#include "bench/conductor/child_process.h"
#include "bench/conductor/gpu_limit.h"
#include "bench/conductor/phases.h"
#include "bench/conductor/setup_phase.h"
#include "bench/conductor/step_partner.h"
#include "media/streams/open_stream.h"
#include "report/run/report_json.h"
#include "report/run/views.h"
#include "sources/host_info.h"
#include "trace/tracer_environment.h"

namespace headroom::bench {
namespace {

constexpr int kExitInterrupted = 130;  // as a shell reports a command ended by Ctrl-C

// True if any model failed: alone, in parallel, in the pipeline or in the pool. Skipped models did not fail.
bool any_model_failed(const BenchResult& result) {
  const auto failed = [](const ModelResult& model) {
    return model.status != ModelStatus::ok && model.status != ModelStatus::skipped;
  };
  return std::ranges::any_of(result.models, failed) ||
         (result.parallel && std::ranges::any_of(result.parallel->together, failed)) ||
         (result.pipeline && result.pipeline->status != ModelStatus::ok) ||
         (result.pool && result.pool->status != ModelStatus::ok);
}

// True if any of these runs exceeded a memory or GPU memory limit.
bool limit_violated(const BenchResult& result) {
  // For a model, the pipeline and the pool.
  const auto is_over = [](const auto& run) {
    return run.memory.within_limit == false || std::ranges::any_of(run.gpu_memory, [](const GpuMemory& gpu) {
             return gpu.within_limit == false;
           });
  };
  return std::ranges::any_of(result.models, is_over) ||
         (result.parallel &&
          (result.parallel->within_limit == false ||
           std::ranges::any_of(result.parallel->gpu_memory, &JointGpuMemory::is_over_limit))) ||
         (result.pipeline && is_over(*result.pipeline)) || (result.pool && is_over(*result.pool));
}

// The next command for the user: after a setup alone, the measurement; after a failure, its diagnosis.
std::string next_command(const Run& run) {
  constexpr std::string_view kSetupOnly = "--skip-inference";
  std::string command = run.result.command;
  const std::size_t at = command.find(kSetupOnly);
  if (!run.options.skip_inference || at == std::string::npos) {
    const bool has_failed = any_model_failed(run.result) || run.extra_failed;
    return fmt::format("headroom {} {}", has_failed ? "doctor" : "report",
                       shell_word(run.folder.path.string()));
  }
  return command.replace(at, kSetupOnly.size(), "--skip-setup");
}

Status finish(Run& run) {
  run.result.complete = !run.interrupted;
  auto written = save_finished(run);
  run.progress_line.clear();
  if (run.options.json) {
    print_output(report::report_text(run.result));
  } else {
    const Screen screen(STDOUT_FILENO, run.options.color);
    print_output(report::to_terminal(run.result, screen.in_color(), screen.width));
  }
  if (written && !run.options.json)
    print_output(fmt::format("\nReport: {}\n", (run.folder.path / "report.html").string()));
  if (written && !run.options.json && !run.options.quiet)
    print_output(fmt::format("Next: {}\n", next_command(run)));
  return written;
}

int exit_code(const Run& run) {
  if (run.interrupted) return kExitInterrupted;
  if (any_model_failed(run.result) || run.extra_failed) return 1;
  if (run.options.strict && limit_violated(run.result)) return 1;
  return 0;
}

// In step works only for models that run alone. Other timed parts of the two runs would disturb each other.
Status check_in_step(const BenchOptions& options) {
  if (options.in_step.empty()) return {};
  if (auto valid = check_step_name(options.in_step); !valid) return valid;
  const char* other = options.parallel         ? "--parallel"
                      : options.pipeline       ? "--pipeline"
                      : options.pool           ? "--pool"
                      : options.tune           ? "--tune"
                      : options.skip_inference ? "--skip-inference"
                                               : nullptr;
  if (other == nullptr) return {};
  return usage_error(fmt::format("--in-step cannot be combined with {}", other),
                     "only models that are measured alone take turns",
                     fmt::format("run {} separately", other));
}

// Runs the setup. With --in-step, waits for the other run first, and afterwards agrees with it on the models
// to measure.
Status prepare_with_partner(Run& run) {
  std::optional<StepPartner>& partner = run.partner;
  if (!run.options.in_step.empty()) {
    step(run, fmt::format("waiting for the other run of --in-step {}", run.options.in_step));
    auto met = StepPartner::meet(run.options.in_step, run.options.timeout, run.interrupt);
    if (!met) return forward_error(met);
    partner.emplace(std::move(*met));
  }
  if (auto prepared = prepare(run); !prepared) return prepared;
  if (!partner) return {};
  std::vector<std::string> models;  // that will be measured
  for (const PreparedModel& model : run.prepared.models)
    if (model.status == ModelStatus::ok) models.push_back(model.name);
  if (models.empty()) {  // the report shows it; the other run sees the closed connection
    partner.reset();
    return {};
  }
  step(run, "waiting for the setup of the other run");
  if (auto agreed = partner->agree(models, run.interrupt); !agreed) return agreed;
  if (partner->why_alone().empty()) return {};
  const std::string warning = partner->why_alone() + "; this run is measured without turns";
  log::warning("{}", warning);
  run.result.warnings.push_back(warning);
  partner.reset();
  return {};
}

Status check_options(const BenchOptions& options) {
  const bool shares_one_reader =
      options.parallel && options.models.size() > 1 && options.source && media::is_exclusive(*options.source);
  if (shares_one_reader)
    return usage_error(fmt::format("--parallel cannot read from {}", options.source->describe()),
                       "only one process can open it",
                       "record a video and use --source video=FILE, or use --pipeline");
  if (!options.gpu_memory_limit.empty() && cuda_devices(options).empty())
    return usage_error("--gpu-mem-limit has no effect", "no model runs on a GPU",
                       "add --device cuda:N, or use --mem-limit for host memory");
  if (auto valid = check_pool(options); !valid) return valid;
  if (auto valid = check_in_step(options); !valid) return valid;
  return options.layers ? trace::check_library(trace::tracer_library()) : Status{};
}

}  // namespace

Result<int> run_bench(const BenchOptions& options, const std::string& command,
                      const std::vector<std::string>& warnings) {
  if (auto valid = check_options(options); !valid) return forward_error(valid);
  const FixedAddresses fixed(!options.aslr);  // before any thread starts, because threads inherit it
  auto interrupt = Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  auto folder = create_run_folder(options.output_dir);
  if (!folder) return forward_error(folder);
  if (auto opened = log::open_file(folder->path / "run.log"); !opened) return forward_error(opened);

  Run run(options, std::move(*interrupt), std::move(*folder));
  run.result.run_name = run.folder.name;
  run.result.started_at = run.folder.started_at;
  run.result.command = command;
  run.result.host = sources::read_host_info();
  run.metrics.add_gpus_to(run.result.host);
  run.result.image_size = options.image_size;
  run.result.confidence = options.confidence;
  run.result.iou = options.iou;
  run.result.options = options;
  log::debug("command: {}", command);
  for (const std::string& warning : warnings) log::warning("{}", warning);  // the log file exists now
  run.result.warnings = warnings;
  if (trace::is_recorded()) {
    run.result.warnings.emplace_back(
        "headroom trace records this bench, which adds to its latency and memory; headroom bench --layers "
        "records each model in a separate process, so that these figures stay exact");
    log::warning("{}", run.result.warnings.back());
  }

  const auto remove_folder = [&] {
    std::error_code ignored;
    std::filesystem::remove_all(run.folder.path, ignored);
  };
  if (auto proved = prove_limits(run); !proved) {
    remove_folder();  // wrong use: nothing has started
    return forward_error(proved);
  }
  // From here on the report shows how far the limit is proved, and which models were requested.
  run.result.models = models_not_reached(options);
  if (auto saved = write_report_json(run.result, run.folder.path); !saved) {
    remove_folder();
    return not_writable(saved.error(), "--output-dir");
  }
  save_reports(run);
  if (auto prepared = prepare_with_partner(run); !prepared) {
    run.interrupted = was_interrupted(prepared.error());
    const ErrorKind kind = prepared.error().kind;
    if (!run.interrupted && (kind == ErrorKind::usage || kind == ErrorKind::input)) {
      remove_folder();  // wrong use and no results
      return forward_error(prepared);
    }
    if (!run.interrupted) run.result.warnings.push_back(prepared.error().sentence());
    save_reports(run);
    run.progress_line.clear();
    if (!run.interrupted) {
      log::warning("the setup failed; the report so far is in {}", run.folder.path.string());
      return forward_error(prepared);
    }
    log::warning("interrupted during the setup; the report so far is in {}", run.folder.path.string());
    return kExitInterrupted;
  }
  // Every model has been tried once; those that failed will not be measured.
  run.result.models.clear();
  run.measuring_since = monotonic_now();
  measure_models(run);
  if (!run.options.skip_inference && !run.interrupted) measure_extras(run);
  run.result.inference_time = monotonic_now() - run.measuring_since;
  // All measurements are done; the remaining work cannot change a figure.
  if (auto finished = finish(run); !finished) {
    if (run.disk_warned) return std::max(1, exit_code(run));  // the user was warned when the disk was full
    return forward_error(finished);
  }
  return exit_code(run);
}

}  // namespace headroom::bench
