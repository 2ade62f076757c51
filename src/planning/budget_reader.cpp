#include "planning/budget_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/toml.h"
#include "planning/dependencies.h"
#include "planning/devices.h"

namespace headroom::planning {
namespace {

constexpr std::size_t kMostComponents = 200;

using ReadValue = TomlReader::ReadValue;
using ReadKeys = std::map<std::string, ReadValue>;

bool is_measured(const MemoryNeed& need) { return !need.model.empty() || !need.footprint.empty(); }

// Reads values that several tables of a budget have.
class ValueReader : public TomlReader {
 public:
  using TomlReader::TomlReader;

  template <class Size>  // Bytes, or optional Bytes
  ReadValue size_into(Size& target) const {
    return [this, &target](const toml::node& node, const std::string& key) -> Status {
      constexpr Bytes kLargest = gibibytes(1 << 20);  // the sum of a thousand sizes must fit into the type
      if (!node.is_string())
        return wrong(node, fmt::format("'{}' must be a size in quotes with its unit", key),
                     fmt::format("write {} = \"500 MB\"", key));
      std::string text;
      if (auto done = read(node, key, text); !done) return done;
      const auto size = parse_size(text);
      if (!size)
        return wrong(node, fmt::format("'{}' is not a valid size: {}", key, size.error().what),
                     size.error().fix.empty() ? "write \"500 MB\" or \"1.5 GiB\"" : size.error().fix);
      if (*size > kLargest) return wrong(node, fmt::format("'{}' is larger than any memory: {}", key, text));
      target = *size;
      return {};
    };
  }

  // A word that selects one of the values.
  template <class Value>
  ReadValue choice_into(Value& target, std::vector<std::pair<std::string, Value>> choices,
                        std::string fix) const {
    return [this, &target, choices = std::move(choices), fix = std::move(fix)](const toml::node& node,
                                                                               const std::string& key) {
      std::string word;
      if (auto done = read(node, key, word); !done) return done;
      for (const auto& [name, value] : choices)
        if (name == word) {
          target = value;
          return Status{};
        }
      return Status(wrong(node, fmt::format("invalid {} '{}'", key, word), fix));
    };
  }

  ReadValue whole_number_into(std::int64_t& target, std::int64_t most) const {
    return [this, &target, most](const toml::node& node, const std::string& key) -> Status {
      const auto* number = node.as_integer();
      if (number == nullptr || number->get() < 1 || number->get() > most)
        return wrong(node, fmt::format("'{}' must be a whole number from 1 to {}", key, most));
      target = number->get();
      return {};
    };
  }
};

// Reads one [[component]]. docs/plan.md lists its keys.
class ComponentReader {
 public:
  explicit ComponentReader(const ValueReader& toml) : toml_(toml) {}

  Result<BudgetComponent> read(const toml::table& table) const {
    BudgetComponent component;
    component.line = table.source().begin.line;
    std::string estimate;
    ReadKeys keys = need_keys(component.need, estimate);
    keys.merge(setting_keys(component.settings));
    keys.merge(ReadKeys{
        {"name", toml_.into(component.name)},
        {"notes", toml_.into(component.notes)},
        {"group", toml_.into(component.group)},
        {"pipeline", toml_.into(component.pipeline)},
        {"required", toml_.into(component.is_required)},
        {"lazy", toml_.into(component.is_lazy)},
        {"system", toml_.into(component.is_system)},
        {"after", toml_.into(component.after)},
        {"needs", toml_.into(component.needs)},
        {"value",
         [&](const toml::node& node, const std::string&) { return read_value(node, component.value); }},
        {"variant",
         [&](const toml::node& node, const std::string&) { return read_variants(node, component.variants); }},
    });
    if (auto done = toml_.read_keys(table, keys); !done) return forward_error(done);
    if (auto done = complete_need(table, component.need, estimate); !done) return forward_error(done);
    if (component.name.empty()) return toml_.wrong(table, "a component has no name", "write name = \"…\"");
    MemoryNeed& need = component.need;
    if (need.run_peak || is_measured(need)) return component;
    if (need.frames.empty() && need.transient == Bytes{})
      return toml_.wrong(table, fmt::format("the component '{}' has no memory", component.name),
                         "write memory = \"500 MB\", or model = \"NAME\" for a measured model");
    need.load_peak = need.run_mean = need.run_peak = Bytes{};  // it consists of buffers only
    return component;
  }

