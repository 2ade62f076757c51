#include <array>

#include "base/json.h"
#include "report/plan/plan_views.h"

namespace headroom::report {
namespace {

using namespace planning;

Json plan_part_json(const FigureOrigin& origin) {
  constexpr std::array<std::string_view, 3> kKinds{"stated", "estimate", "measured"};  // in the order of Kind
  Json object = {{"kind", kKinds.at(static_cast<std::size_t>(origin.kind))}};
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

Json plan_to_json(const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  Json object = {{"schema_version", kPlanSchemaVersion}, {"budget", plan.budget.name}};
  set_if(object, "title", plan.budget.title);
  object["is_decimal"] = plan.budget.is_decimal;
  const DeviceProfile& device = plan.budget.device;
  Json device_object = Json::object();
  set_if(device_object, "id", device.id);
  set_if(device_object, "name", device.name);
  device_object["total_bytes"] = device.total.count;
  set_if(device_object, "source", device.source);
  device_object["is_control_group"] = device.is_control_group;
  object["device"] = std::move(device_object);
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
  object["start"] = plan.budget.start == StartMode::in_order   ? "in order"
                    : plan.budget.start == StartMode::together ? "together"
                                                               : "without waiting";
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
