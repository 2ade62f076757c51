#include "inference/isolated/isolated_messages.h"

namespace headroom::inference {
namespace {

Json tensor_to_json(const TensorSpec& tensor) {
  Json object;
  object["name"] = tensor.name;
  object["type"] = static_cast<std::int32_t>(tensor.type);
  object["dims"] = tensor.dims;
  object["dim_names"] = tensor.dim_names;
  return object;
}

std::vector<std::int64_t> integers_of(const Json& list) {
  std::vector<std::int64_t> values;
  for (const Json& value : list) values.push_back(value.is_number_integer() ? value.get<std::int64_t>() : -1);
  return values;
}

TensorSpec spec_from_json(const Json& object) {
  TensorSpec tensor;
  tensor.name = get_text(object, "name");
  tensor.type = static_cast<ElementType>(get_integer(object, "type").value_or(0));
  tensor.dims = integers_of(get_member(object, "dims"));
  for (const Json& name : get_member(object, "dim_names"))
    tensor.dim_names.push_back(name.is_string() ? name.get<std::string>() : std::string());
  tensor.dim_names.resize(tensor.dims.size());
  return tensor;
}

}  // namespace

Json to_json(const RuntimeSettings& settings) {
  Json object;
  object["device"] = settings.device;
  object["threads"] = settings.threads;
  object["arena"] = settings.arena;
  object["arena_extend"] = static_cast<int>(settings.arena_extend);
  object["memory_pattern"] = settings.memory_pattern;
  object["prepacking"] = settings.prepacking;
  object["graph_level"] = settings.graph_level;
  object["spinning"] = settings.spinning;
  object["precision"] = static_cast<int>(settings.precision);
  object["conv_search"] = static_cast<int>(settings.conv_search);
  object["conv_small_workspace"] = settings.conv_small_workspace;
  object["device_graph"] = settings.device_graph;
  return object;
}

RuntimeSettings settings_from_json(const Json& object) {
  RuntimeSettings settings;
  const auto integer = [&](const char* key, int fallback) {
    return static_cast<int>(get_integer(object, key).value_or(fallback));
  };
  settings.device = get_text(object, "device");
  settings.threads = integer("threads", settings.threads);
  settings.arena = get_bool(object, "arena").value_or(settings.arena);
  settings.arena_extend = static_cast<ArenaExtend>(integer("arena_extend", 0));
  settings.memory_pattern = get_bool(object, "memory_pattern").value_or(settings.memory_pattern);
  settings.prepacking = get_bool(object, "prepacking").value_or(settings.prepacking);
  settings.graph_level = integer("graph_level", settings.graph_level);
  settings.spinning = get_bool(object, "spinning").value_or(settings.spinning);
  settings.precision = static_cast<Precision>(integer("precision", 0));
  settings.conv_search = static_cast<ConvSearch>(integer("conv_search", 0));
  settings.conv_small_workspace = get_bool(object, "conv_small_workspace").value_or(false);
  settings.device_graph = get_bool(object, "device_graph").value_or(false);
  return settings;
}

Json to_json(const ModelDescription& description) {
  Json object;
  object["inputs"] = object["outputs"] = object["metadata"] = Json::array();
  for (const TensorSpec& input : description.inputs) object["inputs"].push_back(tensor_to_json(input));
  for (const TensorSpec& output : description.outputs) object["outputs"].push_back(tensor_to_json(output));
  for (const auto& [key, value] : description.metadata) object["metadata"].push_back({key, value});
  return object;
}

ModelDescription description_from_json(const Json& object) {
  ModelDescription description;
  for (const Json& input : get_member(object, "inputs")) description.inputs.push_back(spec_from_json(input));
  for (const Json& output : get_member(object, "outputs"))
    description.outputs.push_back(spec_from_json(output));
  for (const Json& pair : get_member(object, "metadata"))
    if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string())
      description.metadata.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
  return description;
}

Json to_json(const PlacedTensor& tensor) {
  Json object;
  object["type"] = static_cast<std::int32_t>(tensor.type);
  object["dims"] = tensor.dims;
  object["at"] = tensor.at;
  object["bytes"] = tensor.bytes;
  return object;
}

Result<PlacedTensor> placed_tensor_from_json(const Json& object, std::size_t size) {
  PlacedTensor tensor;
  tensor.type = static_cast<ElementType>(get_integer(object, "type").value_or(0));
  tensor.dims = integers_of(get_member(object, "dims"));
  const std::int64_t at = get_integer(object, "at").value_or(-1);
  const std::int64_t bytes = get_integer(object, "bytes").value_or(-1);
  if (at < 0 || bytes < 0 || static_cast<std::size_t>(at) > size ||
      static_cast<std::size_t>(bytes) > size - static_cast<std::size_t>(at))
    return internal_error("a tensor lies outside the shared memory");
  tensor.at = static_cast<std::size_t>(at);
  tensor.bytes = static_cast<std::size_t>(bytes);
  const auto needed = static_cast<std::size_t>(element_count(tensor.dims)) * size_of(tensor.type);
  if (tensor.bytes != 0 && tensor.bytes != needed)
    return internal_error("a tensor's size does not match its dimensions");
  return tensor;
}

}  // namespace headroom::inference
