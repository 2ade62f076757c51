#include "doctor/try/try_cures.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/subprocess.h"
#include "base/terminal.h"
#include "base/text.h"
#include "bench/conductor/child_process.h"
#include "doctor/cure_trials.h"
#include "report/input/run_input.h"
#include "types/bench_result.h"
#include "types/finding.h"

namespace headroom::doctor {
namespace fs = std::filesystem;
namespace {

using report::LoadedSide;

std::string last_line_of(const std::string& text) {
  std::string last;
  for (const std::string_view line : split(text, '\n'))
    if (!trim(line).empty()) last = trim(line);
  return last;
}

// A temporary folder for the runs of the trials. The destructor removes it.
class TrialFolder {
 public:
  static Result<TrialFolder> make() {
    std::error_code code;
    std::string name = (fs::temp_directory_path(code) / "headroom-try-XXXXXX").string();
    if (code || ::mkdtemp(name.data()) == nullptr)
      return failure("cannot create a folder for the trials", code ? code.message() : errno_text(errno),
                     "set TMPDIR to a writable folder");
    return TrialFolder(name);
  }
  TrialFolder(TrialFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TrialFolder& operator=(TrialFolder&&) = delete;
  ~TrialFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  explicit TrialFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

// Runs headroom bench for the trials.
class TrialBench {
 public:
  TrialBench(bench::Interrupt& interrupt, fs::path folder, std::size_t trials)
      : interrupt_(interrupt), folder_(std::move(folder)), trials_(trials) {}

  // Runs the bench of this model alone. Returns nothing after Ctrl-C. Fails if the bench wrote no report.
  Result<std::optional<LoadedSide>> run(const BenchResult& run, const ModelResult& model,
                                        const std::optional<CureSettings>& cure, const std::string& label) {
    if (cure && wants_preparing(run, *cure) && prepared_.insert(model.name + ',' + cure->settings).second) {
      // A failure is not reported here: the trial itself fails and reports it.
      auto ended = wait_for(preparing_arguments(run, model, *cure), "preparing", {},
                            label + ", preparing without the limit");
      if (!ended) return forward_error(ended);
      if (!*ended) return std::optional<LoadedSide>();
    }
    const std::string number = std::to_string(++number_);
    auto ended = wait_for(bench_arguments(run, model, cure), number, {"--sample-images", "0"}, label);
    if (!ended) return forward_error(ended);
    if (!*ended) return std::optional<LoadedSide>();
    auto loaded = report::load_runs({(folder_ / number).string()});
    if (loaded && !loaded->side.empty()) return std::optional(std::move(*loaded));
    const auto said = read_file(log(), mebibytes(1));
    return failure(fmt::format("the trial of {} wrote no report", label), said ? last_line_of(*said) : "",
                   "run its command manually: " + bench_command(run, model, cure));
  }

 private:
  // Returns false after Ctrl-C.
  Result<bool> wait_for(std::vector<std::string> arguments, const std::string& output,
                        const std::vector<std::string>& more, const std::string& label) {
    constexpr Nanoseconds kPatience{15'000'000'000};  // for a bench after Ctrl-C
    constexpr int kBetween = 100;                     // ms
    const UniqueFd messages(::open(log().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    arguments.insert(arguments.begin(), own_executable().string());
    arguments.insert(arguments.end(), {"--output-dir", (folder_ / output).string(), "--prepared-dir",
                                       (folder_ / "prepared").string(), "--quiet"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    SpawnOptions options;
    options.command = std::move(arguments);
    options.stderr_fd = messages.get();
    auto bench = Subprocess::spawn(options);
    if (!bench) return forward_error(bench);
    while (!bench->poll()) {
      line_.update("trying", static_cast<double>(number_ - 1) / static_cast<double>(trials_),
                   fmt::format("{} of {}: {}", number_, trials_, label));
      pollfd signals{interrupt_.fd(), POLLIN, 0};
      ::poll(&signals, 1, kBetween);
      if (!interrupt_.requested()) continue;
      bench->signal(SIGINT);
      if (!bench->wait_for(kPatience)) bench->signal(SIGKILL);
      bench->wait();
      return false;
    }
    return true;
  }
  fs::path log() const { return folder_ / "bench.log"; }

  bench::Interrupt& interrupt_;
  fs::path folder_;
  std::size_t trials_, number_ = 0;
  std::set<std::string> prepared_;  // by model and settings
  ProgressLine line_;
};

Status check_trial_run(const BenchResult& run, const std::string& name) {
  constexpr const char* kMeasureAnew = "measure again with headroom bench";
  if (!run.options)
    return input_error(fmt::format("cannot try cures for {}", name),
                       "its report is from an older Headroom and lacks the run's settings", kMeasureAnew);
  if (!run.source || run.source->spec.kind == SourceKind::camera) return {};
  std::error_code code;
  if (fs::exists(run.source->spec.path, code)) return {};
  return input_error(fmt::format("cannot try cures for {}", name),
                     fmt::format("its source {} is missing", run.source->spec.path),
                     "restore it, or run doctor on the machine that has it");
}

Status check_trial_model(const ModelResult& model, const std::string& name) {
  std::error_code code;
  if (fs::exists(model.path, code)) return {};
  return input_error(fmt::format("cannot try cures for {}", name),
                     fmt::format("the file {} of its model {} is missing", model.path, model.name),
                     "restore it, or measure again with headroom bench");
}

void append_runs(LoadedSide& all, LoadedSide more) {
  std::move(more.results.begin(), more.results.end(), std::back_inserter(all.results));
  std::move(more.combined.begin(), more.combined.end(), std::back_inserter(all.combined));
  std::move(more.side.begin(), more.side.end(), std::back_inserter(all.side));
}

// The trials of one model: without a cure, with each cure, and with all cures together that helped.
class ModelTrials {
 public:
  ModelTrials(TrialBench& bencher, const BenchResult& run, const ModelResult& model,
              std::vector<CureSettings> cures, std::size_t comparisons)
      : bencher_(bencher),
        run_(run),
        model_(model),
        cures_(std::move(cures)),
        comparisons_(comparisons),
        after_(cures_.size()) {
    if (cures_.empty() || cures_.front().also.empty()) return;
    as_it_was_ = CureSettings{model.name, ""};  // all at once
    as_it_was_->also = cures_.front().also;
  }

  // Measures in turns, so that changes of the machine affect all alike. This and measure_together() return
  // false after Ctrl-C.
  Result<bool> measure(std::int64_t rounds) {
    for (std::int64_t round = 0; round < rounds; ++round) {
      auto done = once(as_it_was_, before_);
      for (std::size_t i = 0; done && *done && i < cures_.size(); ++i) done = once(cures_[i], after_[i]);
      if (!done || !*done) return done;
    }
    return true;
  }

  // The cures that ran at least once.
  std::vector<TriedCure> judged() const {
    std::vector<TriedCure> tried;
    for (std::size_t i = 0; i < cures_.size(); ++i)
      if (!after_[i].side.empty()) tried.push_back(judge(cures_[i], after_[i]));
    return tried;
  }

  Result<bool> measure_together(const std::vector<TriedCure>& tried, std::int64_t rounds,
                                std::vector<TriedCure>& together) {
    const auto joint = best_together(tried, model_.settings);
    if (!joint) return true;
    LoadedSide after;
    for (std::int64_t round = 0; round < rounds; ++round)
      if (auto done = once(joint, after); !done || !*done) return done;
    together.push_back(judge(*joint, after));
    return true;
  }

 private:
  Result<bool> once(const std::optional<CureSettings>& cure, LoadedSide& side) {
    auto loaded = bencher_.run(run_, model_, cure, label_of(cure));
    if (!loaded) return forward_error(loaded);
    if (*loaded) append_runs(side, std::move(**loaded));
    return loaded->has_value();
  }

  std::string label_of(const std::optional<CureSettings>& cure) const {
    if (!cure || cure == as_it_was_) return model_.name + " unchanged";
    if (cure->leave_out_also) return fmt::format("{} alone", model_.name);
    return fmt::format("{} with {}", model_.name,
                       cure->settings.empty() ? "fewer frames in memory" : cure->settings);
  }

  TriedCure judge(const CureSettings& cure, const LoadedSide& after) const {
    // One session for all models runs their frames in turns; the time for that was not measured.
    const bool is_joint = !cure.also.empty(), with_latency = !cure.leave_out_also;
    const LoadedSide joint_before = joint_side(before_, with_latency),
                     joint_after = joint_side(after, with_latency);
    const comparison::RunComparison comparison = comparison::compare_runs(
        is_joint ? joint_before.side : before_.side, is_joint ? joint_after.side : after.side, comparisons_);
    return doctor::judge(
        cure, bench_command(run_, model_, cure),
        comparison.models.empty() ? comparison::ModelComparison() : comparison.models.front());
  }
  // Each run, with all models that were in memory at once as one model.
  static LoadedSide joint_side(const LoadedSide& side, bool with_latency) {
    LoadedSide joint;
    for (const comparison::ComparedRun& run : side.side) {
      auto result = std::make_unique<BenchResult>(*run.result);
      result->models = {joint_result(*run.result, "together")};
      comparison::ComparedModel compared{&result->models.front(), {}, ""};
      if (with_latency) compared.latency = joint_latency(*run.result);
      joint.side.push_back({run.name, result.get(), {compared}});
      joint.results.push_back(std::move(result));
    }
    return joint;
  }

  TrialBench& bencher_;
  const BenchResult& run_;
  const ModelResult& model_;
  std::vector<CureSettings> cures_;
  std::size_t comparisons_;                // of all trials: they share the false alarms
  std::optional<CureSettings> as_it_was_;  // for cures of several models
  LoadedSide before_;
  std::vector<LoadedSide> after_;  // of each cure
};

// Cures that are compared with the same unchanged run: of one model, or of several models at once.
struct TrialGroup {
  const ModelResult* model;
  std::vector<CureSettings> cures;
};

struct TrialPlan {
  LoadedSide loaded;  // the one run
  std::vector<CureSettings> cures;
  std::vector<TrialGroup> groups;
  const BenchResult& run() const { return *loaded.results.front(); }
};

// Fails if nothing can be tried, with the reason.
Result<TrialPlan> plan_trials(const std::string& run, const std::vector<Finding>& findings) {
  auto loaded = report::load_runs({run});
  if (!loaded) return forward_error(loaded);
  if (loaded->results.size() != 1)
    return usage_error(fmt::format("--try needs exactly one run, but {} has {}", run, loaded->results.size()),
                       "", "name the folder of one run");
  TrialPlan plan{std::move(*loaded), {}, {}};
  plan.cures = cures_to_try(findings, plan.run());
  if (plan.cures.empty())
    return input_error(fmt::format("cannot try cures for {}", run),
                       "no finding has a cure that is a setting of headroom bench",
                       "remove --try, or search settings with headroom bench --tune");
  if (auto sound = check_trial_run(plan.run(), run); !sound) return forward_error(sound);
  for (const ModelResult& model : plan.run().models)
    for (const bool is_joint : {false, true}) {
      TrialGroup group{&model, {}};
      std::ranges::copy_if(plan.cures, std::back_inserter(group.cures), [&](const CureSettings& cure) {
        return cure.model == model.name && !cure.also.empty() == is_joint;
      });
      if (group.cures.empty()) continue;
      if (auto sound = check_trial_model(model, run); !sound) return forward_error(sound);
      plan.groups.push_back(std::move(group));
    }
  return plan;
}

}  // namespace

bool can_try_cures(const std::string& run, const std::vector<Finding>& findings) {
  const bool has_settings = std::ranges::any_of(findings, [](const Finding& finding) {
    return std::ranges::any_of(finding.cures, [](const Cure& cure) { return cure.settings.has_value(); });
  });
  return has_settings && plan_trials(run, findings).has_value();
}

Status try_cures(const std::string& run, std::int64_t rounds, std::vector<Finding>& findings,
                 CureTrials& trials) {
  auto plan = plan_trials(run, findings);
  if (!plan) return forward_error(plan);
  const auto& [loaded, cures, groups] = *plan;
  const BenchResult& result = plan->run();
  auto interrupt = bench::Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  auto folder = TrialFolder::make();
  if (!folder) return forward_error(folder);
  TrialBench bencher(*interrupt, folder->path(),
                     (cures.size() + 2 * groups.size()) * static_cast<std::size_t>(rounds));
  for (const TrialGroup& group : groups) {
    const bool is_joint = !group.cures.front().also.empty();
    // One comparison for each cure, and one for those of a group together.
    ModelTrials of_model(bencher, result, *group.model, group.cures, cures.size() + groups.size());
    auto done = of_model.measure(rounds);
    std::vector<TriedCure> tried = of_model.judged();
    for (const TriedCure& one : tried) keep_trial(findings, one);
    if (done && *done && !is_joint) done = of_model.measure_together(tried, rounds, trials.together);
    if (!done) return forward_error(done);
    trials.interrupted = !*done;
    if (trials.interrupted) break;
  }
  return {};
}

}  // namespace headroom::doctor
