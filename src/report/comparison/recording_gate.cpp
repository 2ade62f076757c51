#include "report/comparison/recording_diff.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace headroom::report {
namespace {

using namespace comparison;

std::vector<GateFinding> check_peaks(const PeakLimit& limit, const DiffReport& report) {
  const PeakPair peaks = compared_peaks(report);
  const auto growth = static_cast<double>(peaks.growth());
  if (growth <= limit.allowed_growth(peaks.before)) return {};
  const std::string above =
      fmt::format("B's {} is {} above A's", report.choice.add_others ? "sum of the peaks" : "peak",
                  format_bytes({peaks.growth()}));
  const std::string noise = format_bytes({std::llround(peaks.noise())});
  // Two recordings of one program may differ by as much.
  if (growth < peaks.noise())
    return {{fmt::format("{}; --fail-above allows {}, but the difference is within two standard errors of "
                         "the samples ({}), so the gate passes; recordings of --full are exact",
                         above, limit.text, noise),
             false}};
  return {
      {fmt::format("{}: --fail-above allows {}{}", above, limit.text,
                   peaks.noise() > 0
                       ? fmt::format(", and it is more than two standard errors of the samples ({})", noise)
                       : ""),
       true}};
}

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
std::string unseen_process(const std::vector<FigureRule>& rules, const std::optional<PeakLimit>& limit,
                           const DiffReport& report) {
  constexpr std::int64_t kLeastPart = 100;
  if (report.choice.add_others) return {};
  std::int64_t all = report.diff.peak_bytes.before.value;
  for (const ProcessFigures& other : report.before.others) all += other.peak_bytes;
  for (const ProcessPair& pair : paired_processes(report)) {
    if (pair.after == nullptr || std::abs(pair.peak_change()) * kLeastPart < all) continue;
    GateFigures before, after;
    if (pair.before != nullptr) before.add(*pair.before);
    after.add(*pair.after);
    const auto found = check_figure_gate(rules, gated(before, after), gated_words);
    const double noise = 2 * std::hypot(before.peak_error, after.peak_error);
    const auto growth = static_cast<double>(pair.peak_change());
    const bool is_above =
        limit && growth >= noise &&
        growth > limit->allowed_growth(pair.before == nullptr ? 0 : pair.before->peak_bytes);
    if (is_above || found.has_breach())
      return fmt::format("it checked only the command's main process, but another process changed too: {}",
                         peak_words(pair));
  }
  return {};
}

// Why a gate that found nothing cannot pass.
std::optional<Error> not_judged(const std::vector<FigureRule>& rules, const std::optional<PeakLimit>& limit,
                                const DiffReport& report) {
  const auto error = [](std::string why, std::string fix) {
    return Error{ErrorKind::input, "cannot check the gate", std::move(why), std::move(fix)};
  };
  // A part of a recording can exceed a limit, but cannot prove that the whole does not.
  if (std::string why = incomplete_words(report); !why.empty())
    return error(std::move(why), "record again and let the program end normally");
  if (std::string why = unseen_process(rules, limit, report); !why.empty())
    return error(std::move(why),
                 "use --all to check the sums over all processes, or compare the recordings of that process");
  return std::nullopt;
}

}  // namespace

Result<PeakLimit> parse_peak_limit(std::string_view text) {
  PeakLimit limit{std::string(text), {}, 0};
  if (text.ends_with('%')) {
    const auto percent = parse_number<double>(trim(text.substr(0, text.size() - 1)));
    if (!percent || !std::isfinite(*percent) || *percent < 0)
      return usage_error(fmt::format("invalid percentage --fail-above {}", text), "",
                         "use a percentage of A's peak such as 5%, or a size such as 10MiB");
    limit.percent = *percent;
    return limit;
  }
  const auto size = parse_size(limit.text);
  const auto number = parse_number<double>(trim(text));
  if (!size && number && std::isfinite(*number) && *number >= 0)
    return usage_error(fmt::format("--fail-above {} has no unit", text), "",
                       fmt::format("write {0}MiB or {0}%", trim(text)));
  if (!size)
    return usage_error(fmt::format("invalid --fail-above {}: not a size or a percentage", text), "",
                       "use a size such as 10MiB, or a percentage such as 5%");
  limit.bytes = *size;
  return limit;
}

std::vector<GatedFigure> gated_recording_figures() { return gated({}, {}); }

GateJudgement judge_recordings(DiffReport& report, std::vector<FigureRule> rules,
                               std::optional<PeakLimit> limit) {
  if (report.is_one_recording) {
    std::vector<std::string> on_peaks;
    if (limit) on_peaks.push_back("--fail-above " + limit->text);
    report.not_judged = leave_out_changes(rules, std::move(on_peaks));
    limit.reset();
  }
  GateJudgement judgement = check_figure_gate(rules, figures_of_sides(report), gated_words);
  if (limit)
    for (GateFinding& finding : check_peaks(*limit, report)) judgement.findings.push_back(std::move(finding));
  report.gate = judgement.findings;
  if (judgement.not_judged) {
    report.not_judged = judgement.not_judged->sentence();
  } else if ((!rules.empty() || limit) && !judgement.has_breach()) {
    judgement.not_judged = not_judged(rules, limit, report);
    if (judgement.not_judged) report.not_judged = judgement.not_judged->why;
  }
  return judgement;
}

}  // namespace headroom::report
