#include "inference/plugin/signature_tables.h"

#include <cstdint>

namespace headroom::plugin {

void SignatureTables::add(std::vector<hr_tensor_spec>& table, const TensorSpec& spec) {
  std::vector<const char*>& names = dim_names_.emplace_back();
  for (const std::string& name : spec.dim_names) names.push_back(name.c_str());
  table.push_back({spec.name.c_str(), static_cast<std::int32_t>(spec.type),
                   static_cast<std::int32_t>(spec.dims.size()), spec.dims.data(), names.data()});
}

void SignatureTables::add_metadata(const std::string& key, const std::string& value) {
  keys_.push_back(key.c_str());
  values_.push_back(value.c_str());
}

void SignatureTables::fill(hr_description& description) const {
  description.input_count = static_cast<std::int32_t>(inputs_.size());
  description.output_count = static_cast<std::int32_t>(outputs_.size());
  description.metadata_count = static_cast<std::int32_t>(keys_.size());
  description.inputs = inputs_.data();
  description.outputs = outputs_.data();
  description.metadata_keys = keys_.data();
  description.metadata_values = values_.data();
}

}  // namespace headroom::plugin
