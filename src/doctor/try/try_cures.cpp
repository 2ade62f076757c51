#include "doctor/try/try_cures.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/files.h"
#include "base/subprocess.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/unfinished.h"
#include "bench/conductor/child_process.h"
#include "doctor/cure_trials.h"
#include "report/input/run_input.h"

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

// Runs headroom bench for the trials, until Ctrl-C.
class TrialBench {
 public:
  TrialBench(bench::Interrupt& interrupt, fs::path folder, std::size_t trials)
      : interrupt_(interrupt), folder_(std::move(folder)), trials_(trials) {}

  bool interrupted() const { return interrupted_; }

  // Runs the bench of this model alone. Empty after Ctrl-C. Fails if the bench wrote no report.
  Result<LoadedSide> run(const BenchResult& run, const ModelResult& model, const CureSettings& cure,
                         const std::string& label) {
    const auto preparing = preparing_arguments(run, model, cure);
    if (!preparing.empty() && prepared_.insert(model.name + ',' + cure.settings).second)
      // A failure is not reported here: the trial itself fails and reports it.
      if (auto ended = wait_for(preparing, "preparing", {}, label + ", preparing without the limit"); !ended)
        return forward_error(ended);
    const std::string number = std::to_string(++number_);
    if (auto ended = wait_for(bench_arguments(run, model, cure), number, {"--sample-images", "0"}, label);
        !ended)
      return forward_error(ended);
    if (interrupted_) return LoadedSide{};
    auto loaded = report::load_runs({(folder_ / number).string()});
    if (loaded && !loaded->side.empty()) return loaded;
    const auto said = read_file(log(), mebibytes(1));
    return failure(fmt::format("the trial of {} wrote no report", label), said ? last_line_of(*said) : "",
                   "run its command manually: " + bench_command(run, model, cure));
  }

 private:
  Status wait_for(std::vector<std::string> arguments, const std::string& output,
                  const std::vector<std::string>& more, const std::string& label) {
    constexpr Nanoseconds kPatience{15'000'000'000};  // for a bench after Ctrl-C
    constexpr int kBetween = 100;                     // ms
    if (interrupted_) return {};
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
    while (!interrupted_ && !bench->poll()) {
      line_.update("trying", static_cast<double>(number_ - 1) / static_cast<double>(trials_),
                   fmt::format("{} of {}: {}", number_, trials_, label));
      pollfd signals{interrupt_.fd(), POLLIN, 0};
      ::poll(&signals, 1, kBetween);
      interrupted_ = interrupt_.requested();
    }
    if (!interrupted_) return {};
    bench->signal(SIGINT);
    if (!bench->wait_for(kPatience)) bench->signal(SIGKILL);
    bench->wait();
    return {};
  }
  fs::path log() const { return folder_ / "bench.log"; }

  bench::Interrupt& interrupt_;
  bool interrupted_ = false;
  fs::path folder_;
  std::size_t trials_, number_ = 0;
  std::set<std::string> prepared_;  // by model and settings
  ProgressLine line_;
};

// Cures that are compared with the same unchanged run: of one model, or of several models at once.
struct TrialGroup {
  const ModelResult& model;
  std::vector<CureSettings> cures;
  bool is_joint() const { return !cures.front().also.empty(); }
};

// The trials of a group: without a cure, with each cure, and with all cures together that helped. After
// Ctrl-C, no more trials run.
class GroupTrials {
 public:
  GroupTrials(TrialBench& bencher, const BenchResult& run, const TrialGroup& group, std::size_t comparisons)
      : bencher_(bencher), run_(run), group_(group), comparisons_(comparisons), after_(group.cures.size()) {}

  // Measures in turns, so that changes of the machine affect all alike.
  Status measure(std::int64_t rounds) {
    for (std::int64_t round = 0; round < rounds; ++round) {
      auto done = once(as_it_was_, before_);
      for (std::size_t i = 0; done && i < after_.size(); ++i) done = once(group_.cures[i], after_[i]);
      if (!done) return done;
    }
    return {};
  }

  // The cures that ran at least once.
  std::vector<TriedCure> judged() const {
    std::vector<TriedCure> tried;
    for (std::size_t i = 0; i < after_.size(); ++i)
      if (!after_[i].side.empty()) tried.push_back(judge(group_.cures[i], after_[i]));
    return tried;
  }

  Status measure_together(const std::vector<TriedCure>& tried, std::int64_t rounds,
                          std::vector<TriedCure>& together) {
    const auto joint = best_together(tried, group_.model.settings);
    if (!joint) return {};
    LoadedSide after;
    for (std::int64_t round = 0; round < rounds; ++round)
      if (auto done = once(*joint, after); !done) return done;
    if (!bencher_.interrupted()) together.push_back(judge(*joint, after));
    return {};
  }

 private:
  Status once(const CureSettings& cure, LoadedSide& side) {
    auto loaded = bencher_.run(run_, group_.model, cure, label_of(cure));
    if (!loaded) return forward_error(loaded);
    std::ranges::move(loaded->results, std::back_inserter(side.results));
    std::ranges::move(loaded->combined, std::back_inserter(side.combined));
    std::ranges::move(loaded->side, std::back_inserter(side.side));
    return {};
  }

