#include "cli/verbs.h"

#include <fmt/format.h>

#include <functional>

#include "base/files.h"
#include "base/json.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/common_flags.h"
#include "planning/budget_reader.h"
#include "planning/changes.h"
#include "planning/devices.h"
#include "report/input/run_input.h"
#include "report/plan/plan_views.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

constexpr Bytes kLargestBudget = mebibytes(1);

Status apply_rules(Budget& budget, const FlagValues& values) {
  values.read("buffer", budget.rules.buffer);
  for (const auto& [flag, share] : {std::pair{"most-used", &budget.rules.most_used},
                                    std::pair{"healthy-used", &budget.rules.healthy_used}}) {
    if (!values.has(flag)) continue;
    const auto given = planning::parse_share(values.text(flag));
    if (!given) return usage_error(fmt::format("--{}: {}", flag, given.error().what), "", given.error().fix);
    *share = *given;
  }
  return {};
}

Status choose_device(Budget& budget, const FlagValues& values, std::string& baseline) {
  if (auto fine = at_most_one(values, {"device", "live", "mem-limit"}); !fine) return fine;
  if (values.toggle("headless")) budget.has_desktop = false;
  if (values.has("mem-limit")) {
    budget.device = {.name = "A control group", .source = "--mem-limit", .is_control_group = true};
    values.read("mem-limit", budget.device.total);
    planning::take_out_system(budget);
  }
  if (values.has("device")) {
    auto profile = planning::device_profile(values.text("device"));
    if (!profile) return forward_error(profile);
    budget.device = std::move(*profile);
  }
  if (!values.toggle("live")) return {};
  std::string root = "/";
  values.read("sysroot", root);
  return planning::use_live_device(budget, root, baseline);
}

Result<int> verify(const Budget& budget, const FlagValues& values) {
  fs::path file = values.text("verify");
  std::error_code code;
  if (fs::is_directory(file, code)) file /= "report.json";
  auto run = report::read_report_file(file);
  if (!run) return forward_error(run);
  auto verification = planning::verify_plan(budget, *run, values.text("verify"));
  if (!verification) return forward_error(verification);
  return print_views(values,
                     {.terminal = std::bind_front(report::verification_to_terminal, std::cref(*verification)),
                      .json = [&] { return to_text(report::verification_to_json(*verification)); }},
                     verification->holds ? 0 : 1);
}

std::string device_list() {
  std::string text = fmt::format("{:<16} {:<26} {:>10} {:>10} {:>10}  {}\n", "device", "", "total",
                                 "headless", "desktop", "source of the total");
  for (const DeviceProfile& device : planning::device_profiles()) {
    const Bytes headless = device.total - device.system;
    text += fmt::format("{:<16} {:<26} {:>10} {:>10} {:>10}  {}\n", device.id, device.name,
                        format_bytes(device.total), format_bytes(headless),
                        format_bytes(headless - device.desktop), device.source);
  }
  return text +
         "\nheadless: memory left after the system; desktop: memory left after the system and the desktop. "
         "docs/plan.md lists the sources of these figures.\n";
}

// The command without the flags for views.
std::string command_of(const FlagValues& values) {
  std::string command = "headroom plan " + shell_word(values.positionals().front());
  for (const char* flag : {"device", "mem-limit", "most-used", "healthy-used", "buffer", "sysroot"})
    if (values.has(flag)) command += fmt::format(" --{} {}", flag, shell_word(values.text(flag)));
  for (const char* flag : {"live", "headless"})
    if (values.toggle(flag)) command += fmt::format(" --{}", flag);
  for (const char* flag : {"footprints", "what-if"})
    for (const std::string& value : values.all(flag))
      command += fmt::format(" --{} {}", flag, shell_word(value));
  return command;
}

