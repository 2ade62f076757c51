#include "cli/doctor_try.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/subprocess.h"
#include "base/terminal.h"
#include "base/text.h"
#include "bench/interrupt.h"
#include "cli/bench_flags.h"
#include "cli/environment.h"
#include "cli/run_inputs.h"
#include "doctor/cure_trials.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

// Where the benches of the trials leave their runs; gone with it.
class Workplace {
 public:
  static Result<Workplace> make() {
    std::error_code code;
    std::string name = (fs::temp_directory_path(code) / "headroom-try-XXXXXX").string();
    if (code || ::mkdtemp(name.data()) == nullptr)
      return failure("cannot create a folder for the trials", code ? code.message() : errno_text(errno),
                     "set TMPDIR to a writable folder");
    return Workplace(name);
  }
  Workplace(Workplace&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Workplace& operator=(Workplace&&) = delete;
  ~Workplace() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  explicit Workplace(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

// The run's own settings count, and not what stands in the environment now.
void forget_flags_of_environment() {
  for (const Flag& flag : bench_verb().flags) {
    ::unsetenv(environment_name(flag.name).c_str());
    for (const std::string& alias : flag.aliases) ::unsetenv(environment_name(alias).c_str());
  }
}

constexpr std::int64_t kPatience = 15'000'000'000;  // for a bench that was told to end

class Bencher {
 public:
  Bencher(bench::Interrupt& interrupt, fs::path folder, std::size_t trials)
      : interrupt_(interrupt), folder_(std::move(folder)), trials_(trials) {}

  void expect(std::size_t more) { trials_ += more; }

  // The run of this model alone, or nothing once there was a Ctrl-C. An error if no run came of it.
  Result<std::optional<LoadedSide>> run(const BenchResult& run, const ModelResult& model,
                                        const std::optional<CureSettings>& cure, const std::string& label) {
    if (cure && doctor::wants_preparing(run, *cure) &&
        prepared_.insert(model.name + ',' + cure->settings).second) {
      std::vector<std::string> command{own_executable().string()};
      for (std::string& word : doctor::preparing_arguments(run, model, *cure))
        command.push_back(std::move(word));
      for (const std::string& word :
           {std::string("--output-dir"), (folder_ / "preparing").string(), std::string("--prepared-dir"),
            (folder_ / "prepared").string(), std::string("--quiet")})
        command.push_back(word);
      // Where it does not come through, the trial itself tells why.
      auto ended = wait_for(command, folder_ / "bench.log", label + ", preparing without the limit");
      if (!ended) return forward_error(ended);
      if (!*ended) return std::optional<LoadedSide>();
    }
    const fs::path output = folder_ / std::to_string(++number_);
    std::vector<std::string> command{own_executable().string()};
    for (std::string& word : doctor::bench_arguments(run, model, cure)) command.push_back(std::move(word));
    for (const std::string& word : {std::string("--output-dir"), output.string(),
                                    std::string("--prepared-dir"), (folder_ / "prepared").string(),
                                    std::string("--sample-images"), std::string("0"), std::string("--quiet")})
      command.push_back(word);
    const fs::path log = folder_ / "bench.log";
    auto ended = wait_for(command, log, label);
    if (!ended) return forward_error(ended);
    if (!*ended) return std::optional<LoadedSide>();
    auto loaded = load_runs({output.string()});
    if (loaded && !loaded->side.empty()) return std::optional(std::move(*loaded));
    const auto said = read_file(log, mebibytes(1));
    return failure(fmt::format("the trial of {} wrote no report", label), said ? last_line(*said) : "",
                   "run its command manually: " + doctor::bench_command(run, model, cure));
  }

 private:
  static std::string last_line(const std::string& text) {
    std::string last;
    for (const std::string_view line : split(text, '\n'))
      if (!trim(line).empty()) last = trim(line);
    return last;
  }

  // False once there was a Ctrl-C.
  Result<bool> wait_for(const std::vector<std::string>& command, const fs::path& log,
                        const std::string& label) {
    const UniqueFd messages(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    SpawnOptions options;
    options.command = command;
    options.stderr_fd = messages.get();
    auto bench = Subprocess::spawn(options);
    if (!bench) return forward_error(bench);
    while (!bench->poll()) {
      line_.update("trying", static_cast<double>(number_ - 1) / static_cast<double>(trials_),
                   fmt::format("{} of {}: {}", number_, trials_, label));
      pollfd signals{interrupt_.fd(), POLLIN, 0};
      constexpr int kBetween = 100;  // ms
      ::poll(&signals, 1, kBetween);
      if (!interrupt_.requested()) continue;
      bench->signal(SIGINT);
      if (!bench->wait_for(Nanoseconds{kPatience})) bench->signal(SIGKILL);
      bench->wait();
      return false;
    }
    return true;
  }

  bench::Interrupt& interrupt_;
  fs::path folder_;
  std::size_t trials_, number_ = 0;
  std::set<std::string> prepared_;  // by model and settings
  ProgressLine line_;
};

Status check_run(const BenchResult& run, const std::string& name) {
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

Status check_model(const ModelResult& model, const std::string& name) {
  std::error_code code;
  if (fs::exists(model.path, code)) return {};
  return input_error(fmt::format("cannot try cures for {}", name),
                     fmt::format("the file {} of its model {} is missing", model.path, model.name),
                     "restore it, or measure again with headroom bench");
}

void append(LoadedSide& all, LoadedSide more) {
  std::move(more.results.begin(), more.results.end(), std::back_inserter(all.results));
  std::move(more.combined.begin(), more.combined.end(), std::back_inserter(all.combined));
  std::move(more.side.begin(), more.side.end(), std::back_inserter(all.side));
}

// One model of the run: as it was, with each cure, and with those together that helped.
class ModelTrials {
 public:
  ModelTrials(Bencher& bencher, const BenchResult& run, const ModelResult& model,
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

  // In turns: what the machine does meanwhile falls on all alike. False once there was a Ctrl-C.
  Result<bool> measure(std::int64_t rounds) {
    std::vector<std::size_t> all(cures_.size());
    std::iota(all.begin(), all.end(), 0);
    return measure(rounds, all);
  }

  // Of those that were run once or more.
  std::vector<TriedCure> judged() const {
    std::vector<TriedCure> tried;
    for (std::size_t i = 0; i < cures_.size(); ++i)
      if (!after_[i].side.empty()) tried.push_back(judge(cures_[i], after_[i], comparisons_));
    return tried;
  }

  // What differs by much and could not be told, with as many runs more. When the samples of shares of pages
  // fall moves with whatever else the machine does: a third of the peak from run to run, and three runs
  // cannot tell even half of it. False once there was a Ctrl-C; `tried`, of all cures, is then as it was.
  Result<bool> measure_again(std::int64_t rounds, std::vector<TriedCure>& tried) {
    std::vector<std::size_t> untold;
    for (std::size_t i = 0; i < tried.size(); ++i)
      if (doctor::needs_more_runs(tried[i])) untold.push_back(i);
    if (untold.empty()) return true;
    bencher_.expect((1 + untold.size()) * static_cast<std::size_t>(rounds));
    if (auto done = measure(rounds, untold); !done || !*done) return done;
    for (const std::size_t i : untold) {
      // A second look at the same comparison has false alarms of its own: it gets half of what the first had.
      tried[i] = judge(cures_[i], after_[i], 2 * comparisons_);
      tried[i].sentence += fmt::format("; {} runs each, because {} gave no clear result", 2 * rounds, rounds);
    }
    return true;
  }

  // False once there was a Ctrl-C.
  Result<bool> measure_together(const std::vector<TriedCure>& tried, std::int64_t rounds,
                                std::vector<TriedCure>& together) {
    const auto joint = doctor::best_together(tried, model_.settings);
    if (!joint) return true;
    LoadedSide after;
    for (std::int64_t round = 0; round < rounds; ++round)
      if (auto done = once(joint, after); !done || !*done) return done;
    together.push_back(judge(*joint, after, comparisons_));
    return true;
  }

 private:
  Result<bool> measure(std::int64_t rounds, const std::vector<std::size_t>& cures) {
    for (std::int64_t round = 0; round < rounds; ++round) {
      auto done = once(as_it_was_, before_);
      for (std::size_t i = 0; done && *done && i < cures.size(); ++i)
        done = once(cures_[cures[i]], after_[cures[i]]);
      if (!done || !*done) return done;
    }
    return true;
  }

  Result<bool> once(const std::optional<CureSettings>& cure, LoadedSide& side) {
    auto loaded = bencher_.run(run_, model_, cure, label_of(cure));
    if (!loaded) return forward_error(loaded);
    if (*loaded) append(side, std::move(**loaded));
    return loaded->has_value();
  }

  std::string label_of(const std::optional<CureSettings>& cure) const {
    if (!cure || cure == as_it_was_) return model_.name + " unchanged";
    if (cure->leave_out_also) return fmt::format("{} alone", model_.name);
    return fmt::format("{} with {}", model_.name,
                       cure->settings.empty() ? "fewer frames in memory" : cure->settings);
  }

  TriedCure judge(const CureSettings& cure, const LoadedSide& after, std::size_t comparisons) const {
    if (!cure.also.empty()) return judge_joint(cure, after, comparisons);
    const comparison::RunComparison comparison =
        comparison::compare_runs(before_.side, after.side, comparisons);
    for (const comparison::ModelComparison& model : comparison.models)
      if (model.name == model_.name)
        return doctor::judge(cure, doctor::bench_command(run_, model_, cure), model);
    comparison::ModelComparison absent;  // cannot be: the bench reports each model that it was given
    absent.outcome_after.runs = absent.outcome_after.failed = 1;
    absent.outcome_after.status = ModelStatus::failed;
    return doctor::judge(cure, doctor::bench_command(run_, model_, cure), absent);
  }

  // Each run with all that were in memory at once as one model.
  static LoadedSide joint_side(const LoadedSide& side, bool with_latency) {
    LoadedSide joint;
    for (const comparison::ComparedRun& run : side.side) {
      auto result = std::make_unique<BenchResult>(*run.result);
      result->models = {doctor::joint_result(*run.result, "together")};
      comparison::ComparedModel compared{&result->models.front(), {}, ""};
      if (with_latency) compared.latency = doctor::joint_latency(*run.result);
      joint.side.push_back({run.name, result.get(), {compared}});
      joint.results.push_back(std::move(result));
    }
    return joint;
  }

  TriedCure judge_joint(const CureSettings& cure, const LoadedSide& after, std::size_t comparisons) const {
    // A session that serves for all has their frames in turns: how long that takes was not measured.
    const bool with_latency = !cure.leave_out_also;
    const LoadedSide then = joint_side(before_, with_latency), now = joint_side(after, with_latency);
    const comparison::RunComparison comparison = comparison::compare_runs(then.side, now.side, comparisons);
    return doctor::judge(cure, doctor::bench_command(run_, model_, cure), comparison.models.at(0));
  }

  Bencher& bencher_;
  const BenchResult& run_;
  const ModelResult& model_;
  std::vector<CureSettings> cures_;
  std::size_t comparisons_;                // of the whole trial, which share the false alarms
  std::optional<CureSettings> as_it_was_;  // of cures of several models
  LoadedSide before_;
  std::vector<LoadedSide> after_;  // of each cure
};

}  // namespace

namespace {

// Cures that are compared with one run as it was: of one model, or of the same several at once.
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

// An error where nothing can be tried, with the reason.
Result<TrialPlan> plan_trials(const std::string& run, const std::vector<Finding>& findings) {
  auto loaded = load_runs({run});
  if (!loaded) return forward_error(loaded);
  if (loaded->results.size() != 1)
    return usage_error(fmt::format("--try needs exactly one run, but {} has {}", run, loaded->results.size()),
                       "", "name the folder of one run");
  TrialPlan plan{std::move(*loaded), {}, {}};
  plan.cures = doctor::cures_to_try(findings, plan.run());
  if (plan.cures.empty())
    return input_error(fmt::format("cannot try cures for {}", run),
                       "no finding has a cure that is a setting of headroom bench",
                       "remove --try, or search settings with headroom bench --tune");
  if (auto sound = check_run(plan.run(), run); !sound) return forward_error(sound);
  for (const ModelResult& model : plan.run().models)
    for (const bool is_joint : {false, true}) {
      TrialGroup group{&model, {}};
      std::copy_if(plan.cures.begin(), plan.cures.end(), std::back_inserter(group.cures),
                   [&](const CureSettings& cure) {
                     return cure.model == model.name && !cure.also.empty() == is_joint;
                   });
      if (group.cures.empty()) continue;
      if (auto sound = check_model(model, run); !sound) return forward_error(sound);
      plan.groups.push_back(std::move(group));
    }
  return plan;
}

}  // namespace

bool can_try_cures(const std::string& run, const std::vector<Finding>& findings) {
  const bool has_settings = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return std::any_of(finding.cures.begin(), finding.cures.end(),
                       [](const Cure& cure) { return cure.settings.has_value(); });
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
  auto workplace = Workplace::make();
  if (!workplace) return forward_error(workplace);
  forget_flags_of_environment();
  Bencher bencher(*interrupt, workplace->path(),
                  (cures.size() + 2 * groups.size()) * static_cast<std::size_t>(rounds));
  for (const TrialGroup& group : groups) {
    const bool is_joint = !group.cures.front().also.empty();
    ModelTrials of_model(bencher, result, *group.model, group.cures, doctor::comparisons_of(cures));
    auto done = of_model.measure(rounds);
    std::vector<TriedCure> tried = of_model.judged();
    if (done && *done) done = of_model.measure_again(rounds, tried);
    for (const TriedCure& one : tried) doctor::keep_trial(findings, one);
    if (done && *done && !is_joint) done = of_model.measure_together(tried, rounds, trials.together);
    if (!done) return forward_error(done);
    trials.interrupted = !*done;
    if (trials.interrupted) break;
  }
  return {};
}

}  // namespace headroom::cli
