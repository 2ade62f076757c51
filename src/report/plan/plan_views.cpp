#include "report/plan/plan_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"
#include "report/page.h"
#include "report/text_layout.h"
#include "types/enum_names.h"

namespace headroom::report {
namespace {

using namespace planning;

constexpr std::size_t kMostAdvice = 8;

struct Row {
  std::string component, memory, notes;
  bool is_sum = false;
};

std::string note_of_available(const MemoryPlan& plan) {
  if (plan.verdict == planning::Verdict::healthy)
    return fmt::format("Buffer of {} stays free",
                       words_for_sum(plan.budget.rules.buffer, plan.budget.is_decimal));
  if (plan.verdict == planning::Verdict::tight) return "Tight but viable";
  return plan.verdict == planning::Verdict::risky ? "Less than the rules require" : "Does not fit";
}

std::string notes_of_row(const planning::MemoryPlan& plan, std::size_t component) {
  const BudgetComponent& row = plan.budget.components[component];
  const MemoryNeed& need = row.need;
  const bool decimal = plan.budget.is_decimal;
  std::string notes = row.notes;
  const auto add = [&](const std::string& words) { notes += (notes.empty() ? "" : "; ") + words; };
  for (const auto& [key, value] : row.settings)
    if (need.origin.kind != FigureOrigin::Kind::measured) add(fmt::format("{} {}", key, value));
  for (const FrameBuffers& frames : need.frames)
    add(fmt::format("frames {} × {} × {} × {} B × {} = {}", frames.width, frames.height, frames.channels,
                    frames.channel_bytes, frames.count, words_for_part(frames.bytes(), decimal)));
  if (need.frames.empty() && need.measured_frames > Bytes{})
    add(fmt::format("frames {}", words_for_part(need.measured_frames, decimal)));
  if (need.transient > Bytes{}) add(fmt::format("transient {}", words_for_part(need.transient, decimal)));
  const Bytes run = need.run_peak.value_or(Bytes{});
  if (need.load_peak && *need.load_peak != run)
    add(fmt::format("load peak {}", words_for_part(*need.load_peak, decimal)));
  if (need.gpu_apart > Bytes{})
    add(fmt::format("GPU memory {} not counted", words_for_part(need.gpu_apart, decimal)));
  if (!row.group.empty()) add(fmt::format("one at a time: {}", row.group));
  if (row.is_lazy) add("on demand");
  if (need.origin.kind == FigureOrigin::Kind::measured) add("measured");
  if (need.origin.kind == FigureOrigin::Kind::estimate) add("estimate: " + need.origin.source);
  return notes;
}

std::vector<Row> rows_of(const MemoryPlan& plan) {
  const bool decimal = plan.budget.is_decimal;
  std::vector<Row> rows;
  for (std::size_t i = 0; i < plan.budget.components.size(); ++i) {
    const BudgetComponent& component = plan.budget.components[i];
    rows.push_back(
        {component.name, words_for_part(running_bytes(component), decimal), notes_of_row(plan, i)});
  }
  const auto running = std::ranges::find_if(
      plan.moments, [](const PlanMoment& moment) { return moment.kind == PlanMoment::Kind::running; });
  for (const Occupancy::Share& share : running->shares)
    if (!share.component)
      rows.push_back({fmt::format("Shared pages: {}", share.shared_key), words_for_part(share.bytes, decimal),
                      "runtime code, counted once for all its processes"});
  const double share = static_cast<double>(plan.running.count) / static_cast<double>(plan.total.count);
  rows.push_back({"TOTAL", words_for_sum(plan.running, decimal),
                  fmt::format("{:.0f} % utilisation", 100 * share), true});
  if (plan.worst().total > plan.running)
    rows.push_back(
        {"PEAK", words_for_sum(plan.worst().total, decimal), words_for(plan.worst(), plan.budget), true});
  if (plan.budget.device.is_control_group && plan.machine_peak > plan.worst().total)
    rows.push_back({"With code", words_for_sum(plan.machine_peak, decimal), "with shared pages", true});
  else if (has_shared_pages(plan.worst()))
    rows.push_back({"Charged", words_for_sum(plan.charged_peak, decimal), "to a control group", true});
  rows.push_back({"Available", words_for_sum(plan.available, decimal), note_of_available(plan), true});
  return rows;
}

// "System 500 MB, YOLO 800 MB (load peak), …": the set that makes the peak, the largest first.
std::string worst_set(const MemoryPlan& plan) {
  std::vector<Occupancy::Share> shares = plan.worst().shares;
  std::ranges::stable_sort(shares, [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::string words;
  for (const Occupancy::Share& share : shares)
    words += fmt::format("{}{} {}{}", words.empty() ? "" : ", ",
                         share.component ? plan.budget.components[*share.component].name : share.shared_key,
                         words_for_part(share.bytes, plan.budget.is_decimal),
                         share.is_loading ? " (load peak)" : "");
  return words;
}

std::string names_of(const MemoryPlan& plan, const std::vector<std::size_t>& order) {
  std::string words;
  for (const std::size_t i : order) words += (words.empty() ? "" : ", ") + plan.budget.components[i].name;
  return words;
}

// What is started; the system is there before.
std::string names_to_start(const MemoryPlan& plan) {
  std::vector<std::size_t> order;
  for (const std::size_t i : plan.best_order)
    if (!plan.budget.components[i].is_system) order.push_back(i);
  return names_of(plan, order);
}

std::string names_in_set(const MemoryPlan& plan, bool wanted) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < plan.fitting->members.size(); ++i)
    if (plan.fitting->members[i] == wanted) order.push_back(i);
  return names_of(plan, order);
}

std::string verdict_words(const MemoryPlan& plan) {
  std::string words(words_for(plan.verdict));
  words.front() = static_cast<char>(words.front() - 'a' + 'A');
  return words;
}

// Lines that both views have, without their marks.
std::vector<std::string> lines_of(const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  const bool decimal = plan.budget.is_decimal;
  std::vector<std::string> lines;
  lines.push_back(
      fmt::format("The worst moment is {}: {}.", words_for(plan.worst(), plan.budget), worst_set(plan)));
  if (plan.rest < plan.running)
    lines.push_back(fmt::format("On average, the components use {}.", words_for_sum(plan.rest, decimal)));
  if (plan.best_peak < plan.worst().total)
    lines.push_back(fmt::format("Start order with the lowest peak ({}): {}.",
                                words_for_sum(plan.best_peak, decimal), names_to_start(plan)));
  if (plan.fitting && plan.fitting->required_fit && names_in_set(plan, true).empty()) {
    lines.push_back("No component fits the rules, not even alone.");
  } else if (plan.fitting && plan.fitting->required_fit) {
    lines.push_back(
        fmt::format("The most valuable set that fits the rules ({} of the allowed {}{}): {}.",
                    words_for_sum(plan.fitting->peak, decimal), words_for_sum(plan.allowed, decimal),
                    plan.fitting->is_proven ? "" : "; the search stopped early, so a better set may exist",
                    names_in_set(plan, true)));
    const std::string left_out = names_in_set(plan, false);
    lines.push_back(left_out.empty() ? "These are all components, in the start order with the lowest peak."
                                     : fmt::format("Left out: {}.", left_out));
  } else if (plan.fitting) {
    lines.push_back(fmt::format(
        "The components that are never left out ({}) do not fit the rules: they need {}, and {} is allowed.",
        names_in_set(plan, true), words_for_sum(plan.fitting->peak, decimal),
        words_for_sum(plan.allowed, decimal)));
  }
  return lines;
}

// The source of a measured figure has the word "measured" and the date.
std::string origin_words(const Advice& advice) {
  const bool is_estimate = advice.origin.kind == FigureOrigin::Kind::estimate;
  return (is_estimate ? "estimate: " : "") + advice.origin.source;
}

std::string device_words(const MemoryPlan& plan) {
  const bool decimal = plan.budget.is_decimal;
  return fmt::format(
      "{}, {}{}", plan.budget.device.name, words_for_sum(plan.total, decimal),
      plan.budget.device.source.empty() ? "" : fmt::format(" ({})", plan.budget.device.source));
}

Json plan_part_json(const FigureOrigin& origin) {
  Json object = {{"kind", name_in({"stated", "estimate", "measured"}, origin.kind)}};
  set_if(object, "source", origin.source);
  return object;
}

Json plan_part_json(const BudgetComponent& component) {
  const MemoryNeed& need = component.need;
  Json object = {{"name", component.name}, {"memory_bytes", running_bytes(component).count}};
  set_if(object, "notes", component.notes);
  set_if(object, "load_peak_bytes", need.load_peak);
  set_if(object, "run_mean_bytes", need.run_mean);
  set_if(object, "run_peak_bytes", need.run_peak);
  object["frames_bytes"] = need.frame_bytes().count;
  object["transient_bytes"] = need.transient.count;
  if (!need.frames.empty())
    object["frames"] = json_list(need.frames, [](const FrameBuffers& buffers) -> Json {
      return {{"width", buffers.width},       {"height", buffers.height},
              {"channels", buffers.channels}, {"channel_bytes", buffers.channel_bytes},
              {"count", buffers.count},       {"bytes", buffers.bytes().count}};
    });
  if (!need.shared_key.empty()) {
    object["shared_with"] = need.shared_key;
    object["shared_bytes"] = need.shared.count;
  }
  if (need.gpu_apart > Bytes{}) object["gpu_apart_bytes"] = need.gpu_apart.count;
  if (!component.settings.empty()) object["settings"] = component.settings;
  object["is_system"] = component.is_system;
  object["is_required"] = component.is_required;
  object["is_lazy"] = component.is_lazy;
  object["value"] = component.value;
  set_if(object, "group", component.group);
  set_if(object, "pipeline", component.pipeline);
  object["origin"] = plan_part_json(need.origin);
  return object;
}

Json plan_part_json(const PlanMoment& moment, const Budget& budget) {
  Json object = {{"kind", name_of(moment.kind)}, {"words", words_for(moment, budget)}};
  if (moment.loading) object["loading"] = budget.components[*moment.loading].name;
  object["bytes"] = moment.total.count;
  object["parts"] = json_list(moment.shares, [&](const Occupancy::Share& share) {
    Json part = {{"name", share.component ? budget.components[*share.component].name : share.shared_key},
                 {"bytes", share.bytes.count}};
    if (!share.component) part["is_shared"] = true;
    if (share.is_loading) part["is_loading"] = true;
    return part;
  });
  return object;
}

Json json_names_of(const Budget& budget, const std::vector<std::size_t>& order) {
  return json_list(order, [&](std::size_t i) { return budget.components[i].name; });
}

Json plan_part_json(const BestSet& set, const Budget& budget) {
  Json members = Json::array(), left_out = Json::array();
  for (std::size_t i = 0; i < set.members.size(); ++i)
    (set.members[i] ? members : left_out).push_back(budget.components[i].name);
  return {
      {"members", std::move(members)}, {"left_out", std::move(left_out)}, {"value", set.value},
      {"peak_bytes", set.peak.count},  {"is_proven", set.is_proven},      {"required_fit", set.required_fit}};
}

Json plan_part_json(const VerifiedFigure& figure) {
  return {{"name", figure.name},
          {"planned_bytes", figure.planned.count},
          {"measured_bytes", figure.measured.count},
          {"off", figure.relative_difference()}};
}

}  // namespace

std::string plan_to_terminal(const PlanReport& report, bool color, int width) {
  const MemoryPlan& plan = report.plan;
  const bool decimal = plan.budget.is_decimal;
  const std::string title = plan.budget.title.empty() ? plan.budget.name : plan.budget.title;
  std::string text =
      painted(wrap(title, width, 0), kBold, color) + "\n" + wrap(device_words(plan), width, 2) + "\n";
  if (!report.baseline.empty()) text += wrap(report.baseline, width, 2) + "\n";
  for (const std::string& change : report.what_ifs) text += fmt::format("what if: {}\n", change);
  text += "\n";
  // The notes go on below, so they are the first column for the table, and stand last here.
  std::vector<Column> columns{{"Component", 0, false}, {"Memory", 0, true}};
  const std::vector<Row> rows = rows_of(plan);
  for (const Row& row : rows) {
    add_row(columns, {row.component, row.memory});
    for (Column& column : columns) column.paints.push_back(row.is_sum ? kBold : std::string_view());
  }
  fit_columns(columns, width, 20);
  Column notes{"Notes", 0, false};
  int taken = 4;  // the gaps
  for (const Column& column : columns) {
    int widest = display_width(column.title);
    for (const std::string& cell : column.cells) widest = std::max(widest, display_width(cell));
    taken += widest;
  }
  const int room = width - taken;
  for (const Row& row : rows) notes.cells.push_back(room < 8 ? "" : fit_to_width(row.notes, room));
  if (room >= 8) columns.push_back(std::move(notes));
  text += table_of(columns, color) + "\n";
  text += fmt::format("Verdict: {}\n", painted(verdict_words(plan),
                                               name_in({kGreen, kYellow, kRed, kRed}, plan.verdict), color));
  for (const std::string& reason : plan.reasons) text += wrap("  - " + reason, width, 4) + "\n";
  if (report.peak_before)
    text += wrap(fmt::format("  - before the changes: {}, peak {}", words_for(*report.verdict_before),
                             words_for_sum(*report.peak_before, decimal)),
                 width, 4) +
            "\n";
  text += "\n";
  for (const std::string& line : lines_of(report)) text += wrap(line, width, 2) + "\n";
  if (report.advice.empty() || plan.verdict == planning::Verdict::healthy) return text;
  text += "\nWhat to change first:\n";
  for (std::size_t i = 0; i < std::min(kMostAdvice, report.advice.size()); ++i) {
    const Advice& advice = report.advice[i];
    text += wrap(fmt::format("  {}. {}: saves {} at the peak, then {} ({})", i + 1, advice.words,
                             words_for_part(advice.saved, decimal), words_for(advice.verdict),
                             origin_words(advice)),
                 width, 5) +
            "\n";
  }
  if (report.advice.size() > kMostAdvice)
    text += fmt::format("  and {} more (--json)\n", report.advice.size() - kMostAdvice);
  const auto first =
      std::ranges::find_if(report.advice, [](const Advice& advice) { return !advice.what_ifs.empty(); });
  if (first == report.advice.end()) return text;
  text += "\nNext: " + report.command;
  for (const std::string& change : first->what_ifs) text += " --what-if " + shell_word(change);
  return text + "\n";
}

std::string plan_to_html(const PlanReport& report) {
  return page_with_data(Page::plan, {{"plan", to_line(plan_to_json(report))}});
}

std::string plan_to_markdown(const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  const bool decimal = plan.budget.is_decimal;
  std::string text =
      fmt::format("# {}\n\n{}\n\n", escaped(plan.budget.title.empty() ? plan.budget.name : plan.budget.title),
                  escaped(device_words(plan)));
  if (!report.baseline.empty()) text += escaped(report.baseline) + "\n\n";
  for (const std::string& change : report.what_ifs) text += fmt::format("What if: {}\n\n", code(change));
  MarkdownTable table(3, {"Component", "Memory Usage", "Notes"});
  for (const Row& row : rows_of(plan)) {
    const std::string mark = row.is_sum ? "**" : "";
    table.add({mark + escaped(row.component) + mark, mark + escaped(row.memory) + mark,
               mark + escaped(row.notes) + mark});
  }
  text += table.text();
  text += fmt::format("**Verdict**: {}.\n\n", verdict_words(plan));
  for (const std::string& reason : plan.reasons) text += fmt::format("- {}\n", escaped(reason));
  text += "\n";
  for (const std::string& line : lines_of(report)) text += escaped(line) + "\n\n";
  if (report.advice.empty()) return text;
  MarkdownTable advice(4, {"Change", "Saved at the peak", "Then", "Source of the figure"});
  for (const Advice& each : report.advice)
    advice.add({escaped(each.words), words_for_part(each.saved, decimal),
                std::string(words_for(each.verdict)), escaped(origin_words(each))});
  return text + advice.text();
}

std::string verification_to_terminal(const Verification& verification, bool color, int width) {
  std::vector<Column> columns{
      {"Component", 0, false}, {"Planned", 0, true}, {"Measured", 0, true}, {"Difference", 0, true}};
  const auto add = [&](const VerifiedFigure& figure, bool is_sum) {
    add_row(columns, {figure.name, format_bytes(figure.planned), format_bytes(figure.measured),
                      fmt::format("{:+.1f} %", 100 * figure.relative_difference())});
    for (Column& column : columns) column.paints.push_back(is_sum ? kBold : std::string_view());
  };
  for (const VerifiedFigure& figure : verification.components) add(figure, false);
  VerifiedFigure joint = verification.joint;
  joint.name = "All at once";
  add(joint, true);
  fit_columns(columns, width, 20);
  std::string text = fmt::format("{} (joint peak from {}{})\n\n", verification.run, verification.source,
                                 verification.is_lower_bound ? ", a lower bound" : "");
  text += table_of(columns, color) + "\n";
  for (const std::string& name : verification.left_out) text += fmt::format("not in the run: {}\n", name);
  const double off = 100 * verification.joint.relative_difference();
  text +=
      verification.holds
          ? painted(fmt::format("The plan holds: {:+.1f} %.", off), kGreen, color)
          : painted(fmt::format("The plan does not hold: it is {:.1f} % {}. Allowed: at most {:.0f} % over "
                                "and {:.0f} % under.",
                                std::abs(off), off < 0 ? "under" : "over", 100 * kMaxOver, 100 * kMaxUnder),
                    kRed, color);
  return text + "\n";
}

Bytes running_bytes(const BudgetComponent& component) {
  const MemoryNeed& need = component.need;
  return need.run_peak.value_or(Bytes{}) + need.frame_bytes() + need.transient;
}

Json plan_to_json(const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  Json object = {{"schema_version", kPlanSchemaVersion}, {"budget", plan.budget.name}};
  set_if(object, "title", plan.budget.title);
  object["is_decimal"] = plan.budget.is_decimal;
  const DeviceProfile& device = plan.budget.device;
  Json& device_object = object["device"] = Json::object();
  set_if(device_object, "id", device.id);
  set_if(device_object, "name", device.name);
  device_object["total_bytes"] = device.total.count;
  set_if(device_object, "source", device.source);
  device_object["is_control_group"] = device.is_control_group;
  const BudgetRules& rules = plan.budget.rules;
  object["rules"] = {{"most_used", rules.most_used},
                     {"healthy_used", rules.healthy_used},
                     {"buffer_bytes", rules.buffer.count},
                     {"allowed_bytes", plan.allowed.count}};
  object["verdict"] = name_of(plan.verdict);
  object["reasons"] = plan.reasons;
  object["running_bytes"] = plan.running.count;
  object["run_mean_bytes"] = plan.rest.count;
  object["peak_bytes"] = plan.worst().total.count;
  object["machine_peak_bytes"] = plan.machine_peak.count;
  object["charged_peak_bytes"] = plan.charged_peak.count;
  set_if(object, "unwaited_peak_bytes", plan.unwaited_peak);
  object["available_bytes"] = plan.available.count;
  object["used"] = plan.used;
  object["start"] = name_in({"in order", "together", "without waiting"}, plan.budget.start);
  object["start_order"] = json_names_of(plan.budget, plan.order);
  object["best_start_order"] = json_names_of(plan.budget, plan.best_order);
  object["best_peak_bytes"] = plan.best_peak.count;
  set_if(object, "baseline", report.baseline);
  if (!report.what_ifs.empty()) object["what_ifs"] = report.what_ifs;
  if (report.peak_before) {
    object["peak_before_bytes"] = report.peak_before->count;
    object["verdict_before"] = name_of(*report.verdict_before);
  }
  object["components"] = json_list(
      plan.budget.components, [](const BudgetComponent& component) { return plan_part_json(component); });
  object["moments"] =
      json_list(plan.moments, [&](const PlanMoment& moment) { return plan_part_json(moment, plan.budget); });
  object["worst_moment"] = plan.worst_moment;
  if (plan.fitting) object["fitting"] = plan_part_json(*plan.fitting, plan.budget);
  object["advice"] = json_list(report.advice, [](const Advice& each) {
    Json entry = {{"kind", name_of(each.kind)}, {"words", each.words}};
    set_if(entry, "component", each.component);
    if (!each.what_ifs.empty()) entry["what_ifs"] = each.what_ifs;
    entry["saved_bytes"] = each.saved.count;
    entry["own_bytes"] = each.own.count;
    entry["verdict"] = name_of(each.verdict);
    entry["origin"] = plan_part_json(each.origin);
    return entry;
  });
  return object;
}

Json verification_to_json(const Verification& verification) {
  Json components =
      json_list(verification.components, [](const VerifiedFigure& figure) { return plan_part_json(figure); });
  return {{"schema_version", kPlanSchemaVersion},        {"run", verification.run},
          {"joint_peak_source", verification.source},    {"is_lower_bound", verification.is_lower_bound},
          {"joint", plan_part_json(verification.joint)}, {"components", std::move(components)},
          {"left_out", verification.left_out},           {"holds", verification.holds}};
}

}  // namespace headroom::report
