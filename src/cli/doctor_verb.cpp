#include "cli/verbs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "cli/common_flags.h"
#include "comparison/run_comparison.h"
#include "doctor/cure_commands.h"
#include "doctor/inputs/examine.h"
#include "doctor/log/log_findings.h"
#include "doctor/try/try_cures.h"
#include "report/finding/finding_views.h"
#include "report/input/input_kind.h"

namespace headroom::cli {
namespace {

// Enough to show how much equal runs differ (comparison/run_comparison.h).
constexpr std::int64_t kRounds = comparison::kRunsToKnowTheirSpread;

// --try needs the folder of a run.
Result<bool> try_cures_of(const std::string& run, std::int64_t rounds, report::DoctorReport& report) {
  const auto kind = report::kind_of_input(run);
  if (kind && *kind == report::InputKind::run) return doctor::try_cures(run, rounds, report);
  return input_error(fmt::format("--try does not work with {}", run), "it is not a run of headroom bench",
                     "name the folder of a run");
}

Result<int> run_doctor(const FlagValues& values) {
  const auto& files = values.positionals();
  const bool live = values.toggle("live");
  if (files.empty() && !live)
    return usage_error("headroom doctor needs an input", "no file given",
                       "name files, - for standard input (dmesg | headroom doctor -), or --live");
  if (auto fine = check_needed(values, "sysroot", "live"); !fine) return forward_error(fine);
  if (std::ranges::count(files, "-") > 1)
    return usage_error("standard input (-) is given twice", "it can be read only once", "write - only once");
  if (auto fine = check_views(values); !fine) return forward_error(fine);

  const bool tries = values.toggle("try");
  if (tries && (files.size() != 1 || files.front() == "-" || live))
    return usage_error("--try needs exactly one run", "it repeats the bench of that run",
                       "use headroom doctor RUN --try, with the folder of a run");
  if (auto fine = check_needed(values, "repeat", "try"); !fine) return forward_error(fine);

  std::optional<std::filesystem::path> sysroot;
  if (live) sysroot = values.has("sysroot") ? values.text("sysroot") : "/";
  doctor::Examined examined = doctor::examine(files, sysroot);
  report::DoctorReport& report = examined.report;
  std::optional<Error>& first_error = examined.first_error;
  report.inputs = files;
  if (live) report.inputs.emplace_back("--live");
  bool interrupted = false;
  if (tries && !first_error) {
    forget_environment(bench_verb());
    const std::int64_t rounds = values.integer("repeat").value_or(kRounds);
    auto tried = try_cures_of(files.front(), rounds, report);
    interrupted = tried && !*tried;
    if (!tried) {
      report.problems.push_back(tried.error().sentence());
      first_error = std::move(tried.error());
    }
    for (Finding& finding : report.findings) doctor::sort_cures(finding);
  }
  for (TriedCure& together : report.together) doctor::clean_trial(together);
  doctor::clean_findings(report.findings);
  doctor::sort_findings(report.findings);

  const auto for_terminal = [&](bool color, int width) {
    if (first_error && report.findings.empty()) return std::string();
    // Only for this view, because it reads the run once more.
    report.can_try =
        !tries && files.size() == 1 && !live && doctor::can_try_cures(files.front(), report.findings);
    const std::string next = doctor::next_command(report);
    return findings_to_terminal(report, color, Screen().is_terminal ? std::optional(width) : std::nullopt) +
           (next.empty() ? "" : fmt::format("\nNext: {}\n", next));
  };
  auto printed = print_views(values, {.terminal = for_terminal,
                                      .json = [&] { return to_text(findings_to_json(report)); },
                                      .markdown = [&] { return findings_to_markdown(report); }});
  if (!printed) return printed;
  if (first_error) return tl::unexpected(std::move(*first_error));
  if (interrupted) {
    log::warning("interrupted; cures that were not tried are not reported");
    return kExitInterrupted;
  }
  return std::ranges::count(report.findings, Severity::severe, &Finding::severity) > 0 ? 1 : 0;
}

}  // namespace

const Verb& doctor_verb() {
  static const Verb kVerb{
      .name = "doctor",
      .summary = "Find out why memory ran out, what wastes it, and what helps",
      .usage = "headroom doctor [FILE…] [--live] [FLAGS]",
      .description =
          "Names the cause of memory problems and suggests cures. Reads logs of any program, dmesg and the "
          "journal, plain or gzip (- is standard input). Also reads recordings of headroom trace, run "
          "folders of headroom bench and logs of headroom watch. Other inputs are memory snapshots of "
          "PyTorch, output of tegrastats, nvidia-smi and /proc/meminfo, and folders of all these. --live "
          "examines this machine. Each finding says what happened, where, the likely cause and what helps. "
          "The cure of a known cause comes first, then those that save most. Exits with 1 if a finding is "
          "severe. --try repeats the bench of a run with each cure that is a bench setting, under the run's "
          "limit. It then tries all cures that helped together, and lists the cures that helped first.",
      .examples = {"headroom doctor run.log", "dmesg | headroom doctor -", "headroom doctor --live",
                   "headroom doctor outputs/2026-11-21_10-30-00 run.log --json",
                   "headroom doctor program.hrec snapshot.pickle watch.jsonl",
                   "headroom doctor outputs/2026-11-21_10-30-00 --try",
                   "headroom doctor run.log --markdown > comment.md"},
      .flags = {toggle_flag("live", "also examine this machine, for one second"),
                toggle_flag("try", "try the cures of a run and measure their effect"),
                toggle_flag("json", "print all findings as JSON"),
                toggle_flag("markdown", "print all findings as Markdown"),
                integer_flag("repeat", "run each cure N times, with --try", 1, 100)
                    .with_default(std::to_string(kRounds))
                    .rare(),
                sysroot_flag("read /proc and /sys under DIR, with --live").with_default("/"), color_flag()},
      .positional = "FILE",
      .run = run_with_flags<doctor_verb, run_doctor>,
  };
  return kVerb;
}

}  // namespace headroom::cli