 private:
  // The keys for the memory of a component or a variant.
  ReadKeys need_keys(MemoryNeed& need, std::string& estimate) const {
    const auto measured = [&](std::string& target) {
      return [&](const toml::node& node, const std::string& key) {
        need.line = node.source().begin.line;
        return toml_.read(node, key, target);
      };
    };
    return {{"memory", toml_.size_into(need.run_peak)},
            {"load_peak", toml_.size_into(need.load_peak)},
            {"run_mean", toml_.size_into(need.run_mean)},
            {"run_peak", toml_.size_into(need.run_peak)},
            {"transient", toml_.size_into(need.transient)},
            {"frames",
             [&](const toml::node& node, const std::string&) { return read_frames(node, need.frames); }},
            {"model", measured(need.model)},
            {"footprint", measured(need.footprint)},
            {"source", toml_.into(need.origin.source)},
            {"estimate", toml_.into(estimate)}};
  }

  // The keys for the settings of a component. A variant changes some of them.
  ReadKeys setting_keys(std::map<std::string, std::string>& settings) const {
    ReadKeys keys;
    for (const char* name : {"precision", "backend", "input", "batch"})
      keys[name] = [&](const toml::node& node, const std::string& key) {
        return toml_.read(node, key, settings[key]);
      };
    return keys;
  }

  // Checks the need and sets what its keys imply.
  Status complete_need(const toml::table& table, MemoryNeed& need, const std::string& estimate) const {
    if (need.line == 0) need.line = table.source().begin.line;
    if (need.origin.source.empty()) need.origin.source = toml_.place(table);
    if (table.contains("memory") && table.contains("run_peak"))
      return toml_.wrong(*table.get("memory"), "both 'memory' and 'run_peak' are set", "keep one of them");
    if (!need.is_plausible()) return toml_.wrong(table, "its sizes and frames are larger than any memory");
    const bool has_sizes = need.run_peak || need.load_peak || need.run_mean;
    if (is_measured(need))
      return has_sizes ? Status(toml_.wrong(table, "both a measured footprint and sizes are set",
                                            "keep one of them"))
                       : Status{};
    if (!need.run_peak && has_sizes)
      return toml_.wrong(table, "load_peak and run_mean need a run_peak",
                         "write run_peak or memory = \"500 MB\"");
    if (!need.load_peak) need.load_peak = need.run_peak;
    if (!need.run_mean) need.run_mean = need.run_peak;
    if (need.run_mean > need.run_peak)
      return toml_.wrong(table, "run_mean is above run_peak", "a mean is never above its peak");
    if (!estimate.empty()) need.origin = {FigureOrigin::Kind::estimate, estimate};
    return {};
  }

  // One table, or a list of them.
  Status read_frames(const toml::node& node, std::vector<FrameBuffers>& frames) const {
    if (const auto* list = node.as_array()) {
      for (const toml::node& each : *list)
        if (auto done = read_frames(each, frames); !done) return done;
      return {};
    }
    const auto* table = node.as_table();
    if (table == nullptr)
      return toml_.wrong(
          node, "'frames' must be a table",
          "write frames = { resolution = \"1920x1080\", channels = 3, depth = 8, count = 10 }");
    FrameBuffers& buffers = frames.emplace_back();
    std::int64_t depth = 8;
    const auto read_resolution = [&](const toml::node& value, const std::string& key) -> Status {
      std::string text;
      if (auto done = toml_.read(value, key, text); !done) return done;
      const auto size = parse_resolution(text);
      if (!size) return toml_.wrong(value, size.error().what, size.error().fix);
      buffers.width = size->width;
      buffers.height = size->height;
      return {};
    };
    auto done = toml_.read_keys(*table, {{"resolution", read_resolution},
                                         {"channels", toml_.whole_number_into(buffers.channels, 4096)},
                                         {"depth", toml_.whole_number_into(depth, 64)},
                                         {"count", toml_.whole_number_into(buffers.count, 1'000'000)}});
    if (!done) return done;
    if (depth % 8 != 0)
      return toml_.wrong(*table->get("depth"), "'depth' must be the bits per channel", "write 8, 16 or 32");
    buffers.channel_bytes = depth / 8;
    if (buffers.width == 0)
      return toml_.wrong(node, "'frames' has no resolution", "write resolution = \"1920x1080\"");
    constexpr double kMost = 1e15;
    const double pixels = static_cast<double>(buffers.width * buffers.height);
    if (pixels * static_cast<double>(buffers.channels * buffers.channel_bytes * buffers.count) > kMost)
      return toml_.wrong(node, "'frames' is larger than any memory");
    return {};
  }

