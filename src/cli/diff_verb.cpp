#include "cli/diff_verb.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <optional>

#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/common_flags.h"
#include "cli/exit_code.h"
#include "cli/recording_report.h"
#include "exporters/named_stacks.h"
#include "report/recording_diff_views.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

using analysis::DiffBy;

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
      return usage_error(fmt::format("--fail-above {} is no share", gate.text), "",
                         "give a percentage of A's peak such as 5%, or a size such as 10MiB");
    gate.percent = *percent;
    return gate;
  }
  const auto size = parse_size(gate.text);
  if (!size)
    return usage_error(fmt::format("--fail-above {} is neither a size nor a percentage", gate.text),
                       size.error().sentence(), "give 10MiB or 5%");
  gate.bytes = *size;
  return gate;
}

report::DiffChoice choice_of(const FlagValues& values) {
  report::DiffChoice choice;
  for (const DiffBy by : analysis::kDiffBy)
    if (values.text("by") == name_of(by)) choice.by = by;
  if (const auto top = values.integer("top")) choice.top = static_cast<std::size_t>(*top);
  if (values.has("min")) choice.at_least = parse_size(values.text("min"))->count;  // checked by its kind
  choice.add_others = values.toggle("all");
  return choice;
}

// A recording by groups, with the names that its symbols give.
analysis::GroupedRecording group_by_names(recording::Recording& recording, symbols::SymbolizerOptions options,
                                          const std::set<std::string>& of_one_build,
                                          std::vector<std::string>& problems) {
  symbols::Symbolizer symbolizer(recording.info().modules, std::move(options));
  bool prepared = false;
  const auto names = [&](std::uint64_t return_address) {
    // The first is asked for when all stacks are known.
    if (!prepared) exporters::prepare_symbols({recording, symbolizer});
    prepared = true;
    std::vector<analysis::NamedFrame> frames;
    for (const symbols::SourceFrame& frame : symbolizer.frames_of(return_address, true))
      frames.push_back({std::string(frame.function), std::string(frame.module), frame.named});
    return frames;
  };
  auto grouped = analysis::group_recording(recording, names, of_one_build);
  for (std::string& problem : symbolizer.problems()) problems.push_back(std::move(problem));
  return grouped;
}

void print_view(const report::DiffReport& report, const FlagValues& values) {
  if (values.toggle("json")) return print_output(to_text(diff_to_json(report)));
  if (values.toggle("csv")) return print_output(diff_to_csv(report));
  print_output(diff_to_terminal(report, wants_color(values), terminal_width(STDOUT_FILENO)));
}

Status check_gate(const Gate& gate, const report::DiffReport& report) {
  for (const auto& [side, name] : {std::pair{&report.before, 'A'}, std::pair{&report.after, 'B'}})
    if (!side->recording.analysis.complete)
      log::warning("{} ({}) is incomplete, so its peak may have been higher than --fail-above can see", name,
                   side->file);
  const report::PeakPair peaks = compared_peaks(report);
  const auto growth = static_cast<double>(peaks.growth());
  if (growth <= gate.allowed_growth(peaks.before)) return {};
  const std::string above =
      fmt::format("the {} of B is {} above that of A", report.choice.add_others ? "sum of the peaks" : "peak",
                  format_bytes({peaks.growth()}));
  const std::string noise = format_bytes({std::llround(peaks.noise())});
  // Two recordings of one program differ by as much now and then: a gate that fails on it is soon switched
  // off.
  if (growth < peaks.noise()) {
    log::warning(
        "{}, and --fail-above allows {}: not failed, as it is within two standard errors of the samples "
        "({}); recordings of --full are exact",
        above, gate.text, noise);
    return {};
  }
  return failure(above, fmt::format("--fail-above allows {}{}", gate.text,
                                    peaks.noise() > 0 ? fmt::format(", and it is more than two standard "
                                                                    "errors of the samples ({})",
                                                                    noise)
                                                      : ""));
}

