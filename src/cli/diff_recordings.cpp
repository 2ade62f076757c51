#include "cli/diff_recordings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <optional>

#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/common_flags.h"
#include "cli/diff_runs.h"
#include "cli/recording_report.h"
#include "exporters/named_stacks.h"
#include "report/comparison/recording_diff_views.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

using comparison::DiffBy;

// What --fail-above allows: bytes, or a share of A's peak.
struct Gate {
  std::string text;  // as it was given
  std::optional<Bytes> bytes;
  double percent = 0;

  // Of the peaks; the largest that is allowed.
  double allowed_growth(std::int64_t before) const {
    return bytes ? static_cast<double>(bytes->count) : static_cast<double>(before) * percent / 100;
  }
};

Result<std::optional<Gate>> gate_of(const FlagValues& values) {
  if (!values.has("fail-above")) return std::nullopt;
  Gate gate{values.text("fail-above"), {}, 0};
  if (gate.text.ends_with('%')) {
    const auto percent =
        parse_number<double>(trim(std::string_view(gate.text).substr(0, gate.text.size() - 1)));
    if (!percent || !std::isfinite(*percent) || *percent < 0)
      return usage_error(fmt::format("invalid percentage --fail-above {}", gate.text), "",
                         "use a percentage of A's peak such as 5%, or a size such as 10MiB");
    gate.percent = *percent;
    return gate;
  }
  const auto size = parse_size(gate.text);
  const auto number = parse_number<double>(trim(gate.text));
  if (!size && number && std::isfinite(*number) && *number >= 0)
    return usage_error(fmt::format("--fail-above {} has no unit", gate.text), "",
                       fmt::format("write {0}MiB or {0}%", trim(gate.text)));
  if (!size)
    return usage_error(fmt::format("invalid --fail-above {}: not a size or a percentage", gate.text), "",
                       "use a size such as 10MiB, or a percentage such as 5%");
  gate.bytes = *size;
  return gate;
}

report::DiffChoice choice_of(const FlagValues& values) {
  report::DiffChoice choice;
  for (const DiffBy by : comparison::kDiffBy)
    if (values.text("by") == name_of(by)) choice.by = by;
  if (const auto top = values.integer("top")) choice.top = static_cast<std::size_t>(*top);
  if (values.has("min")) choice.at_least = parse_size(values.text("min"))->count;  // checked by its kind
  choice.add_others = values.toggle("all");
  return choice;
}

// A recording by groups, with the names that its symbols give.
comparison::GroupedRecording group_by_names(recording::Recording& recording,
                                            symbols::SymbolizerOptions options,
                                            const std::set<std::string>& of_one_build,
                                            std::vector<std::string>& problems) {
  symbols::Symbolizer symbolizer(recording.info().modules, std::move(options));
  bool prepared = false;
  const auto names = [&](std::uint64_t return_address) {
    // The first is asked for when all stacks are known.
    if (!prepared) exporters::prepare_symbols({recording, symbolizer});
    prepared = true;
    std::vector<comparison::NamedFrame> frames;
    for (const symbols::SourceFrame& frame : symbolizer.frames_of(return_address, true))
      frames.push_back({std::string(frame.function), std::string(frame.module), frame.named});
    return frames;
  };
  auto grouped = comparison::group_recording(recording, names, of_one_build);
  for (std::string& problem : symbolizer.problems()) problems.push_back(std::move(problem));
  return grouped;
}

void print_view(const report::DiffReport& report, const FlagValues& values) {
  if (values.toggle("json")) return print_output(to_text(diff_to_json(report)));
  if (values.toggle("csv")) return print_output(diff_to_csv(report));
  if (values.toggle("markdown")) return print_output(diff_to_markdown(report));
  print_output(diff_to_terminal(report, wants_color(values), terminal_width(STDOUT_FILENO)));
}

