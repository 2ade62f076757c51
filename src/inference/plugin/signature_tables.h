// A loaded model's signature, as the plain C arrays of the plug-in interface.
#pragma once

#include <string>
#include <vector>

#include "inference/backend_plugin.h"
#include "types/tensor.h"

namespace headroom::plugin {

// The arrays point into the arguments, which must not change or move while a description is in use.
class SignatureTables {
 public:
  void add_input(const TensorSpec& spec) { add(inputs_, spec); }
  void add_output(const TensorSpec& spec) { add(outputs_, spec); }
  void add_metadata(const std::string& key, const std::string& value);
  void fill(hr_description& description) const;

 private:
  void add(std::vector<hr_tensor_spec>& table, const TensorSpec& spec);

  std::vector<std::vector<const char*>>
      dim_names_;  // the outer vector may move the inner ones; their content stays in place
  std::vector<hr_tensor_spec> inputs_, outputs_;
  std::vector<const char*> keys_, values_;
};

}  // namespace headroom::plugin