Result<int> run(const std::vector<std::string>& arguments) {
  auto values = parse_flags(diff_verb(), arguments);
  if (!values) return forward_error(values);
  if (values->positionals().size() != 2)
    return usage_error("headroom diff takes two recordings",
                       fmt::format("{} given", values->positionals().size()),
                       "headroom diff before.hrec after.hrec");
  if (values->toggle("json") && values->toggle("csv"))
    return usage_error("--json and --csv are two views", "", "give one of them");
  auto gate = gate_of(*values);
  if (!gate) return forward_error(gate);
  auto options = symbolizer_options(*values);
  if (!options) return forward_error(options);

  const fs::path file_a = values->positionals()[0], file_b = values->positionals()[1];
  auto before = recording::Recording::open(file_a);
  if (!before) return forward_error(before);
  auto after = recording::Recording::open(file_b);
  if (!after) return forward_error(after);
  for (const auto& [recording, file] : {std::pair{&*before, &file_a}, std::pair{&*after, &file_b}})
    if (!recording->info().host_recorded)
      return usage_error(fmt::format("{} cannot be compared", file->string()),
                         "it holds GPU memory only (--only gpu), and headroom diff compares the host's",
                         "compare the devices of headroom report --json");
  const auto of_one_build = analysis::modules_of_one_build(before->info(), after->info());
  std::vector<std::string> problems;
  const analysis::GroupedRecording a = group_by_names(*before, *options, of_one_build, problems);
  const analysis::GroupedRecording b = group_by_names(*after, *options, of_one_build, problems);
  warn_of_missing_symbols(std::move(problems));
  const analysis::RecordingDiff diff = analysis::diff_recordings(a, b);
  const report::DiffReport report{{file_a.string(), before->info(), a, other_processes(file_a)},
                                  {file_b.string(), after->info(), b, other_processes(file_b)},
                                  diff,
                                  choice_of(*values)};
  print_view(report, *values);
  if (*gate)
    if (auto fine = check_gate(**gate, report); !fine) return forward_error(fine);
  return 0;
}

}  // namespace

const Verb& diff_verb() {
  static const Verb kVerb = [] {
    Verb verb;
    verb.name = "diff";
    verb.summary = "Compare two recordings: what grew, by how much, and where";
    verb.usage = "headroom diff A.hrec B.hrec [FLAGS]";
    verb.description =
        "Compares two recordings of headroom trace by layer, call stack and module, the largest growth "
        "first. "
        "Stacks are matched by the names of their functions and modules, so the two may come from other "
        "processes, other machines and other builds of the program.";
    verb.examples = {"headroom diff before.hrec after.hrec",
                     "headroom diff before.hrec after.hrec --by stack",
                     "headroom diff main.hrec branch.hrec --fail-above 5%"};
    verb.positional = "A.hrec B.hrec";
    Flag by = make_flag("by", FlagKind::choice, "WORD", "one whole table");
    for (const DiffBy choice : analysis::kDiffBy) by.choices.emplace_back(name_of(choice));
    Flag top = make_flag("top", FlagKind::integer, "N", "rows of each table");
    top.default_text = "5; --by 10; --json all";
    top.minimum = 1;
    top.maximum = 1e9;
    Flag min =
        make_flag("min", FlagKind::size, "SIZE", "only rows that changed by SIZE, at the peak or at the end");
    min.default_text = "1B; of --json and --csv 0B";
    min.minimum = 0;
    verb.flags = {make_flag("json", FlagKind::toggle, "", "print all figures of the comparison"),
                  make_flag("csv", FlagKind::toggle, "", "print a row a layer, stack and module"),
                  by,
                  top,
                  min,
                  make_flag("fail-above", FlagKind::text, "SIZE|PERCENT",
                            "exit 1 when the peak of B is more than that above A's (10MiB, 5%)"),
                  make_flag("all", FlagKind::toggle, "", "also the sums over the trees of processes"),
                  symbols_flag(),
                  color_flag()};
    return verb;
  }();
  return kVerb;
}

int run_diff_verb(const std::vector<std::string>& arguments) { return exit_code_of(run(arguments)); }

}  // namespace headroom::cli