// What --fail-above finds: nothing, a breach, or growth that may be chance.
std::vector<comparison::GateFinding> check_peaks(const Gate& gate, const report::DiffReport& report) {
  const report::PeakPair peaks = compared_peaks(report);
  const auto growth = static_cast<double>(peaks.growth());
  if (growth <= gate.allowed_growth(peaks.before)) return {};
  const std::string above =
      fmt::format("B's {} is {} above A's", report.choice.add_others ? "sum of the peaks" : "peak",
                  format_bytes({peaks.growth()}));
  const std::string noise = format_bytes({std::llround(peaks.noise())});
  // Two recordings of one program differ by as much now and then: a gate that fails on it is soon switched
  // off.
  if (growth < peaks.noise())
    return {{fmt::format("{}; --fail-above allows {}, but the difference is within two standard errors of "
                         "the samples ({}), so the gate passes; recordings of --full are exact",
                         above, gate.text, noise),
             false}};
  return {
      {fmt::format("{}: --fail-above allows {}{}", above, gate.text,
                   peaks.noise() > 0
                       ? fmt::format(", and it is more than two standard errors of the samples ({})", noise)
                       : ""),
       true}};
}

void warn_of_unseen(const report::DiffReport& report) {
  for (const auto& [side, name] : {std::pair{&report.before, 'A'}, std::pair{&report.after, 'B'}})
    if (side->recording.analysis.unseen_blocks > 0)
      log::warning(
          "{} ({}) has frees of blocks whose allocation was not recorded, so its real peak may be higher "
          "than the gate's figure",
          name, side->file);
}

// What the rules judge, by the names of --json. What stands on samples is known to two standard errors.
struct Figures {
  double peak = 0, leaked = 0, allocations = 0, allocated = 0;
  double peak_error = 0, leaked_error = 0;

  void add(const report::ProcessFigures& process) {
    peak += static_cast<double>(process.peak_bytes);
    leaked += static_cast<double>(process.leaked_bytes);
    allocations += static_cast<double>(process.allocations);
    allocated += static_cast<double>(process.total_allocated_bytes);
    peak_error = std::hypot(peak_error, process.peak_standard_error);
  }
};

Figures figures_of(const attribution::RecordingAnalysis& own) {
  return {static_cast<double>(own.peak_bytes.value), static_cast<double>(own.leaked_bytes.value),
          static_cast<double>(own.allocations),      static_cast<double>(own.total_allocated_bytes),
          own.peak_bytes.standard_error.value_or(0), own.leaked_bytes.standard_error.value_or(0)};
}

std::vector<comparison::GatedFigure> gated(const Figures& before, const Figures& after) {
  const auto one = [](const char* name, double a, double b, double error) {
    return comparison::GatedFigure{name, a, b, b - a - 2 * error, b - a + 2 * error};
  };
  return {
      one("peak_bytes", before.peak, after.peak, std::hypot(before.peak_error, after.peak_error)),
      one("leaked_bytes", before.leaked, after.leaked, std::hypot(before.leaked_error, after.leaked_error)),
      one("allocations", before.allocations, after.allocations, 0),
      one("total_allocated_bytes", before.allocated, after.allocated, 0)};
}

// Of the command's own processes, or with --all the sums over the trees.
std::vector<comparison::GatedFigure> gated_figures(const report::DiffReport& report) {
  Figures before = figures_of(report.before.recording.analysis),
          after = figures_of(report.after.recording.analysis);
  if (report.choice.add_others) {
    for (const report::ProcessFigures& other : report.before.others) before.add(other);
    for (const report::ProcessFigures& other : report.after.others) after.add(other);
  }
  return gated(before, after);
}

std::string figure_words(const std::string& name, double value) {
  return name.ends_with("_bytes") ? format_bytes({std::llround(value)}) : fmt::format("{:.0f}", value);
}

// A gate that saw a launcher lets pass what the launched program does. Another process that would have failed
// it, by a hundredth of the trees' peaks or more, is named; which of the figures are meant is the caller's.
std::string unseen_process(const std::vector<comparison::FigureRule>& rules, const std::optional<Gate>& gate,
                           const report::DiffReport& report) {
  constexpr std::int64_t kLeastPart = 100;
  if (report.choice.add_others) return {};
  std::int64_t all = report.diff.peak_bytes.before.value;
  for (const report::ProcessFigures& other : report.before.others) all += other.peak_bytes;
  for (const report::ProcessPair& pair : report::paired_processes(report)) {
    if (pair.after == nullptr || std::abs(pair.peak_change()) * kLeastPart < all) continue;
    Figures before, after;
    if (pair.before != nullptr) before.add(*pair.before);
    after.add(*pair.after);
    const auto found = comparison::check_figure_gate(rules, gated(before, after), figure_words);
    const double noise = 2 * std::hypot(before.peak_error, after.peak_error);
    const auto growth = static_cast<double>(pair.peak_change());
    const bool is_above = gate && growth >= noise &&
                          growth > gate->allowed_growth(pair.before == nullptr ? 0 : pair.before->peak_bytes);
    if (is_above || found.has_breach())
      return fmt::format("it checked only the command's main process, but another process changed too: {}",
                         report::peak_words(pair));
  }
  return {};
}

