#include "cli/doctor_verb.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "cli/common_flags.h"
#include "cli/doctor_folder.h"
#include "cli/doctor_inputs.h"
#include "cli/doctor_try.h"
#include "cli/exit_code.h"
#include "cli/run_inputs.h"
#include "doctor/log/log_findings.h"
#include "doctor/next_command.h"
#include "report/finding/finding_views.h"

namespace headroom::cli {
namespace {

// As many as tell how much runs of one thing differ (analysis/run_comparison.h).
constexpr std::int64_t kRounds = comparison::kRunsToKnowTheirSpread;
constexpr int kExitInterrupted = 130;  // as a shell reports a command ended by Ctrl-C

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

Result<int> run(const std::vector<std::string>& arguments) {
  auto values = parse_flags(doctor_verb(), arguments);
  if (!values) return forward_error(values);
  const auto& files = values->positionals();
  const bool live = values->toggle("live");
  if (files.empty() && !live)
    return usage_error("headroom doctor needs an input", "no file given",
                       "name files, - for standard input (dmesg | headroom doctor -), or --live");
  if (values->has("sysroot") && !live)
    return usage_error("--sysroot has no effect without --live", "", "add --live, or remove --sysroot");
  if (std::count(files.begin(), files.end(), "-") > 1)
    return usage_error("standard input (-) is given twice", "it can be read only once", "write - only once");
  if (values->toggle("json") && values->toggle("markdown"))
    return usage_error("--json and --markdown cannot be combined", "", "keep one of them");

  const bool tries = values->toggle("try");
  if (tries && (files.size() != 1 || files.front() == "-" || live))
    return usage_error("--try needs exactly one run", "it repeats the bench of that run",
                       "use headroom doctor RUN --try, with the folder of a run");

  if (values->has("repeat") && !tries)
    return usage_error("--repeat has no effect without --try", "", "add --try, or remove --repeat");

  report::DoctorReport report;
  report.inputs = files;
  if (live) report.inputs.emplace_back("--live");
  std::optional<Error> first_error;
  const auto note = [&](Status read) {
    if (read) return;
    report.problems.push_back(read.error().sentence());
    // The first is the error that ends the command; the others would be lost without a word.
    if (first_error) log::warning("{}", read.error().sentence());
    if (!first_error) first_error = std::move(read.error());
  };
  Examination examination;
  const auto read = [&](const std::string& path, IfBinary if_binary) {
    if (path == "-" || examination.is_new(path)) note(read_doctor_input(path, if_binary, examination));
  };
  for (const std::string& file : files) {
    std::error_code code;
    const bool is_run = std::filesystem::exists(std::filesystem::path(file) / "report.json", code);
    if (!std::filesystem::is_directory(file, code) || is_run) {
      read(file, IfBinary::error);
      continue;
    }
    auto inside = inputs_of_folder(file);
    if (!inside) {
      note(forward_error(inside));
      continue;
    }
    if (inside->left_out > 0) {
      log::warning("{} has more than {} files; {} were not read", file, FolderInputs::kMostFiles,
                   inside->left_out);
      examination.examined.push_back({file, "folder",
                                      fmt::format("it has more than {} files; {} were not read",
                                                  FolderInputs::kMostFiles, inside->left_out)});
    }
    for (const std::string& run : inside->unfinished)
      examination.examined.push_back(
          {run, "run", "a run of headroom bench that ended before it wrote a report; only its log was read"});
    const std::size_t left_out_before = examination.left_out.size();
    for (const std::string& path : inside->paths) read(path, IfBinary::leave_out);
    const std::size_t left_out = examination.left_out.size() - left_out_before;
    if (left_out == inside->paths.size())
      note(input_error(fmt::format("nothing to read in {}", file),
                       fmt::format("none of its files is text or a file of Headroom or PyTorch ({}{})",
                                   file_name(examination.left_out.back()), left_out > 1 ? ", …" : ""),
                       "name logs, recordings, snapshots or runs of headroom bench"));
    else if (left_out > 0)
      examination.examined.push_back(
          {file, "folder",
           fmt::format("{} of its files {} skipped: not text ({}{})", left_out,
                       left_out == 1 ? "was" : "were", file_name(examination.left_out.back()),
                       left_out > 1 ? ", …" : "")});
  }
  if (live) note(examine_machine(values->has("sysroot") ? values->text("sysroot") : "/", examination));
  report.findings = std::move(examination.findings);
  report.examined = std::move(examination.examined);
  CureTrials trials;
  if (tries && !first_error) {
    if (kind_of_input(files.front()).value_or(InputKind::recording) == InputKind::run)
      note(try_cures(files.front(), values->integer("repeat").value_or(kRounds), report.findings, trials));
    else
      note(input_error(fmt::format("--try does not work with {}", files.front()),
                       "it is not a run of headroom bench", "name the folder of a run"));
    for (Finding& finding : report.findings) doctor::sort_cures(finding);
  }
  for (TriedCure& together : trials.together) doctor::clean_trial(together);
  report.together = std::move(trials.together);
  for (Finding& finding : examination.logs.findings()) report.findings.push_back(std::move(finding));
  doctor::clean_findings(report.findings);
  doctor::sort_findings(report.findings);

  if (values->toggle("json"))
    print_output(to_text(findings_to_json(report)));
  else if (values->toggle("markdown"))
    print_output(findings_to_markdown(report));
  else if (!first_error || !report.findings.empty()) {
    // Only here: it reads the run once more.
    report.can_try = !tries && files.size() == 1 && !live && can_try_cures(files.front(), report.findings);
    const std::string next = doctor::next_command(report);
    print_output(findings_to_terminal(report, wants_color(*values),
                                      is_terminal(STDOUT_FILENO)
                                          ? std::optional(terminal_width(STDOUT_FILENO))
                                          : std::nullopt) +
                 (next.empty() ? "" : fmt::format("\nNext: {}\n", next)));
  }
  if (first_error) return tl::unexpected(std::move(*first_error));
  if (trials.interrupted) {
    log::warning("interrupted; cures that were not tried are not reported");
    return kExitInterrupted;
  }
  const bool severe = std::any_of(report.findings.begin(), report.findings.end(), [](const Finding& finding) {
    return finding.severity == Severity::severe;
  });
  return severe ? 1 : 0;
}

}  // namespace

const Verb& doctor_verb() {
  static const Verb kVerb = [] {
    Verb verb;
    verb.name = "doctor";
    verb.summary = "Find out why memory ran out, what wastes it, and what helps";
    verb.usage = "headroom doctor [FILE…] [--live] [FLAGS]";
    verb.description =
        "Names the cause of memory problems and suggests cures. Reads logs of any program, dmesg and the "
        "journal, plain or gzip (- is standard input). Also reads recordings of headroom trace, run folders "
        "of headroom bench and logs of headroom watch. Other inputs are memory snapshots of PyTorch, output "
        "of tegrastats, nvidia-smi and /proc/meminfo, and folders of all these. --live examines this "
        "machine. Each finding says what happened, where, the likely cause and what helps. The cure of a "
        "known cause comes first, then those that save most. Exits with 1 if a finding is severe. --try "
        "repeats the bench of a run with each cure that is a bench setting, under the run's limit. It then "
        "tries all cures that helped together, and lists the cures that helped first.";
    verb.examples = {"headroom doctor run.log",
                     "dmesg | headroom doctor -",
                     "headroom doctor --live",
                     "headroom doctor outputs/2026-11-21_10-30-00 run.log --json",
                     "headroom doctor program.hrec snapshot.pickle watch.jsonl",
                     "headroom doctor outputs/2026-11-21_10-30-00 --try",
                     "headroom doctor run.log --markdown > comment.md"};
    verb.positional = "FILE";
    Flag sysroot = make_flag("sysroot", FlagKind::text, "DIR", "read /proc and /sys under DIR, with --live");
    sysroot.default_text = "/";
    sysroot.common = false;
    Flag repeat = make_flag("repeat", FlagKind::integer, "N", "run each cure N times, with --try");
    repeat.default_text = std::to_string(kRounds);
    repeat.common = false;
    repeat.minimum = 1;
    repeat.maximum = 100;
    verb.flags = {make_flag("live", FlagKind::toggle, "", "also examine this machine, for one second"),
                  make_flag("try", FlagKind::toggle, "", "try the cures of a run and measure their effect"),
                  make_flag("json", FlagKind::toggle, "", "print all findings as JSON"),
                  make_flag("markdown", FlagKind::toggle, "", "print all findings as Markdown"),
                  std::move(repeat),
                  std::move(sysroot),
                  color_flag()};
    return verb;
  }();
  return kVerb;
}

int run_doctor_verb(const std::vector<std::string>& arguments) { return exit_code_of(run(arguments)); }

}  // namespace headroom::cli
