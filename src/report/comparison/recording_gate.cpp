#include "report/comparison/recording_diff.h"

#include <fmt/format.h>

#include <cmath>

namespace headroom::report {
namespace {

using namespace comparison;

// The figures of the rules. Estimates have an interval of two standard errors.
struct GateFigures {
  double peak = 0, leaked = 0, allocations = 0, allocated = 0;
  double peak_error = 0, leaked_error = 0;

  void add(const ProcessFigures& process) {
    peak += static_cast<double>(process.peak_bytes);
    leaked += static_cast<double>(process.leaked_bytes);
    allocations += static_cast<double>(process.allocations);
    allocated += static_cast<double>(process.total_allocated_bytes);
    peak_error = std::hypot(peak_error, process.peak_standard_error);
  }
};

GateFigures gate_figures_of(const attribution::RecordingAnalysis& own) {
  return {static_cast<double>(own.peak_bytes.value), static_cast<double>(own.leaked_bytes.value),
          static_cast<double>(own.allocations),      static_cast<double>(own.total_allocated_bytes),
          own.peak_bytes.standard_error.value_or(0), own.leaked_bytes.standard_error.value_or(0)};
}

std::vector<GatedFigure> gated(const GateFigures& before, const GateFigures& after) {
  const auto one = [](const char* name, double a, double b, double error) {
    return GatedFigure{name, a, b, b - a - 2 * error, b - a + 2 * error};
  };
  return {
      one("peak_bytes", before.peak, after.peak, std::hypot(before.peak_error, after.peak_error)),
      one("leaked_bytes", before.leaked, after.leaked, std::hypot(before.leaked_error, after.leaked_error)),
      one("allocations", before.allocations, after.allocations, 0),
      one("total_allocated_bytes", before.allocated, after.allocated, 0)};
}

// Of the main process, or with --all the sums.
std::vector<GatedFigure> figures_of_sides(const DiffReport& report) {
  GateFigures before = gate_figures_of(report.before.recording.analysis),
              after = gate_figures_of(report.after.recording.analysis);
  if (report.choice.add_others) {
    for (const ProcessFigures& other : report.before.others) before.add(other);
    for (const ProcessFigures& other : report.after.others) after.add(other);
  }
  return gated(before, after);
}

std::string gated_words(const std::string& name, double value) {
  return name.ends_with("_bytes") ? format_bytes({std::llround(value)}) : fmt::format("{:.0f}", value);
}

// Without --all, names another process with 1 % of the peaks or more that breaks a rule: the main process
// may only be a launcher.
std::string unseen_process(const std::vector<FigureRule>& rules, const DiffReport& report) {
  constexpr std::int64_t kLeastPart = 100;
  if (report.choice.add_others) return {};
  const std::int64_t all = sums_of_peaks(report).before;
  for (const ProcessPair& pair : paired_processes(report)) {
    if (pair.after == nullptr || std::abs(pair.peak_change()) * kLeastPart < all) continue;
    GateFigures before, after;
    if (pair.before != nullptr) before.add(*pair.before);
    after.add(*pair.after);
    if (check_figure_gate(rules, gated(before, after), gated_words).has_breach())
      return fmt::format("it checked only the command's main process, but another process changed too: {}",
                         peak_words(pair));
  }
  return {};
}

// Why a gate that found nothing cannot pass.
std::optional<Error> not_judged(const std::vector<FigureRule>& rules, const DiffReport& report) {
  const auto error = [](std::string why, std::string fix) {
    return Error{ErrorKind::input, "cannot check the gate", std::move(why), std::move(fix)};
  };
  // A part of a recording can exceed a limit, but cannot prove that the whole does not.
  if (std::string why = incomplete_words(report); !why.empty())
    return error(std::move(why), "record again and let the program end normally");
  if (std::string why = unseen_process(rules, report); !why.empty())
    return error(std::move(why),
                 "use --all to check the sums over all processes, or compare the recordings of that process");
  return std::nullopt;
}

}  // namespace

std::vector<GatedFigure> gated_recording_figures() { return gated({}, {}); }

GateJudgement judge_recordings(DiffReport& report, std::vector<FigureRule> rules) {
  if (report.is_one_recording) report.not_judged = leave_out_changes(rules);
  GateJudgement judgement = check_figure_gate(rules, figures_of_sides(report), gated_words);
  report.gate = judgement.findings;
  if (judgement.not_judged) {
    report.not_judged = judgement.not_judged->sentence();
  } else if (!rules.empty() && !judgement.has_breach()) {
    judgement.not_judged = not_judged(rules, report);
    if (judgement.not_judged) report.not_judged = judgement.not_judged->why;
  }
  return judgement;
}

}  // namespace headroom::report