// Why a gate that found nothing cannot say that there is nothing.
std::optional<Error> not_judged(const std::vector<comparison::FigureRule>& rules,
                                const std::optional<Gate>& gate, const report::DiffReport& report) {
  const auto error = [](std::string why, std::string fix) {
    return Error{ErrorKind::input, "cannot check the gate", std::move(why), std::move(fix)};
  };
  // What was recorded of a process that was killed is the least that it took: that may be beyond a limit, but
  // says nothing where it is not.
  if (std::string why = incomplete_words(report); !why.empty())
    return error(std::move(why), "record again and let the program end normally");
  if (std::string why = unseen_process(rules, gate, report); !why.empty())
    return error(std::move(why),
                 "use --all to check the sums over all processes, or compare the recordings of that process");
  return std::nullopt;
}

}  // namespace

Result<int> diff_recordings(const fs::path& file_a, const fs::path& file_b, const FlagValues& values) {
  auto gate = gate_of(values);
  if (!gate) return forward_error(gate);
  auto rules = figure_rules(values, gated({}, {}));
  if (!rules) return forward_error(rules);
  auto options = symbolizer_options(values);
  if (!options) return forward_error(options);

  auto before = recording::Recording::open(file_a);
  if (!before) return forward_error(before);
  auto after = recording::Recording::open(file_b);
  if (!after) return forward_error(after);
  for (const auto& [recording, file] : {std::pair{&*before, &file_a}, std::pair{&*after, &file_b}})
    if (!recording->info().host_recorded)
      return usage_error(fmt::format("cannot compare {}", file->string()),
                         "it has GPU memory only (--only gpu), and headroom diff compares host memory",
                         "compare the devices in headroom report --json");
  const auto of_one_build = comparison::modules_of_one_build(before->info(), after->info());
  std::vector<std::string> problems;
  const comparison::GroupedRecording a = group_by_names(*before, *options, of_one_build, problems);
  const comparison::GroupedRecording b = group_by_names(*after, *options, of_one_build, problems);
  warn_of_missing_symbols(std::move(problems));
  const comparison::RecordingDiff diff = comparison::diff_recordings(a, b);
  report::DiffReport report{{file_a.string(), before->info(), a, other_processes(file_a)},
                            {file_b.string(), after->info(), b, other_processes(file_b)},
                            diff,
                            choice_of(values)};
  std::error_code code;
  report.is_one_recording = fs::equivalent(file_a, file_b, code) && !code;
  const bool is_gated = !rules->empty() || gate->has_value();
  if (report.is_one_recording) {
    std::vector<std::string> on_peaks;
    if (*gate) on_peaks.push_back("--fail-above " + (*gate)->text);
    report.not_judged = leave_out_changes(*rules, std::move(on_peaks));
    gate->reset();
  }
  // A figure that recordings do not have is not judged.
  comparison::GateJudgement judgement =
      comparison::check_figure_gate(*rules, gated_figures(report), figure_words);
  if (*gate)
    for (comparison::GateFinding& finding : check_peaks(**gate, report))
      judgement.findings.push_back(std::move(finding));
  report.gate = judgement.findings;
  if (judgement.not_judged) {
    report.not_judged = judgement.not_judged->sentence();
  } else if ((!rules->empty() || gate->has_value()) && !judgement.has_breach()) {
    judgement.not_judged = not_judged(*rules, *gate, report);
    if (judgement.not_judged) report.not_judged = judgement.not_judged->why;
  }
  print_view(report, values);
  if (is_gated) warn_of_unseen(report);
  return exit_by(judgement);
}

}  // namespace headroom::cli