Result<int> run_plan(const FlagValues& values) {
  if (values.toggle("devices")) {
    print_output(device_list());
    return 0;
  }
  if (values.positionals().size() != 1)
    return usage_error("headroom plan needs one budget file",
                       fmt::format("{} given", values.positionals().size()),
                       "write headroom plan BUDGET.toml");
  const fs::path file = values.positionals().front();
  if (auto fine = check_views(values, file); !fine) return forward_error(fine);
  auto text = read_file(file, kLargestBudget);
  if (!text) return forward_error(text);
  auto budget = planning::parse_budget(*text, file.string());
  if (!budget) return forward_error(budget);
  if (auto done = apply_rules(*budget, values); !done) return forward_error(done);

  report::PlanReport report;
  if (auto done = choose_device(*budget, values, report.baseline); !done) return forward_error(done);
  const auto resolved = [&](Budget with_models) -> Result<Budget> {
    auto measured = report::footprints_for(with_models, file.parent_path(), values.all("footprints"));
    if (!measured) return forward_error(measured);
    return planning::resolve_footprints(std::move(with_models), *measured);
  };
  budget = resolved(std::move(*budget));
  if (!budget) return forward_error(budget);
  report.what_ifs = values.all("what-if");
  auto changed = budget;
  for (const std::string& change : report.what_ifs) {
    changed = planning::with_change(std::move(*changed), change);
    if (changed) changed = resolved(std::move(*changed));  // the change may name a footprint
    if (!changed) return forward_error(changed);
  }
  if (values.has("verify")) return verify(*changed, values);
  auto plan = planning::make_plan(*changed);
  if (!plan) return forward_error(plan);
  report.plan = std::move(*plan);
  report.command = command_of(values);
  report.advice = planning::advice_for(report.plan);
  if (!report.what_ifs.empty()) {
    auto before = planning::make_plan(*budget, planning::PlanDetail::peak_alone);
    if (!before) return forward_error(before);
    report.verdict_before = before->verdict;
    report.peak_before = before->worst().total;
  }
  return print_views(
      values,
      {.terminal = [&](bool color, int width) { return report::plan_to_terminal(report, color, width); },
       .json = [&] { return to_text(report::plan_to_json(report)); },
       .markdown = [&] { return report::plan_to_markdown(report); },
       .html = [&] { return report::plan_to_html(report); }},
      report.plan.verdict == planning::Verdict::does_not_fit ? 1 : 0);
}

}  // namespace

const Verb& plan_verb() {
  static const Verb kVerb{
      .name = "plan",
      .summary = "Check whether a set of components fits a device's memory",
      .usage = "headroom plan BUDGET.toml [FLAGS]",
      .description =
          "Checks whether the components of BUDGET.toml fit a device (docs/plan.md). The file states their "
          "sizes, or names footprints that headroom bench measured. The check covers time: load peaks in "
          "start order, groups that never run together, frames and transient buffers. Prints a table, the "
          "verdict with reasons, the worst moment and the start order with the lowest peak. Also prints the "
          "most valuable set of components that fits, and what to change first. Exits with 1 if the plan "
          "does not fit.",
      .examples = {"headroom plan budget.toml --device orin-nx-16gb",
                   "headroom plan budget.toml --what-if yolo.precision=int8",
                   "headroom plan budget.toml --footprints outputs --verify RUN"},
      .flags =
          {text_flag("device", "NAME", "device to plan for (see --devices)"),
           toggle_flag("devices", "list the known devices"),
           toggle_flag("live", "plan for this machine, on top of its current use"),
           size_flag("mem-limit", "plan for a control group with this memory limit"),
           text_flag("footprints", "DIR", "read footprints of bench runs in DIR; repeatable").repeatable(),
           text_flag("what-if", "CHANGE", "change: NAME.FIELD=VALUE, drop=NAME, lazy=NAME").repeatable(),
           text_flag("most-used", "SHARE", "used share above which a plan is risky").with_default("85%"),
           text_flag("healthy-used", "SHARE", "used share above which a plan is tight")
               .with_default("75%")
               .rare(),
           size_flag("buffer", "memory that must stay free").within(0).with_default("2GB"),
           toggle_flag("headless", "plan for a device without a desktop").rare(),
           text_flag("verify", "RUN", "compare the plan with a bench --parallel run"),
           toggle_flag("json", "print all figures as JSON"),
           toggle_flag("markdown", "print the plan as Markdown"),
           text_flag("html", "FILE", "write an HTML page with a chart"),
           sysroot_flag("read /proc under DIR, with --live"), color_flag()},
      .positional = "BUDGET.toml",
      .run = run_with_flags<plan_verb, run_plan>,
  };
  return kVerb;
}

}  // namespace headroom::cli
