#include "planning/what_if.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "planning/budget_reader.h"

namespace headroom::planning {
namespace {

const std::vector<std::string> kSettings{"precision", "backend", "input", "batch"};
const std::vector<std::string> kFields{
    "memory", "load_peak", "run_mean", "run_peak",  "transient", "frames",  "frame_count", "value",
    "group",  "pipeline",  "model",    "footprint", "precision", "backend", "input",       "batch"};

tl::unexpected<Error> wrong(const std::string& change, const std::string& why, const std::string& fix) {
  return usage_error(fmt::format("invalid --what-if '{}'", change), why, fix);
}

tl::unexpected<Error> no_component(const Budget& budget, const std::string& change, const std::string& name) {
  std::vector<std::string> names;
  for (const BudgetComponent& component : budget.components) names.push_back(component.name);
  const std::string closest = closest_match(name, names);
  return wrong(change, fmt::format("unknown component '{}'", name),
               closest.empty() ? fmt::format("known components: {}", fmt::join(names, ", "))
                               : fmt::format("did you mean '{}'?", closest));
}

BudgetComponent* find(Budget& budget, const std::string& name) {
  for (BudgetComponent& component : budget.components)
    if (component.name == name) return &component;
  for (BudgetComponent& component : budget.components)
    if (equals_ignoring_case(component.name, name)) return &component;
  return nullptr;
}

Status set_size(BudgetComponent& component, const std::string& field, const std::string& value,
                const std::string& change) {
  const auto size = parse_size(value);
  if (!size) return wrong(change, size.error().sentence(), "write a size such as 300MB");
  MemoryNeed& need = component.need;
  if (field == "transient") {
    need.transient = *size;
    return {};
  }
  if (field == "memory") {
    need.load_peak = need.run_mean = need.run_peak = *size;
    need.shared = {};
    need.measured_frames = {};
    need.model.clear();
    need.footprint.clear();
  }
  if (field == "load_peak") need.load_peak = *size;
  if (field == "run_mean") {
    if (need.run_peak && *size > *need.run_peak)
      return wrong(change, "run_mean is above run_peak",
                   "a mean is never above its peak; change run_peak first");
    need.run_mean = *size;
  }
  if (field == "run_peak") {
    need.run_peak = *size;
    if (need.run_mean && *need.run_mean > *size) need.run_mean = *size;
  }
  need.origin = {FigureOrigin::Kind::stated, "--what-if"};
  return {};
}

Status set_frames(BudgetComponent& component, const std::string& field, const std::string& value,
                  const std::string& change) {
  std::vector<FrameBuffers>& frames = component.need.frames;
  if (frames.empty())
    return wrong(change, fmt::format("'{}' has no frames in the budget", component.name),
                 "write frames = { resolution = \"1920x1080\", count = 10 } there");
  if (field == "frames") {
    const auto size = parse_resolution(value);
    if (!size) return wrong(change, size.error().what, size.error().fix);
    for (FrameBuffers& buffers : frames) {
      buffers.width = size->width;
      buffers.height = size->height;
    }
    return {};
  }
  const auto count = parse_number<std::int64_t>(value);
  constexpr std::int64_t kMost = 1'000'000;
  if (!count || *count < 1 || *count > kMost)
    return wrong(change, fmt::format("invalid count '{}'", value), "use a whole number, 1 or more");
  for (FrameBuffers& buffers : frames) buffers.count = *count;
  return {};
}

Status use_variant(Budget& budget, BudgetComponent& component, const std::string& field,
                   const std::string& value, const std::string& change) {
  std::vector<std::string> known;
  for (const BudgetVariant& variant : component.variants) {
    const auto setting = variant.settings.find(field);
    if (setting == variant.settings.end()) continue;
    if (equals_ignoring_case(setting->second, value)) {
      const auto at = static_cast<std::size_t>(&component - budget.components.data());
      budget = with_variant(budget, at, BudgetVariant(variant));
      return {};
    }
    known.push_back(setting->second);
  }
  return wrong(
      change, fmt::format("the memory of '{}' with {} = {} is unknown", component.name, field, value),
      known.empty() ? "add a [[component.variant]], or measure it with headroom bench and use --footprints"
                    : fmt::format("known: {}", fmt::join(known, ", ")));
}

}  // namespace

Budget without_component(Budget budget, const std::string& name) {
  std::set<std::string> gone{name};
  for (bool grew = true; grew;) {
    grew = false;
    for (const BudgetComponent& component : budget.components)
      for (const std::string& needed : component.needs)
        if (gone.contains(needed)) grew = gone.insert(component.name).second || grew;
  }
  const auto is_gone = [&](const std::string& each) { return gone.contains(each); };
  const auto has_system = [&] {
    return std::any_of(budget.components.begin(), budget.components.end(),
                       [](const BudgetComponent& each) { return each.is_system; });
  };
  const bool had_system = has_system();
  std::erase_if(budget.components, [&](const BudgetComponent& each) { return is_gone(each.name); });
  for (BudgetComponent& component : budget.components) std::erase_if(component.after, is_gone);
  // The dropped system row replaced the device's rows, so do not add those instead.
  if (had_system && !has_system()) budget.device.system = budget.device.desktop = {};
  return budget;
}

std::string dependency_conflict(const Budget& budget) {
  std::map<std::string, const BudgetComponent*> by_name;
  for (const BudgetComponent& component : budget.components) by_name.emplace(component.name, &component);
  for (const BudgetComponent& component : budget.components) {
    for (const auto* list : {&component.after, &component.needs}) {
      for (const std::string& name : *list) {
        const auto found = by_name.find(name);
        if (found == by_name.end()) continue;
        const BudgetComponent& other = *found->second;
        const bool is_needed = list == &component.needs;
        if (other.is_lazy && !component.is_lazy)
          return fmt::format("'{}' starts after '{}', which is lazy and not loaded at the start",
                             component.name, name);
        if (is_needed && other.is_lazy && other.group.empty() && component.group.empty())
          return fmt::format("'{}' needs '{}', but only one lazy component is loaded at a time",
                             component.name, name);
        if (is_needed && !component.group.empty() && component.group == other.group)
          return fmt::format("'{}' needs '{}', but members of a group never run together", component.name,
                             name);
      }
    }
  }
  return {};
}

Budget with_variant(Budget budget, std::size_t component, const BudgetVariant& variant) {
  BudgetComponent& changed = budget.components[component];
  MemoryNeed need = variant.need;
  // Values that the variant does not set stay unchanged.
  if (need.frames.empty() && !changed.need.frames.empty()) need.frames = changed.need.frames;
  if (need.transient == Bytes{}) need.transient = changed.need.transient;
  changed.need = std::move(need);
  for (const auto& [key, value] : variant.settings) changed.settings[key] = value;
  if (!variant.notes.empty()) changed.notes = variant.notes;
  return budget;
}

namespace {

// The position of the equals sign before the value. Component names may contain equals signs, so take the
// first one after a component's field, else the first.
std::size_t equals_sign_of(const Budget& budget, const std::string& change) {
  for (std::size_t at = change.find('='); at != change.npos; at = change.find('=', at + 1)) {
    const std::string what(trim(std::string_view(change).substr(0, at)));
    const std::size_t dot = what.rfind('.');
    if (what == "drop" || what == "lazy") return at;
    if (dot == what.npos || std::find(kFields.begin(), kFields.end(), what.substr(dot + 1)) == kFields.end())
      continue;
    const std::string name = what.substr(0, dot);
    if (std::any_of(budget.components.begin(), budget.components.end(),
                    [&](const BudgetComponent& each) { return equals_ignoring_case(each.name, name); }))
      return at;
  }
  return change.find('=');
}

}  // namespace

Result<Budget> with_change(Budget budget, const std::string& change) {
  const std::size_t equals = equals_sign_of(budget, change);
  const std::string what(trim(std::string_view(change).substr(0, equals)));
  const std::string value(equals == change.npos ? std::string_view()
                                                : trim(std::string_view(change).substr(equals + 1)));
  if (equals == change.npos || what.empty() || value.empty())
    return wrong(change, "missing value", "use COMPONENT.FIELD=VALUE, drop=COMPONENT or lazy=COMPONENT");
  if (what == "drop" || what == "lazy") {
    BudgetComponent* component = find(budget, value);
    if (component == nullptr) return no_component(budget, change, value);
    if (what == "drop") return without_component(budget, component->name);
    component->is_lazy = true;
    if (const std::string why = dependency_conflict(budget); !why.empty())
      return wrong(change, why, "make only components lazy that no other component needs");
    return budget;
  }
  const std::size_t dot = what.rfind('.');  // a name may have dots, a field has none
  if (dot == what.npos)
    return wrong(change, fmt::format("no field in '{}'", what),
                 "use COMPONENT.FIELD=VALUE, for example yolo.precision=int8");
  const std::string name = what.substr(0, dot), field = what.substr(dot + 1);
  BudgetComponent* component = find(budget, name);
  if (component == nullptr) return no_component(budget, change, name);
  if (std::find(kFields.begin(), kFields.end(), field) == kFields.end()) {
    const std::string closest = closest_match(field, kFields);
    return wrong(change, fmt::format("unknown field '{}'", field),
                 closest.empty() ? fmt::format("valid fields: {}", fmt::join(kFields, ", "))
                                 : fmt::format("did you mean '{}'?", closest));
  }
  Status done;
  if (std::find(kSettings.begin(), kSettings.end(), field) != kSettings.end()) {
    done = use_variant(budget, *component, field, value, change);
  } else if (field == "frames" || field == "frame_count") {
    done = set_frames(*component, field, value, change);
  } else if (field == "value") {
    const auto number = parse_number<double>(value);
    if (!number || !(*number >= 0) || *number > 1e9)
      return wrong(change, fmt::format("invalid value '{}'", value), "use a number, 0 or more");
    component->value = *number;
  } else if (field == "group" || field == "pipeline") {
    (field == "group" ? component->group : component->pipeline) = value;
  } else if (field == "model" || field == "footprint") {
    MemoryNeed& need = component->need;
    need.model.clear();
    need.footprint.clear();
    (field == "model" ? need.model : need.footprint) = value;
    need.run_peak.reset();
    component->settings.clear();  // they belong to the other measurement
  } else {
    done = set_size(*component, field, value, change);
  }
  if (!done) return forward_error(done);
  const auto is_too_large = [](const BudgetComponent& each) { return !each.need.is_plausible(); };
  if (std::any_of(budget.components.begin(), budget.components.end(), is_too_large))
    return wrong(change, "the result is larger than any memory", "write a size such as 300MB");
  if (const std::string why = dependency_conflict(budget); !why.empty())
    return wrong(change, why, "change the other component too, or leave both unchanged");
  return budget;
}

}  // namespace headroom::planning
