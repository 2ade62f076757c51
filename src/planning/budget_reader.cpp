#include "planning/budget_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"
#include "base/toml.h"
#include "planning/component_reader.h"
#include "planning/device_profiles.h"
#include "planning/what_if.h"

namespace headroom::planning {
namespace {

constexpr std::size_t kMostComponents = 200;

class BudgetReader {
 public:
  explicit BudgetReader(const std::string& name) : errors_(name), components_(name) { budget_.name = name; }

  Result<Budget> read(const toml::table& document) {
    static const std::vector<std::string> kKeys{"title",  "units", "start",    "order",
                                                "device", "rules", "component"};
    for (const auto& [key, node] : document) {
      const std::string word = without_stand_ins(key.str());
      Status done;
      if (word == "title")
        done = components_.read_text(node, word, budget_.title);
      else if (word == "units")
        done = read_units(node);
      else if (word == "start")
        done = read_start(node);
      else if (word == "device")
        done = read_device(node);
      else if (word == "rules")
        done = read_rules(node);
      else if (word == "component")
        done = read_components(node);
      else if (word != "order")
        return errors_.unknown_key(node, word, kKeys);
      if (!done) return forward_error(done);
    }
    if (budget_.components.empty())
      return usage_error(fmt::format("{}:1: no [[component]] in the budget", budget_.name), "",
                         "add [[component]] with a name and memory = \"500 MB\"");
    if (auto done = check_references(); !done) return forward_error(done);
    if (auto done = check_cycles(); !done) return forward_error(done);
    if (const toml::node* order = document.get("order"))
      if (auto done = read_order(*order); !done) return forward_error(done);
    if (auto done = check_order(); !done) return forward_error(done);
    return std::move(budget_);
  }

 private:
  Status read_units(const toml::node& node) {
    std::string word;
    if (auto done = components_.read_text(node, "units", word); !done) return done;
    if (word != "binary" && word != "decimal")
      return errors_.wrong(node, fmt::format("invalid units '{}'", word),
                           "use \"binary\" (MiB, 1024) or \"decimal\" (MB, 1000)");
    budget_.is_decimal = word == "decimal";
    return {};
  }

  Status read_start(const toml::node& node) {
    std::string word;
    if (auto done = components_.read_text(node, "start", word); !done) return done;
    if (word != "in order" && word != "together" && word != "without waiting")
      return errors_.wrong(node, fmt::format("invalid start '{}'", word),
                           "use \"in order\" (one after another), \"together\" or \"without waiting\"");
    budget_.start = word == "together"          ? StartMode::together
                    : word == "without waiting" ? StartMode::without_waiting
                                                : StartMode::in_order;
    return {};
  }

  Status read_device(const toml::node& node) {
    const auto* table = node.as_table();
    if (table == nullptr) return errors_.wrong(node, "'device' must be a table", "write [device]");
    DeviceProfile& device = budget_.device;
    if (const toml::node* profile = table->get("profile")) {
      std::string id;
      if (auto done = components_.read_text(*profile, "profile", id); !done) return done;
      auto known = device_profile(id);
      if (!known) return errors_.wrong(*profile, known.error().what, known.error().fix);
      device = std::move(*known);
    }
    for (const auto& [key, value] : *table) {
      const std::string word = without_stand_ins(key.str());
      Status done;
      if (word == "name") {
        done = components_.read_text(value, word, device.name);
      } else if (word == "total" || word == "system" || word == "desktop") {
        auto size = components_.size_of(value, word);
        if (!size) return forward_error(size);
        (word == "total" ? device.total : word == "system" ? device.system : device.desktop) = *size;
        if (word == "total") device.source = errors_.place(value);
      } else if (word == "headless") {
        bool is_headless = false;
        done = components_.read_bool(value, word, is_headless);
        budget_.has_desktop = !is_headless;
      } else if (word != "profile") {
        return errors_.unknown_key(value, word,
                                   {"profile", "name", "total", "system", "desktop", "headless"});
      }
      if (!done) return done;
    }
    if (device.total <= Bytes{})
      return errors_.wrong(node, "the device has no total memory",
                           "write total = \"16 GB\" or profile = \"orin-nx-16gb\"");
    if (device.name.empty()) device.name = device.id.empty() ? "this device" : device.id;
    return {};
  }

