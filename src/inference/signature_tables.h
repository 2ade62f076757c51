// A loaded model's signature, as the plain C arrays of the plug-in interface.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/backend_plugin.h"
#include "types/tensor.h"

namespace headroom::inference {

// The arrays point into the arguments, which must not change or move while a description is in use.
class SignatureTables {
 public:
  SignatureTables() = default;
  explicit SignatureTables(const ModelDescription& model) {
    for (const TensorSpec& spec : model.inputs) add_input(spec);
    for (const TensorSpec& spec : model.outputs) add_output(spec);
    add_metadata(model.metadata);
  }
  void add_input(const TensorSpec& spec) { add(inputs_, spec); }
  void add_output(const TensorSpec& spec) { add(outputs_, spec); }
  void add_metadata(const std::vector<std::pair<std::string, std::string>>& entries) {
    for (const auto& [key, value] : entries) {
      keys_.push_back(key.c_str());
      values_.push_back(value.c_str());
    }
  }
  void fill(hr_description& description) const {
    description.input_count = static_cast<std::int32_t>(inputs_.size());
    description.output_count = static_cast<std::int32_t>(outputs_.size());
    description.metadata_count = static_cast<std::int32_t>(keys_.size());
    description.inputs = inputs_.data();
    description.outputs = outputs_.data();
    description.metadata_keys = keys_.data();
    description.metadata_values = values_.data();
  }

 private:
  void add(std::vector<hr_tensor_spec>& table, const TensorSpec& spec) {
    std::vector<const char*>& names = dim_names_.emplace_back();
    for (const std::string& name : spec.dim_names) names.push_back(name.c_str());
    table.push_back({spec.name.c_str(), static_cast<std::int32_t>(spec.type),
                     static_cast<std::int32_t>(spec.dims.size()), spec.dims.data(), names.data()});
  }

  // The outer vector may move the inner ones; their content stays in place.
  std::vector<std::vector<const char*>> dim_names_;
  std::vector<hr_tensor_spec> inputs_, outputs_;
  std::vector<const char*> keys_, values_;
};

}  // namespace headroom::inference
