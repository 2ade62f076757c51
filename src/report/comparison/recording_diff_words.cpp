#include "report/comparison/recording_diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <tuple>

#include "report/recording/recording_views.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"

namespace headroom::report {
namespace {

using namespace attribution;
using namespace comparison;

constexpr int kWidthOfAName = 100;
constexpr double kLeastShare = 0.05;

struct Cause {
  std::string name;
  std::int64_t change = 0;
};

struct Change {
  std::int64_t bytes = 0;
  double variance = 0;  // of samples

  void add(const DiffRow& row) {
    bytes += row.peak_change();
    const double error = row.peak_standard_error().value_or(0);
    variance += error * error;
  }
  // As FigureChange::differs().
  bool differs() const { return std::abs(static_cast<double>(bytes)) >= 2 * std::sqrt(variance); }
};

// The largest change in the direction of the peak; no name if there is none.
Cause leading(const std::map<std::string, Change>& changes, bool grew) {
  Cause cause;
  for (const auto& [name, change] : changes)
    if (change.differs() && (grew ? change.bytes > cause.change : change.bytes < cause.change))
      cause = {name, change.bytes};
  return cause;
}

// A layer, else the function that allocated, over all of its stacks.
Cause cause_of_growth(const DiffReport& report, bool grew) {
  std::map<std::string, Change> changes;
  for (const DiffRow& row : report.diff.by(DiffBy::layer)) changes[row.name].add(row);
  if (Cause cause = leading(changes, grew); !cause.name.empty()) return cause;
  changes.clear();
  for (const DiffRow& row : report.diff.by(DiffBy::stack)) {
    const std::string stack = one_line_stack(row.frames, kWidthOfAName);
    changes[stack.substr(0, stack.find(" ← "))].add(row);
  }
  return leading(changes, grew);
}

std::string words_for_cause(const DiffReport& report, std::int64_t change) {
  const Cause cause = cause_of_growth(report, change > 0);
  const double share = static_cast<double>(cause.change) / static_cast<double>(change);
  if (share < kLeastShare) return "";
  if (share > 1)
    return fmt::format("; {} alone holds {} {}", cause.name, format_bytes({std::abs(cause.change)}),
                       change > 0 ? "more" : "less");
  return fmt::format("; {:.0f} % of it is {}", 100 * share, cause.name);
}

std::string peak_sentence(const DiffReport& report) {
  const FigureChange& peak = report.diff.peak_bytes;
  const std::int64_t change = peak.change();
  if (change == 0) return fmt::format("B peaks as high as A, at {}", format_bytes({peak.after.value}));
  if (!peak.differs())
    return fmt::format("B peaks about as high as A: {} is within the sampling error (± {})",
                       signed_bytes(change), format_bytes({std::llround(2 * *peak.standard_error())}));
  const std::string percent = signed_percent(peak.before.value, peak.after.value);
  return fmt::format("B peaks {} {}{}{}", format_bytes({std::abs(change)}), change > 0 ? "higher" : "lower",
                     percent.empty() ? "" : fmt::format(" ({})", percent), words_for_cause(report, change));
}

// Only if it matters beside the peak.
std::string end_sentence(const DiffReport& report) {
  const FigureChange& leaked = report.diff.leaked_bytes;
  constexpr std::int64_t kLeast = 4096, kLeastPartOfPeak = 100;
  const std::int64_t least = std::max(kLeast, report.diff.peak_bytes.before.value / kLeastPartOfPeak);
  if (!leaked.differs() || std::abs(leaked.change()) < least) return "";
  return fmt::format(" At its end, {} {} is live.", format_bytes({std::abs(leaked.change())}),
                     leaked.change() > 0 ? "more" : "less");
}

using Processes = std::vector<const ProcessFigures*>;

// "/usr/bin/python3 -c x" is "python3".
std::string program_of(const ProcessFigures& process) {
  const std::string path = process.command.substr(0, process.command.find(' '));
  return path.substr(path.rfind('/') + 1);
}

// Pairs the processes with equal keys in their order.
template <class KeyOf>
void pair_equal(Processes& before, Processes& after, KeyOf key_of, std::vector<ProcessPair>& pairs) {
  std::map<std::string, std::deque<const ProcessFigures*>> by_key;
  for (const ProcessFigures* process : after) by_key[key_of(*process)].push_back(process);
  std::erase_if(before, [&](const ProcessFigures* process) {
    auto& others = by_key[key_of(*process)];
    if (others.empty()) return false;
    pairs.push_back({process, others.front()});
    std::erase(after, others.front());
    others.pop_front();
    return true;
  });
}

// Its end or events are missing. Blocks that bypass the tracer are missing in every recording of a program,
// so they do not count.
bool is_cut(const DiffSide& side) {
  const RecordingAnalysis& analysis = side.recording.analysis;
  const std::size_t of_the_allocator = analysis.unseen_blocks > 0 ? 1 : 0;
  return !side.info.closed || analysis.dropped_events > 0 || analysis.gaps > 0 ||
         side.info.segments_overwritten > 0 || analysis.problems.size() > of_the_allocator;
}

// The first reason.
std::string why_incomplete(const DiffSide& side, bool with_others) {
  if (is_cut(side)) {
    std::string words = problems_of(side.info, side.recording.analysis).front();
    if (words.starts_with("The ")) words.front() = 't';  // within a sentence
    return words;
  }
  if (!with_others) return "";
  for (const ProcessFigures& other : side.others)
    if (!other.problem.empty() || !other.complete)
      return other.problem.empty() ? fmt::format("the recording of {} was cut off", other.command)
                                   : other.problem;
  return "";
}

std::string words_for_mode(const RecordingAnalysis& analysis) {
  return analysis.full ? "every allocation" : "large allocations and samples";
}

// "python3 detector.py peaks 4.0 MiB higher (10.7 MiB to 14.7 MiB)".
std::string peak_words(const ProcessPair& pair) {
  const std::string& command = (pair.after != nullptr ? pair.after : pair.before)->command;
  if (pair.before == nullptr)
    return fmt::format("{} is new, and peaks at {}", command, format_bytes({pair.after->peak_bytes}));
  if (pair.after == nullptr)
    return fmt::format("{} is gone; it peaked at {}", command, format_bytes({pair.before->peak_bytes}));
  return fmt::format("{} peaks {} {} ({} to {})", command, format_bytes({std::abs(pair.peak_change())}),
                     pair.peak_change() > 0 ? "higher" : "lower", format_bytes({pair.before->peak_bytes}),
                     format_bytes({pair.after->peak_bytes}));
}

// For a launcher or shell: another process changed more than the command's own, and by 1 % of all peaks.
std::string process_sentence(const DiffReport& report) {
  constexpr std::int64_t kLeastPart = 100;
  const auto pairs = paired_processes(report);
  if (pairs.empty()) return "";
  const auto size = [](const ProcessPair& pair) { return std::abs(pair.peak_change()); };
  const auto most =
      std::ranges::max_element(pairs, [&](const auto& a, const auto& b) { return size(a) < size(b); });
  std::int64_t all = report.diff.peak_bytes.before.value;
  double variance = 0;
  for (const ProcessFigures* process : {most->before, most->after})
    if (process != nullptr) variance += process->peak_standard_error * process->peak_standard_error;
  for (const ProcessFigures& other : report.before.others) all += other.peak_bytes;
  if (size(*most) <= std::abs(report.diff.peak_bytes.change()) || size(*most) * kLeastPart < all ||
      static_cast<double>(size(*most)) < 2 * std::sqrt(variance))
    return "";
  return fmt::format(" This is only the command's main process. Another process changed more: {}.",
                     peak_words(*most));
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

std::string incomplete_words(const DiffReport& report) {
  std::vector<std::string> sides;
  for (const auto& [side, name] : {std::pair{&report.before, 'A'}, std::pair{&report.after, 'B'}})
    if (const std::string why = why_incomplete(*side, report.choice.add_others); !why.empty())
      sides.push_back(fmt::format("{} ({}) is incomplete: {}", name, side->file, why));
  return fmt::format("{}", fmt::join(sides, "; "));
}

std::string diff_verdict(const DiffReport& report) {
  if (report.is_one_recording)
    return "A and B are the same recording: name one from before the change and one from after it.";
  const std::string incomplete = incomplete_words(report);
  return fmt::format("{}{}.{}{}", incomplete.empty() ? "" : incomplete + ". In the recorded part, ",
                     peak_sentence(report), end_sentence(report), process_sentence(report));
}

std::vector<std::string> diff_caveats(const DiffReport& report) {
  std::vector<std::string> caveats;
  const DiffSide &a = report.before, &b = report.after;
  if (a.recording.analysis.full != b.recording.analysis.full)
    caveats.push_back(
        fmt::format("A recorded {}, B {}: only the totals of small allocations can be compared.",
                    words_for_mode(a.recording.analysis), words_for_mode(b.recording.analysis)));
  for (const auto& [side, name] : {std::pair{&a, 'A'}, std::pair{&b, 'B'}}) {
    if (!side->info.closed)
      caveats.push_back(fmt::format(
          "{} was killed or is still running: memory that is live at its end is not a leak.", name));
    for (const std::string& part : missing_parts(side->info, side->recording.analysis))
      caveats.push_back(fmt::format("{}: {}", name, part));
    for (const ProcessFigures& other : side->others)
      if (!other.problem.empty()) caveats.push_back(fmt::format("{}: {}.", name, other.problem));
  }
  return caveats;
}

std::vector<std::string> figure_cells(std::string_view name, const FigureChange& figure) {
  const auto words = [](const attribution::Figure& side) {
    if (side.at_most) return fmt::format("≤ {}", format_bytes({*side.at_most}));
    return fmt::format("{}{}{}", side.at_least ? "≥ " : "", side.standard_error ? "≈ " : "",
                       format_bytes({side.value}));
  };
  return {std::string(name), words(figure.before), words(figure.after), signed_bytes(figure.change()),
          signed_percent(figure.before.value, figure.after.value)};
}

std::string signed_percent(std::int64_t before, std::int64_t after) {
  if (before == 0) return "";
  if (before == after) return "0.0 %";
  return fmt::format("{:+.1f} %", 100 * (static_cast<double>(after) / static_cast<double>(before) - 1));
}

std::vector<ProcessPair> paired_processes(const DiffReport& report) {
  // Unreadable ones have no command; diff_caveats() names them.
  Processes before, after;
  for (const ProcessFigures& process : report.before.others)
    if (process.problem.empty()) before.push_back(&process);
  for (const ProcessFigures& process : report.after.others)
    if (process.problem.empty()) after.push_back(&process);
  std::vector<ProcessPair> pairs;
  pair_equal(
      before, after, [](const ProcessFigures& process) { return process.command; }, pairs);
  pair_equal(
      before, after, [](const ProcessFigures& process) { return program_of(process); }, pairs);
  for (const ProcessFigures* process : before) pairs.push_back({process, nullptr});
  for (const ProcessFigures* process : after) pairs.push_back({nullptr, process});
  std::ranges::stable_sort(pairs, std::greater{}, &ProcessPair::peak_change);
  return pairs;
}

PeakSums sums_of_peaks(const DiffReport& report) {
  PeakSums sums{report.diff.peak_bytes.before.value, report.diff.peak_bytes.after.value};
  for (const ProcessFigures& process : report.before.others) sums.before += process.peak_bytes;
  for (const ProcessFigures& process : report.after.others) sums.after += process.peak_bytes;
  return sums;
}

std::vector<const DiffRow*> chosen_rows(const std::vector<DiffRow>& rows, std::int64_t at_least,
                                        std::size_t top) {
  std::vector<const DiffRow*> chosen;
  for (const DiffRow& row : rows)
    if (std::max(std::abs(row.peak_change()), std::abs(row.end_change())) >= at_least) chosen.push_back(&row);
  if (chosen.size() <= top) return chosen;
  std::ranges::stable_sort(chosen, std::greater{}, [](const DiffRow* row) {
    return std::tuple(std::abs(row->peak_change()), std::abs(row->end_change()),
                      std::abs(row->allocated_change()));
  });
  chosen.resize(top);
  std::ranges::sort(chosen);  // they lie in one list, the largest growth first
  return chosen;
}

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