  Status read_rules(const toml::node& node) {
    const auto* table = node.as_table();
    if (table == nullptr) return errors_.wrong(node, "'rules' must be a table", "write [rules]");
    for (const auto& [key, value] : *table) {
      const std::string word = without_stand_ins(key.str());
      if (word == "buffer") {
        auto size = components_.size_of(value, word);
        if (!size) return forward_error(size);
        budget_.rules.buffer = *size;
      } else if (word == "most_used" || word == "healthy_used") {
        std::string text;
        if (const auto number = value.value<double>(); number && value.is_number())
          text = fmt::format("{}", *number);
        else if (auto done = components_.read_text(value, word, text); !done)
          return done;
        const auto share = parse_share(text);
        if (!share)
          return errors_.wrong(value, fmt::format("'{}' is not a valid share: {}", word, text),
                               "write \"85 %\"");
        (word == "most_used" ? budget_.rules.most_used : budget_.rules.healthy_used) = *share;
      } else {
        return errors_.unknown_key(value, word, {"most_used", "healthy_used", "buffer"});
      }
    }
    return {};
  }

  Status read_components(const toml::node& node) {
    if (!node.is_array_of_tables())
      return errors_.wrong(node, "'component' must be a list of tables", "write [[component]]");
    std::map<std::string, std::int64_t> lines;
    for (const toml::node& each : *node.as_array()) {
      if (budget_.components.size() == kMostComponents)
        return errors_.wrong(each, fmt::format("more than {} components", kMostComponents));
      auto component = components_.read(*each.as_table());
      if (!component) return forward_error(component);
      const auto [known, is_new] = lines.emplace(component->name, component->line);
      if (!is_new)
        return errors_.wrong(each, fmt::format("duplicate component '{}'", component->name),
                             fmt::format("the first one is in line {}", known->second));
      budget_.components.push_back(std::move(*component));
    }
    return {};
  }

  const BudgetComponent* find(const std::string& name) const {
    for (const BudgetComponent& component : budget_.components)
      if (component.name == name) return &component;
    return nullptr;
  }

  // An error at a component's line.
  tl::unexpected<Error> at(const BudgetComponent& component, const std::string& what,
                           const std::string& fix = {}) const {
    return usage_error(fmt::format("{}:{}: {}", budget_.name, component.line, what), "", fix);
  }

  Status check_references() const {
    std::vector<std::string> names;
    for (const BudgetComponent& component : budget_.components) names.push_back(component.name);
    for (const BudgetComponent& component : budget_.components)
      for (const auto* list : {&component.after, &component.needs})
        for (const std::string& name : *list) {
          const BudgetComponent* other = find(name);
          if (other == nullptr) {
            const std::string closest = closest_match(name, names);
            return at(component,
                      fmt::format("'{}' depends on '{}', which does not exist", component.name, name),
                      closest.empty() ? "" : fmt::format("did you mean '{}'?", closest));
          }
          Budget pair;
          pair.components = {component, *other};
          if (const std::string why = dependency_conflict(pair); !why.empty())
            return at(component, why, "remove one of them from its group, or make neither lazy");
        }
    return {};
  }

  // Reports a dependency cycle. First removes components whose dependencies are all removed, until none is
  // left or all remaining ones depend on each other.
  Status check_cycles() const {
    std::set<std::string> left;
    for (const BudgetComponent& component : budget_.components) left.insert(component.name);
    const auto waits_for = [&](const BudgetComponent& component) -> const std::string* {
      for (const auto* list : {&component.after, &component.needs})
        for (const std::string& name : *list)
          if (left.contains(name)) return &name;
      return nullptr;
    };
    for (bool removed = true; removed;) {
      removed = false;
      for (const BudgetComponent& component : budget_.components)
        if (left.contains(component.name) && waits_for(component) == nullptr)
          removed = left.erase(component.name) > 0;
    }
    if (left.empty()) return {};
    // Each remaining component waits for a remaining one, so following "waits for" runs into a cycle.
    std::vector<std::string> path;
    const BudgetComponent* current = find(*left.begin());
    while (std::find(path.begin(), path.end(), current->name) == path.end()) {
      path.push_back(current->name);
      current = find(*waits_for(*current));
    }
    const auto begin = std::find(path.begin(), path.end(), current->name);
    std::string words;
    for (auto step = begin; step != path.end(); ++step) words += fmt::format("'{}' after ", *step);
    return at(*current, fmt::format("the start order has a cycle: {}'{}'", words, current->name),
              "remove one of them from after or needs");
  }

