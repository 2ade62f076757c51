#include "memory_tracer/script_layers.h"

#include <torch/csrc/jit/runtime/interpreter.h>

namespace headroom::memory_tracer {

ScriptPlace script_place() {
  const std::vector<std::string> hierarchy = torch::jit::currentModuleHierarchy();
  return hierarchy.empty() ? ScriptPlace{} : parse_script_place(hierarchy);
}

}  // namespace headroom::memory_tracer