  Status read_variants(const toml::node& node, std::vector<BudgetVariant>& variants) const {
    return toml_.read_tables(node, "component.variant", [&](const toml::table& table) -> Status {
      BudgetVariant& variant = variants.emplace_back();
      std::string estimate;
      ReadKeys keys = need_keys(variant.need, estimate);
      keys.merge(setting_keys(variant.settings));
      keys.emplace("notes", toml_.into(variant.notes));
      if (auto done = toml_.read_keys(table, keys); !done) return done;
      if (auto done = complete_need(table, variant.need, estimate); !done) return done;
      if (variant.settings.empty())
        return toml_.wrong(table, "the variant changes no setting",
                           "add precision, backend, input or batch = \"…\"");
      if (!variant.need.run_peak && !is_measured(variant.need))
        return toml_.wrong(table, "the variant has no memory",
                           "write memory = \"250 MB\", model or footprint");
      return {};
    });
  }

  Status read_value(const toml::node& node, double& value) const {
    constexpr double kMost = 1e9;
    const auto number = node.value<double>();
    if (!node.is_number() || !number || !std::isfinite(*number) || *number < 0 || *number > kMost)
      return toml_.wrong(node, "'value' must be a number, 0 or more");
    value = *number;
    return {};
  }

  const ValueReader& toml_;
};

class BudgetReader {
 public:
  explicit BudgetReader(const std::string& name) : toml_(name) { budget_.name = name; }

  Result<Budget> read(const toml::table& document) {
    std::vector<std::string> order;
    const auto components = [&](const toml::node& node, const std::string& key) {
      return toml_.read_tables(node, key, [&](const toml::table& table) { return read_component(table); });
    };
    auto done = toml_.read_keys(
        document,
        {{"title", toml_.into(budget_.title)},
         {"units", toml_.choice_into(budget_.is_decimal, {{"binary", false}, {"decimal", true}},
                                     "use \"binary\" (MiB, 1024) or \"decimal\" (MB, 1000)")},
         {"start",
          toml_.choice_into(budget_.start,
                            {{"in order", StartMode::in_order},
                             {"together", StartMode::together},
                             {"without waiting", StartMode::without_waiting}},
                            "use \"in order\" (one after another), \"together\" or \"without waiting\"")},
         {"device", [&](const toml::node& node, const std::string&) { return read_device(node); }},
         {"rules", [&](const toml::node& node, const std::string&) { return read_rules(node); }},
         {"component", components},
         {"order", toml_.into(order)}});
    if (!done) return forward_error(done);
    if (budget_.components.empty())
      return usage_error(fmt::format("{}:1: no [[component]] in the budget", budget_.name), "",
                         "add [[component]] with a name and memory = \"500 MB\"");
    if (done = check_dependencies(budget_); !done) return forward_error(done);
    const toml::node* order_node = document.get("order");
    if (order_node != nullptr)
      if (done = apply_order(*order_node, order); !done) return forward_error(done);
    if (done = start_dependencies_first(budget_, order_node != nullptr); !done) return forward_error(done);
    return std::move(budget_);
  }