  Status read_order(const toml::node& node) {
    std::vector<std::string> names;
    if (auto done = components_.read_texts(node, "order", names); !done) return done;
    std::vector<BudgetComponent> ordered;
    for (const std::string& name : names) {
      const BudgetComponent* component = find(name);
      if (component == nullptr) return errors_.wrong(node, fmt::format("unknown component '{}'", name));
      if (std::find(names.begin(), names.end(), name) !=
          std::find(names.rbegin(), names.rend(), name).base() - 1)
        return errors_.wrong(node, fmt::format("'{}' is twice in 'order'", name));
      ordered.push_back(*component);
    }
    for (const BudgetComponent& component : budget_.components)
      if (std::find(names.begin(), names.end(), component.name) == names.end()) ordered.push_back(component);
    budget_.components = std::move(ordered);
    has_order_ = true;
    return {};
  }

  // Components start in the order of the file. Dependencies are moved before the components that need them.
  // With an explicit `order`, a wrong order is an error instead.
  Status check_order() {
    std::vector<BudgetComponent> ordered;
    std::set<std::string> started;
    std::vector<BudgetComponent> left = budget_.components;
    while (!left.empty()) {
      const auto is_ready = [&](const BudgetComponent& component) {
        const auto is_started = [&](const std::string& name) { return started.contains(name); };
        return std::all_of(component.after.begin(), component.after.end(), is_started) &&
               std::all_of(component.needs.begin(), component.needs.end(), is_started);
      };
      const auto next = std::find_if(left.begin(), left.end(), is_ready);
      if (next == left.end()) break;  // impossible: check_cycles() found no cycle
      if (has_order_ && next != left.begin())
        return at(left.front(), fmt::format("'order' starts '{}' before its dependencies", left.front().name),
                  "change order, or after and needs");
      started.insert(next->name);
      ordered.push_back(std::move(*next));
      left.erase(next);
    }
    budget_.components = std::move(ordered);
    return {};
  }

  TomlErrors errors_;
  ComponentReader components_;
  Budget budget_;
  bool has_order_ = false;
};

}  // namespace

Result<Budget> parse_budget(std::string_view text, const std::string& name) {
  auto document = parse_toml(text, name);
  if (!document) {
    if (document.error().fix.empty())
      document.error().fix = "write tables of KEY = VALUE, as docs/plan.md shows";
    return forward_error(document);
  }
  return BudgetReader(name).read(*document);
}

Result<double> parse_share(std::string_view text) {
  text = trim(text);
  const bool is_percent = text.ends_with('%');
  if (is_percent) text = trim(text.substr(0, text.size() - 1));
  const auto number = parse_number<double>(text);
  const double share = number.value_or(-1) / (is_percent ? 100 : 1);
  if (!std::isfinite(share) || share <= 0 || share > 1)
    return usage_error(fmt::format("invalid share '{}{}'", text, is_percent ? "%" : ""), "",
                       "use a value above 0 and up to 100%, such as 85% or 0.85");
  return share;
}

Result<FrameBuffers> parse_resolution(std::string_view text) {
  constexpr std::int64_t kLargestSide = 100'000;
  const std::size_t x = text.find_first_of("xX");
  FrameBuffers buffers;
  const auto width = x == text.npos ? std::nullopt : parse_number<std::int64_t>(trim(text.substr(0, x)));
  const auto height = x == text.npos ? std::nullopt : parse_number<std::int64_t>(trim(text.substr(x + 1)));
  if (!width || !height || *width < 1 || *height < 1 || *width > kLargestSide || *height > kLargestSide)
    return usage_error(fmt::format("invalid resolution '{}'", text), "", "write \"1920x1080\"");
  buffers.width = *width;
  buffers.height = *height;
  return buffers;
}

}  // namespace headroom::planning
