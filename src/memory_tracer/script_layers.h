// The current position in TorchScript's interpreter. The interpreter calls no modules that could be hooked,
// but it knows for each instruction the modules from which its code was inlined. This works for scripted,
// traced and frozen modules. A query at an allocation takes 0.4 to 1.7 µs inside the interpreter and nothing
// outside.
#pragma once

#include <string>
#include <vector>

namespace headroom::memory_tracer {

struct ScriptPlace {
  bool is_in_module = false;       // the calling thread runs a module's code in the interpreter
  std::string root;                // the class of the outermost module
  std::vector<std::string> names;  // the modules inside it: {"layer1", "0", "conv1"}
};
ScriptPlace script_place();

// Parses "TOP(Net)::forward", "layer1(Sequential)::forward", "SELF(Net)::helper", "::relu".
ScriptPlace parse_script_place(const std::vector<std::string>& hierarchy);

}  // namespace headroom::memory_tracer