 private:
  Status read_device(const toml::node& node) {
    const auto* table = node.as_table();
    if (table == nullptr) return toml_.wrong(node, "'device' must be a table", "write [device]");
    DeviceProfile& device = budget_.device;
    if (const toml::node* profile = table->get("profile")) {
      std::string id;
      if (auto done = toml_.read(*profile, "profile", id); !done) return done;
      auto known = device_profile(id);
      if (!known) return toml_.wrong(*profile, known.error().what, known.error().fix);
      device = std::move(*known);
    }
    bool is_headless = !budget_.has_desktop;
    std::string profile;  // read above, because the other keys change it
    auto done = toml_.read_keys(*table, {{"profile", toml_.into(profile)},
                                         {"name", toml_.into(device.name)},
                                         {"total", toml_.size_into(device.total)},
                                         {"system", toml_.size_into(device.system)},
                                         {"desktop", toml_.size_into(device.desktop)},
                                         {"headless", toml_.into(is_headless)}});
    if (!done) return done;
    budget_.has_desktop = !is_headless;
    if (const toml::node* total = table->get("total")) device.source = toml_.place(*total);
    if (device.total <= Bytes{})
      return toml_.wrong(node, "the device has no total memory",
                         "write total = \"16 GB\" or profile = \"orin-nx-16gb\"");
    if (device.name.empty()) device.name = device.id.empty() ? "this device" : device.id;
    return {};
  }

  Status read_rules(const toml::node& node) {
    const auto* table = node.as_table();
    if (table == nullptr) return toml_.wrong(node, "'rules' must be a table", "write [rules]");
    BudgetRules& rules = budget_.rules;
    return toml_.read_keys(*table, {{"buffer", toml_.size_into(rules.buffer)},
                                    {"most_used", share_into(rules.most_used)},
                                    {"healthy_used", share_into(rules.healthy_used)}});
  }

  ReadValue share_into(double& target) const {
    return [this, &target](const toml::node& node, const std::string& key) -> Status {
      std::string text;
      if (const auto number = node.value<double>(); number && node.is_number())
        text = fmt::format("{}", *number);
      else if (auto done = toml_.read(node, key, text); !done)
        return done;
      const auto share = parse_share(text);
      if (!share)
        return toml_.wrong(node, fmt::format("'{}' is not a valid share: {}", key, text), "write \"85 %\"");
      target = *share;
      return {};
    };
  }

  Status read_component(const toml::table& table) {
    if (budget_.components.size() == kMostComponents)
      return toml_.wrong(table, fmt::format("more than {} components", kMostComponents));
    auto component = ComponentReader(toml_).read(table);
    if (!component) return forward_error(component);
    if (const BudgetComponent* known = find_component(budget_, component->name))
      return toml_.wrong(table, fmt::format("duplicate component '{}'", component->name),
                         fmt::format("the first one is in line {}", known->line));
    budget_.components.push_back(std::move(*component));
    return {};
  }

  Status apply_order(const toml::node& node, const std::vector<std::string>& names) {
    std::vector<BudgetComponent> ordered;
    for (const std::string& name : names) {
      const BudgetComponent* component = find_component(budget_, name);
      if (component == nullptr) return toml_.wrong(node, fmt::format("unknown component '{}'", name));
      if (std::ranges::count(names, name) > 1)
        return toml_.wrong(node, fmt::format("'{}' is twice in 'order'", name));
      ordered.push_back(*component);
    }
    for (const BudgetComponent& component : budget_.components)
      if (std::ranges::count(names, component.name) == 0) ordered.push_back(component);
    budget_.components = std::move(ordered);
    return {};
  }

  ValueReader toml_;
  Budget budget_;
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
  const double share = parse_number<double>(text).value_or(-1) / (is_percent ? 100 : 1);
  if (!std::isfinite(share) || share <= 0 || share > 1)
    return usage_error(fmt::format("invalid share '{}{}'", text, is_percent ? "%" : ""), "",
                       "use a value above 0 and up to 100%, such as 85% or 0.85");
  return share;
}

Result<FrameBuffers> parse_resolution(std::string_view text) {
  constexpr std::int64_t kLargestSide = 100'000;
  const std::size_t x = text.find_first_of("xX");
  const auto width = parse_number<std::int64_t>(trim(text.substr(0, x)));
  const auto height = parse_number<std::int64_t>(x == text.npos ? "" : trim(text.substr(x + 1)));
  if (!width || !height || *width < 1 || *height < 1 || *width > kLargestSide || *height > kLargestSide)
    return usage_error(fmt::format("invalid resolution '{}'", text), "", "write \"1920x1080\"");
  FrameBuffers buffers;
  buffers.width = *width;
  buffers.height = *height;
  return buffers;
}

}  // namespace headroom::planning
