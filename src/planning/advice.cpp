#include "planning/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "planning/what_if.h"

namespace headroom::planning {
namespace {

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
      if (!component.is_required) add_drop(component);
    }
    add_lazy();
    std::stable_sort(found_.begin(), found_.end(), [](const Advice& a, const Advice& b) {
      if (a.verdict != b.verdict) return a.verdict < b.verdict;
      if (a.kind != b.kind) return a.kind < b.kind;
      return a.saved > b.saved;
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
    Advice advice;
    advice.kind = Advice::Kind::start_order;
    advice.words = "start in the order with the lowest peak";
    advice.origin.source = "the plan";
    add(std::move(advice), changed);
  }

  void add_variants(std::size_t i, const BudgetComponent& component) {
    for (const BudgetVariant& variant : component.variants) {
      Advice advice;
      advice.kind = Advice::Kind::variant;
      advice.component = component.name;
      std::string settings;
      for (const auto& [key, value] : variant.settings) {
        settings += fmt::format("{}{} {}", settings.empty() ? "" : ", ", key, value);
        // --what-if takes one setting and selects the first variant with it.
        const auto has_it = [&, key = key, value = value](const BudgetVariant& other) {
          const auto found = other.settings.find(key);
          return found != other.settings.end() && equals_ignoring_case(found->second, value);
        };
        if (advice.what_ifs.empty() &&
            &*std::find_if(component.variants.begin(), component.variants.end(), has_it) == &variant)
          advice.what_ifs = {fmt::format("{}.{}={}", component.name, key, value)};
      }
      advice.words = fmt::format("{} with {}", component.name, settings);
      advice.own = component.need.run_peak.value_or(Bytes{}) - variant.need.run_peak.value_or(Bytes{});
      advice.origin = variant.need.origin;
      add(std::move(advice), with_variant(plan_.budget, i, variant));
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
    Advice advice;
    advice.kind = Advice::Kind::frames;
    advice.component = component.name;
    if (component.need.frames.size() == 1)
      advice.what_ifs = {fmt::format("{}.frames={}x{}", component.name, first.width, first.height)};
    advice.words = fmt::format("frames of {} at {} × {}", component.name, first.width, first.height);
    advice.own = component.need.frame_bytes() - changed.components[i].need.frame_bytes();
    advice.origin.source =
        fmt::format("{}:{}: width × height × channels × depth × count", plan_.budget.name, component.line);
    add(std::move(advice), changed);
  }

  void add_drop(const BudgetComponent& component) {
    Budget changed = without_component(plan_.budget, component.name);
    const auto required = [](const Budget& budget) {
      return std::count_if(budget.components.begin(), budget.components.end(),
                           [](const BudgetComponent& each) { return each.is_required; });
    };
    if (required(changed) != required(plan_.budget)) return;
    std::vector<std::string> with_it;  // components that need the dropped one
    for (const BudgetComponent& each : plan_.budget.components)
      if (each.name != component.name &&
          std::none_of(changed.components.begin(), changed.components.end(),
                       [&](const BudgetComponent& left) { return left.name == each.name; }))
        with_it.push_back(each.name);
    Advice advice;
    advice.kind = Advice::Kind::drop;
    advice.component = component.name;
    advice.what_ifs = {fmt::format("drop={}", component.name)};
    advice.words = fmt::format("without {}", component.name);
    if (!with_it.empty())
      advice.words +=
          fmt::format(" and {}, which need{} it", fmt::join(with_it, ", "), with_it.size() == 1 ? "s" : "");
    advice.own = component.need.run_peak.value_or(Bytes{}) + component.need.frame_bytes();
    advice.origin = component.need.origin;
    add(std::move(advice), changed);
  }

  // A single lazy component saves nothing: while in use, it is in memory with all others. Two lazy components
  // take turns. So try each component with the existing lazy ones or, if there are none, the two largest
  // together.
  void add_lazy() {
    const std::vector<BudgetComponent>& components = plan_.budget.components;
    const auto is_open = [&](const BudgetComponent& component) {
      return !component.is_system && !component.is_lazy && component.group.empty() &&
             std::none_of(components.begin(), components.end(), [&](const BudgetComponent& other) {
               const auto names = [&](const std::vector<std::string>& list) {
                 return std::find(list.begin(), list.end(), component.name) != list.end();
               };
               return names(other.needs) || (!other.is_lazy && names(other.after));
             });
    };
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < components.size(); ++i)
      if (is_open(components[i])) open.push_back(i);
    const bool has_lazy = std::any_of(components.begin(), components.end(),
                                      [](const BudgetComponent& component) { return component.is_lazy; });
    if (has_lazy) {
      for (const std::size_t i : open) add_lazy_ones({i});
      return;
    }
    std::stable_sort(open.begin(), open.end(), [&](std::size_t a, std::size_t b) {
      return components[a].need.run_peak > components[b].need.run_peak;
    });
    if (open.size() >= 2) add_lazy_ones({open[0], open[1]});
  }

  void add_lazy_ones(const std::vector<std::size_t>& which) {
    Budget changed = plan_.budget;
    Advice advice;
    advice.kind = Advice::Kind::lazy;
    std::string names;
    for (const std::size_t i : which) {
      changed.components[i].is_lazy = true;
      names += fmt::format("{}{}", names.empty() ? "" : " and ", changed.components[i].name);
    }
    advice.component = changed.components[which.front()].name;
    for (const std::size_t i : which)
      advice.what_ifs.push_back(fmt::format("lazy={}", plan_.budget.components[i].name));
    advice.words =
        which.size() == 1
            ? fmt::format("{} loaded on demand, one at a time with the other lazy components", names)
            : fmt::format("{} loaded on demand, one at a time", names);
    // The origin of both figures; an estimate if one of them is.
    advice.origin = changed.components[which.back()].need.origin;
    const FigureOrigin& other = changed.components[which.front()].need.origin;
    if (which.size() > 1 && other.source != advice.origin.source) advice.origin.source += ", " + other.source;
    if (other.kind == FigureOrigin::Kind::estimate) advice.origin.kind = other.kind;
    advice.own = changed.components[which.back()].need.run_peak.value_or(Bytes{});
    add(std::move(advice), changed);
  }

  const MemoryPlan& plan_;
  std::vector<Advice> found_;
};

}  // namespace

std::string_view name_of(Advice::Kind kind) {
  switch (kind) {
    case Advice::Kind::start_order:
      return "start_order";
    case Advice::Kind::lazy:
      return "lazy";
    case Advice::Kind::variant:
      return "variant";
    case Advice::Kind::frames:
      return "frames";
    case Advice::Kind::drop:
      return "drop";
  }
  return "";
}

std::vector<Advice> advice_for(const MemoryPlan& plan) { return Advisor(plan).run(); }

}  // namespace headroom::planning
