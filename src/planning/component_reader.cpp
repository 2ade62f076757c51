#include "planning/component_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "planning/budget_reader.h"

namespace headroom::planning {
namespace {

// Keys for the memory of a component or a variant.
const std::vector<std::string> kNeedKeys{"memory", "load_peak", "run_mean",  "run_peak", "transient",
                                         "frames", "model",     "footprint", "source",   "estimate"};
// Keys for the settings of a component. A variant changes some of them.
const std::vector<std::string> kSettingKeys{"precision", "backend", "input", "batch"};
const std::vector<std::string> kOwnKeys{"name",  "notes",    "value", "required", "after",  "needs",
                                        "group", "pipeline", "lazy",  "system",   "variant"};

bool is_one_of(const std::string& key, const std::vector<std::string>& keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

Status ComponentReader::read_text(const toml::node& node, const std::string& key, std::string& text) const {
  const auto* value = node.as_string();
  if (value == nullptr || trim(value->get()).empty())
    return errors_.wrong(node, fmt::format("'{}' must be a string in quotes", key));
  text = without_stand_ins(value->get());
  return {};
}

Status ComponentReader::read_texts(const toml::node& node, const std::string& key,
                                   std::vector<std::string>& texts) const {
  const auto* list = node.as_array();
  if (list == nullptr)
    return errors_.wrong(node, fmt::format("'{}' must be a list of names", key),
                         fmt::format("write {} = [\"…\"]", key));
  for (const toml::node& element : *list) {
    std::string text;
    if (auto done = read_text(element, key, text); !done) return done;
    texts.push_back(std::move(text));
  }
  return {};
}

Status ComponentReader::read_bool(const toml::node& node, const std::string& key, bool& value) const {
  if (!node.is_boolean()) return errors_.wrong(node, fmt::format("'{}' must be true or false", key));
  value = node.as_boolean()->get();
  return {};
}

Result<Bytes> ComponentReader::size_of(const toml::node& node, const std::string& key) const {
  // The sum of a thousand sizes must fit into the type.
  constexpr Bytes kLargest = gibibytes(1 << 20);
  std::string text;
  if (!node.is_string())
    return errors_.wrong(node, fmt::format("'{}' must be a size in quotes with its unit", key),
                         fmt::format("write {} = \"500 MB\"", key));
  if (auto done = read_text(node, key, text); !done) return forward_error(done);
  const auto size = parse_size(text);
  if (!size)
    return errors_.wrong(node, fmt::format("'{}' is not a valid size: {}", key, size.error().what),
                         size.error().fix.empty() ? "write \"500 MB\" or \"1.5 GiB\"" : size.error().fix);
  if (*size > kLargest)
    return errors_.wrong(node, fmt::format("'{}' is larger than any memory: {}", key, text));
  return *size;
}

Result<FrameBuffers> ComponentReader::frames_of(const toml::node& node) const {
  const auto* table = node.as_table();
  if (table == nullptr)
    return errors_.wrong(
        node, "'frames' must be a table",
        "write frames = { resolution = \"1920x1080\", channels = 3, depth = 8, count = 10 }");
  FrameBuffers buffers;
  for (const auto& [key, value] : *table) {
    const std::string word = without_stand_ins(key.str());
    if (word == "resolution") {
      std::string text;
      if (auto done = read_text(value, word, text); !done) return forward_error(done);
      const auto size = parse_resolution(text);
      if (!size) return errors_.wrong(value, size.error().what, size.error().fix);
      buffers.width = size->width;
      buffers.height = size->height;
    } else if (word == "channels" || word == "depth" || word == "count") {
      const auto* number = value.as_integer();
      const std::int64_t most = word == "channels" ? 4096 : word == "depth" ? 64 : 1'000'000;
      if (number == nullptr || number->get() < 1 || number->get() > most)
        return errors_.wrong(value, fmt::format("'{}' must be a whole number from 1 to {}", word, most));
      if (word == "depth" && number->get() % 8 != 0)
        return errors_.wrong(value, "'depth' must be the bits per channel", "write 8, 16 or 32");
      (word == "channels" ? buffers.channels
       : word == "depth"  ? buffers.channel_bytes
                          : buffers.count) = word == "depth" ? number->get() / 8 : number->get();
    } else {
      return errors_.unknown_key(value, word, {"resolution", "channels", "depth", "count"});
    }
  }
  if (buffers.width == 0)
    return errors_.wrong(node, "'frames' has no resolution", "write resolution = \"1920x1080\"");
  const double bytes = static_cast<double>(buffers.width * buffers.height) *
                       static_cast<double>(buffers.channels * buffers.channel_bytes) *
                       static_cast<double>(buffers.count);
  constexpr double kMost = 1e15;
  if (bytes > kMost) return errors_.wrong(node, "'frames' is larger than any memory");
  return buffers;
}

Status ComponentReader::read_frames(const toml::node& node, MemoryNeed& need) const {
  const auto* list = node.as_array();
  if (list == nullptr) {
    auto buffers = frames_of(node);
    if (!buffers) return forward_error(buffers);
    need.frames.push_back(*buffers);
    return {};
  }
  for (const toml::node& each : *list) {
    auto buffers = frames_of(each);
    if (!buffers) return forward_error(buffers);
    need.frames.push_back(*buffers);
  }
  return {};
}

// Reads only the keys in kNeedKeys.
Status ComponentReader::read_need(const toml::table& table, MemoryNeed& need, std::string& estimate) const {
  need.line = table.source().begin.line;
  need.origin.source = errors_.place(table);
  const toml::node* memory_node = nullptr;
  bool is_measured = false;
  for (const auto& [key, node] : table) {
    const std::string word = without_stand_ins(key.str());
    Status done;
    if (word == "memory" || word == "load_peak" || word == "run_mean" || word == "run_peak" ||
        word == "transient") {
      auto size = size_of(node, word);
      if (!size) return forward_error(size);
      if (word == "memory") {
        memory_node = &node;
        if (!need.run_peak) need.run_peak = *size;
        continue;
      }
      if (word == "load_peak") need.load_peak = *size;
      if (word == "run_mean") need.run_mean = *size;
      if (word == "run_peak") need.run_peak = *size;
      if (word == "transient") need.transient = *size;
    } else if (word == "frames") {
      done = read_frames(node, need);
    } else if (word == "model" || word == "footprint") {
      done = read_text(node, word, word == "model" ? need.model : need.footprint);
      need.line = node.source().begin.line;
      is_measured = true;
    } else if (word == "source") {
      done = read_text(node, word, need.origin.source);
    } else if (word == "estimate") {
      done = read_text(node, word, estimate);
    }
    if (!done) return done;
  }
  if (memory_node != nullptr && table.contains("run_peak"))
    return errors_.wrong(*memory_node, "both 'memory' and 'run_peak' are set", "keep one of them");
  if (!need.is_plausible()) return errors_.wrong(table, "its sizes and frames are larger than any memory");
  const bool has_sizes = need.run_peak || need.load_peak || need.run_mean;
  if (is_measured && has_sizes)
    return errors_.wrong(table, "both a measured footprint and sizes are set", "keep one of them");
  if (is_measured) return {};
  if (!need.run_peak && has_sizes)
    return errors_.wrong(table, "load_peak and run_mean need a run_peak",
                         "write run_peak or memory = \"500 MB\"");
  if (need.run_peak) {
    if (!need.load_peak) need.load_peak = need.run_peak;
    if (!need.run_mean) need.run_mean = need.run_peak;
    if (*need.run_mean > *need.run_peak)
      return errors_.wrong(table, "run_mean is above run_peak", "a mean is never above its peak");
  }
  if (!estimate.empty()) {
    need.origin.kind = FigureOrigin::Kind::estimate;
    need.origin.source = estimate;
  }
  return {};
}

Result<BudgetVariant> ComponentReader::variant_of(const toml::table& table) const {
  BudgetVariant variant;
  std::string estimate;
  if (auto done = read_need(table, variant.need, estimate); !done) return forward_error(done);
  for (const auto& [key, node] : table) {
    const std::string word = without_stand_ins(key.str());
    if (is_one_of(word, kNeedKeys)) continue;
    if (word == "notes") {
      if (auto done = read_text(node, word, variant.notes); !done) return forward_error(done);
    } else if (is_one_of(word, kSettingKeys)) {
      if (auto done = read_text(node, word, variant.settings[word]); !done) return forward_error(done);
    } else {
      return errors_.unknown_key(node, word, joined(joined({"notes"}, kNeedKeys), kSettingKeys));
    }
  }
  if (variant.settings.empty())
    return errors_.wrong(table, "the variant changes no setting",
                         "add precision, backend, input or batch = \"…\"");
  const bool is_measured = !variant.need.model.empty() || !variant.need.footprint.empty();
  if (!variant.need.run_peak && !is_measured)
    return errors_.wrong(table, "the variant has no memory", "write memory = \"250 MB\", model or footprint");
  return variant;
}

Status ComponentReader::read_key(const std::string& key, const toml::node& node,
                                 BudgetComponent& component) const {
  if (key == "name") return read_text(node, key, component.name);
  if (key == "notes") return read_text(node, key, component.notes);
  if (key == "group") return read_text(node, key, component.group);
  if (key == "pipeline") return read_text(node, key, component.pipeline);
  if (key == "required") return read_bool(node, key, component.is_required);
  if (key == "lazy") return read_bool(node, key, component.is_lazy);
  if (key == "system") return read_bool(node, key, component.is_system);
  if (key == "after") return read_texts(node, key, component.after);
  if (key == "needs") return read_texts(node, key, component.needs);
  if (is_one_of(key, kSettingKeys)) return read_text(node, key, component.settings[key]);
  if (key == "value") {
    const auto number = node.value<double>();
    constexpr double kMost = 1e9;
    if (!node.is_number() || !number || !std::isfinite(*number) || *number < 0 || *number > kMost)
      return errors_.wrong(node, "'value' must be a number, 0 or more");
    component.value = *number;
    return {};
  }
  if (key == "variant") {
    if (!node.is_array_of_tables())
      return errors_.wrong(node, "'variant' must be a list of tables", "write [[component.variant]]");
    for (const toml::node& each : *node.as_array()) {
      auto variant = variant_of(*each.as_table());
      if (!variant) return forward_error(variant);
      component.variants.push_back(std::move(*variant));
    }
    return {};
  }
  return errors_.unknown_key(node, key, joined(joined(kOwnKeys, kNeedKeys), kSettingKeys));
}

Result<BudgetComponent> ComponentReader::read(const toml::table& table) const {
  BudgetComponent component;
  component.line = table.source().begin.line;
  std::string estimate;
  if (auto done = read_need(table, component.need, estimate); !done) return forward_error(done);
  for (const auto& [key, node] : table) {
    const std::string word = without_stand_ins(key.str());
    if (is_one_of(word, kNeedKeys)) continue;
    if (auto done = read_key(word, node, component); !done) return forward_error(done);
  }
  if (component.name.empty()) return errors_.wrong(table, "a component has no name", "write name = \"…\"");
  const MemoryNeed& need = component.need;
  const bool is_measured = !need.model.empty() || !need.footprint.empty();
  if (!need.run_peak && !is_measured && need.frames.empty() && need.transient == Bytes{})
    return errors_.wrong(table, fmt::format("the component '{}' has no memory", component.name),
                         "write memory = \"500 MB\", or model = \"NAME\" for a measured model");
  // A component may consist of buffers only.
  if (!need.run_peak && !is_measured)
    component.need.load_peak = component.need.run_mean = component.need.run_peak = Bytes{};
  return component;
}

}  // namespace headroom::planning