  std::string label_of(const CureSettings& cure) const {
    if (cure == as_it_was_) return group_.model.name + " unchanged";
    if (cure.leave_out_also) return fmt::format("{} alone", group_.model.name);
    return fmt::format("{} with {}", group_.model.name,
                       cure.settings.empty() ? "fewer frames in memory" : cure.settings);
  }

  TriedCure judge(const CureSettings& cure, const LoadedSide& after) const {
    // One session for all models runs their frames in turns; the time for that was not measured.
    const bool is_joint = !cure.also.empty(), with_latency = !cure.leave_out_also;
    const LoadedSide joint_before = joint_side(before_, with_latency),
                     joint_after = joint_side(after, with_latency);
    const comparison::RunComparison comparison = comparison::compare_runs(
        is_joint ? joint_before.side : before_.side, is_joint ? joint_after.side : after.side, comparisons_);
    return doctor::judge(
        cure, bench_command(run_, group_.model, cure),
        comparison.models.empty() ? comparison::ModelComparison() : comparison.models.front());
  }
  // Each run, with all models that were in memory at once as one model.
  static LoadedSide joint_side(const LoadedSide& side, bool with_latency) {
    LoadedSide joint;
    for (const comparison::ComparedRun& run : side.side) {
      auto result = std::make_unique<BenchResult>(*run.result);
      result->models = {joint_result(*run.result)};
      comparison::ComparedModel compared{&result->models.front(), {}, ""};
      if (with_latency) compared.latency = joint_latency(*run.result);
      joint.side.push_back({run.name, result.get(), {compared}});
      joint.results.push_back(std::move(result));
    }
    return joint;
  }

  TrialBench& bencher_;
  const BenchResult& run_;
  const TrialGroup& group_;
  std::size_t comparisons_;  // of all trials: they share the false alarms
  // Without a cure, all models of a joint group at once.
  CureSettings as_it_was_{.model = "", .settings = "", .also = group_.cures.front().also};
  LoadedSide before_;
  std::vector<LoadedSide> after_;  // of each cure
};

struct TrialPlan {
  LoadedSide loaded;  // the one run
  std::size_t cures = 0;
  std::vector<TrialGroup> groups{};
  const BenchResult& run() const { return *loaded.results.front(); }
};

// Fails if nothing can be tried, with the reason.
Result<TrialPlan> plan_trials(const std::string& name, const std::vector<Finding>& findings) {
  auto loaded = report::load_runs({name});
  if (!loaded) return forward_error(loaded);
  if (loaded->results.size() != 1)
    return usage_error(
        fmt::format("--try needs exactly one run, but {} has {}", name, loaded->results.size()), "",
        "name the folder of one run");
  TrialPlan plan{std::move(*loaded)};
  const BenchResult& run = plan.run();
  const auto cures = cures_to_try(findings, run);
  plan.cures = cures.size();
  const auto refuse = [&](std::string why, std::string fix) {
    return input_error(fmt::format("cannot try cures for {}", name), std::move(why), std::move(fix));
  };
  if (cures.empty())
    return refuse("no finding has a cure that is a setting of headroom bench",
                  "remove --try, or search settings with headroom bench --tune");
  if (!run.options)
    return refuse("its report is from an older Headroom and lacks the run's settings",
                  "measure again with headroom bench");
  std::error_code code;
  const bool is_path = run.source && (run.source->spec.kind == SourceKind::image_dir ||
                                      run.source->spec.kind == SourceKind::video);
  if (is_path && !fs::exists(run.source->spec.path, code))
    return refuse(fmt::format("its source {} is missing", run.source->spec.path),
                  "restore it, or run doctor on the machine that has it");
  for (const ModelResult& model : run.models)
    for (const bool is_joint : {false, true}) {
      TrialGroup group{model, {}};
      std::ranges::copy_if(cures, std::back_inserter(group.cures), [&](const CureSettings& cure) {
        return cure.model == model.name && !cure.also.empty() == is_joint;
      });
      if (group.cures.empty()) continue;
      if (!fs::exists(model.path, code))
        return refuse(fmt::format("the file {} of its model {} is missing", model.path, model.name),
                      "restore it, or measure again with headroom bench");
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

Result<bool> try_cures(const std::string& run, std::int64_t rounds, report::DoctorReport& report) {
  auto plan = plan_trials(run, report.findings);
  if (!plan) return forward_error(plan);
  auto interrupt = bench::Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  auto folder = ScratchFolder::create("try");
  if (!folder) return forward_error(folder);
  const std::size_t groups = plan->groups.size();
  TrialBench bencher(*interrupt, folder->path(),
                     (plan->cures + 2 * groups) * static_cast<std::size_t>(rounds));
  for (const TrialGroup& group : plan->groups) {
    // One comparison for each cure, and one for those of a group together.
    GroupTrials of_group(bencher, plan->run(), group, plan->cures + groups);
    auto done = of_group.measure(rounds);
    const std::vector<TriedCure> tried = of_group.judged();
    for (const TriedCure& one : tried) keep_trial(report.findings, one);
    if (done && !bencher.interrupted() && !group.is_joint())
      done = of_group.measure_together(tried, rounds, report.together);
    if (!done) return forward_error(done);
    if (bencher.interrupted()) return false;
  }
  return true;
}

}  // namespace headroom::doctor
