#include "planning/changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/text.h"
#include "planning/best_set.h"
#include "planning/budget_reader.h"
#include "planning/dependencies.h"
#include "types/enum_names.h"

namespace headroom::planning {
namespace {

const std::vector<std::string> kSettings{"precision", "backend", "input", "batch"};
const std::vector<std::string> kFields{
    "memory", "load_peak", "run_mean", "run_peak",  "transient", "frames",  "frame_count", "value",
    "group",  "pipeline",  "model",    "footprint", "precision", "backend", "input",       "batch"};

Budget without_component(Budget budget, const std::string& name) {
  std::set<std::string> gone{name};
  for (bool grew = true; grew;) {
    grew = false;
    for (const BudgetComponent& component : budget.components)
      for (const std::string& needed : component.needs)
        if (gone.contains(needed)) grew = gone.insert(component.name).second || grew;
  }
  const auto is_gone = [&](const std::string& each) { return gone.contains(each); };
  const auto has_system = [&] { return std::ranges::any_of(budget.components, &BudgetComponent::is_system); };
  const bool had_system = has_system();
  std::erase_if(budget.components, [&](const BudgetComponent& each) { return is_gone(each.name); });
  for (BudgetComponent& component : budget.components) std::erase_if(component.after, is_gone);
  // The dropped system row replaced the device's rows, so do not add those instead.
  if (had_system && !has_system()) budget.device.system = budget.device.desktop = {};
  return budget;
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

tl::unexpected<Error> wrong(const std::string& change, const std::string& why, const std::string& fix) {
  return usage_error(fmt::format("invalid --what-if '{}'", change), why, fix);
}

tl::unexpected<Error> no_component(const Budget& budget, const std::string& change, const std::string& name) {
  std::vector<std::string> names;
  for (const BudgetComponent& component : budget.components) names.push_back(component.name);
  return wrong(change, fmt::format("unknown component '{}'", name),
               did_you_mean(name, names, fmt::format("known components: {}", fmt::join(names, ", "))));
}

BudgetComponent* find_changed(Budget& budget, const std::string& name) {
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

class Advisor {
 public:
  explicit Advisor(const MemoryPlan& plan) : plan_(plan) {}

  std::vector<Advice> run() {
    add_start_order();
    for (std::size_t i = 0; i < plan_.budget.components.size(); ++i) {
      const BudgetComponent& component = plan_.budget.components[i];
      if (component.is_system) continue;
      add_variants(i, component);
      add_frames(i, component);
      if (!component.is_required && !is_buffer(component)) add_drop(component);
    }
    add_lazy();
    std::ranges::stable_sort(found_, [](const Advice& a, const Advice& b) {
      return std::tie(a.verdict, a.kind, b.saved) < std::tie(b.verdict, b.kind, a.saved);
    });
    return std::move(found_);
  }

 private:
  // Keeps the advice if it lowers the peak.
  void add(Advice advice, const Budget& changed) {
    if (!dependency_conflict(changed).empty()) return;
    auto plan = make_plan(changed, PlanDetail::peak_alone);
    if (!plan) return;  // it would drop the last component
    advice.saved = plan_.worst().total - plan->worst().total;
    advice.verdict = plan->verdict;
    if (advice.saved > Bytes{}) found_.push_back(std::move(advice));
  }

  void add_start_order() {
    if (plan_.best_peak >= plan_.worst().total) return;
    Budget changed = plan_.budget;
    changed.components.clear();
    for (const std::size_t i : plan_.best_order) changed.components.push_back(plan_.budget.components[i]);
    for (const BudgetComponent& component : plan_.budget.components)
      if (component.is_lazy) changed.components.push_back(component);
    add({.kind = Advice::Kind::start_order,
         .words = "start in the order with the lowest peak",
         .origin = {.source = "the plan"}},
        changed);
  }

  void add_variants(std::size_t i, const BudgetComponent& component) {
    for (const BudgetVariant& variant : component.variants) {
      std::string settings;
      std::vector<std::string> what_ifs;
      for (const auto& [key, value] : variant.settings) {
        settings += fmt::format("{}{} {}", settings.empty() ? "" : ", ", key, value);
        // --what-if takes one setting and selects the first variant with it.
        const auto has_it = [&, key = key, value = value](const BudgetVariant& other) {
          const auto found = other.settings.find(key);
          return found != other.settings.end() && equals_ignoring_case(found->second, value);
        };
        if (what_ifs.empty() && &*std::ranges::find_if(component.variants, has_it) == &variant)
          what_ifs = {fmt::format("{}.{}={}", component.name, key, value)};
      }
      add({.kind = Advice::Kind::variant,
           .component = component.name,
           .what_ifs = std::move(what_ifs),
           .words = fmt::format("{} with {}", component.name, settings),
           .own = component.need.run_peak.value_or(Bytes{}) - variant.need.run_peak.value_or(Bytes{}),
           .origin = variant.need.origin},
          with_variant(plan_.budget, i, variant));
    }
  }

  void add_frames(std::size_t i, const BudgetComponent& component) {
    if (component.need.frames.empty()) return;
    Budget changed = plan_.budget;
    for (FrameBuffers& buffers : changed.components[i].need.frames) {
      buffers.width = std::max<std::int64_t>(1, buffers.width / 2);
      buffers.height = std::max<std::int64_t>(1, buffers.height / 2);
    }
    const FrameBuffers& first = changed.components[i].need.frames.front();
    std::vector<std::string> what_ifs;
    if (component.need.frames.size() == 1)
      what_ifs = {fmt::format("{}.frames={}x{}", component.name, first.width, first.height)};
    add({.kind = Advice::Kind::frames,
         .component = component.name,
         .what_ifs = std::move(what_ifs),
         .words = fmt::format("frames of {} at {} × {}", component.name, first.width, first.height),
         .own = component.need.frame_bytes() - changed.components[i].need.frame_bytes(),
         .origin = {.source = fmt::format("{}:{}: width × height × channels × depth × count",
                                          plan_.budget.name, component.line)}},
        changed);
  }

  void add_drop(const BudgetComponent& component) {
    Budget changed = without_component(plan_.budget, component.name);
    const auto required = [](const Budget& budget) {
      return std::ranges::count(budget.components, true, &BudgetComponent::is_required);
    };
    if (required(changed) != required(plan_.budget)) return;
    std::vector<std::string> with_it;  // components that need the dropped one
    for (const BudgetComponent& each : plan_.budget.components)
      if (each.name != component.name &&
          std::ranges::find(changed.components, each.name, &BudgetComponent::name) ==
              changed.components.end())
        with_it.push_back(each.name);
    std::string words = fmt::format("without {}", component.name);
    if (!with_it.empty())
      words +=
          fmt::format(" and {}, which need{} it", fmt::join(with_it, ", "), with_it.size() == 1 ? "s" : "");
    add({.kind = Advice::Kind::drop,
         .component = component.name,
         .what_ifs = {fmt::format("drop={}", component.name)},
         .words = std::move(words),
         .own = component.need.run_peak.value_or(Bytes{}) + component.need.frame_bytes(),
         .origin = component.need.origin},
        changed);
  }

  // A single lazy component saves nothing: while in use, it is in memory with all others. Two lazy components
  // take turns. So try each component with the existing lazy ones or, if there are none, the two largest
  // together.
  void add_lazy() {
    const std::vector<BudgetComponent>& components = plan_.budget.components;
    const auto is_open = [&](const BudgetComponent& component) {
      return !component.is_system && !component.is_lazy && component.group.empty() && !is_buffer(component) &&
             std::ranges::none_of(components, [&](const BudgetComponent& other) {
               const auto names = [&](const std::vector<std::string>& list) {
                 return std::ranges::find(list, component.name) != list.end();
               };
               return names(other.needs) || (!other.is_lazy && names(other.after));
             });
    };
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < components.size(); ++i)
      if (is_open(components[i])) open.push_back(i);
    if (std::ranges::any_of(components, &BudgetComponent::is_lazy)) {
      for (const std::size_t i : open) add_lazy_ones({i});
      return;
    }
    std::ranges::stable_sort(open, [&](std::size_t a, std::size_t b) {
      return components[a].need.run_peak > components[b].need.run_peak;
    });
    if (open.size() >= 2) add_lazy_ones({open[0], open[1]});
  }

  void add_lazy_ones(const std::vector<std::size_t>& which) {
    Budget changed = plan_.budget;
    const BudgetComponent& first = changed.components[which.front()];
    const MemoryNeed& last_need = changed.components[which.back()].need;
    Advice advice{.kind = Advice::Kind::lazy,
                  .component = first.name,
                  .own = last_need.run_peak.value_or(Bytes{}),
                  .origin = last_need.origin};
    for (const std::size_t i : which) {
      BudgetComponent& component = changed.components[i];
      component.is_lazy = true;
      advice.what_ifs.push_back(fmt::format("lazy={}", component.name));
      advice.words += fmt::format("{}{}", advice.words.empty() ? "" : " and ", component.name);
    }
    advice.words += " loaded on demand, one at a time";
    if (which.size() == 1) advice.words += " with the other lazy components";
    // The origin of both figures; an estimate if one of them is.
    const FigureOrigin& other = first.need.origin;
    if (which.size() > 1 && other.source != advice.origin.source) advice.origin.source += ", " + other.source;
    if (other.kind == FigureOrigin::Kind::estimate) advice.origin.kind = other.kind;
    add(std::move(advice), changed);
  }

  const MemoryPlan& plan_;
  std::vector<Advice> found_;
};

}  // namespace

Result<Budget> with_change(Budget budget, const std::string& change) {
  const std::size_t first = change.find('=');
  const std::string_view verb = trim(std::string_view(change).substr(0, first));
  // The name of a component may contain equals signs.
  const std::size_t equals = verb == "drop" || verb == "lazy" ? first : change.rfind('=');
  const std::string what(trim(std::string_view(change).substr(0, equals)));
  const std::string value(equals == change.npos ? std::string_view()
                                                : trim(std::string_view(change).substr(equals + 1)));
  if (equals == change.npos || what.empty() || value.empty())
    return wrong(change, "missing value", "use COMPONENT.FIELD=VALUE, drop=COMPONENT or lazy=COMPONENT");
  if (what == "drop" || what == "lazy") {
    BudgetComponent* component = find_changed(budget, value);
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
  BudgetComponent* component = find_changed(budget, name);
  if (component == nullptr) return no_component(budget, change, name);
  if (std::ranges::find(kFields, field) == kFields.end())
    return wrong(change, fmt::format("unknown field '{}'", field),
                 did_you_mean(field, kFields, fmt::format("valid fields: {}", fmt::join(kFields, ", "))));
  Status done;
  if (std::ranges::find(kSettings, field) != kSettings.end()) {
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
  if (std::ranges::any_of(budget.components, is_too_large))
    return wrong(change, "the result is larger than any memory", "write a size such as 300MB");
  if (const std::string why = dependency_conflict(budget); !why.empty())
    return wrong(change, why, "change the other component too, or leave both unchanged");
  return budget;
}

std::string_view name_of(Advice::Kind kind) {
  return name_in({"start_order", "lazy", "variant", "frames", "drop"}, kind);
}

std::vector<Advice> advice_for(const MemoryPlan& plan) { return Advisor(plan).run(); }

}  // namespace headroom::planning
