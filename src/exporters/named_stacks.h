// The stacks of a recording as names, outermost first. The layers of a stack come before its frames. Used for
// flame graphs.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exporters/stack_accounts.h"

namespace headroom::exporters {

struct NamedFrame {
  std::string name;
  std::string file;  // the source file, else the module; empty for layers and if unknown
  bool is_layer = false;
};

struct NamedStack {
  std::vector<std::uint32_t> frames;  // indices into NamedStacks::frames, outermost first
  std::size_t layers = 0;             // number of leading frames that are layers
  std::string layer;                  // path of the layers
  std::array<Amount, kMetrics> amounts{};
  const Amount& operator[](Metric metric) const { return amounts[static_cast<std::size_t>(metric)]; }
};

struct NamedStacks {
  std::vector<NamedFrame> frames;  // distinct frames
  std::vector<NamedStack> stacks;  // distinct stacks
  bool has_temporary = false;
};

// Two addresses in the same function become one frame, and stacks that differ only in addresses become one
// stack.
NamedStacks name_stacks(const ExportInput& input);

// Looks up all addresses of the recording's stacks at once, which is much faster than one by one.
void prepare_symbols(const ExportInput& input);

// One stack in the format of joined(); "(no stack)" if none was recorded. Call prepare_symbols() first.
std::string joined_stack(const ExportInput& input, StackId stack);

// Layers and frames as one text, outermost first: "main;load;malloc". Characters that separate frames or
// lines are replaced, because the formats have no escapes.
std::string joined(const NamedStacks& named, std::span<const std::uint32_t> frames);

// The layers from the outermost to `layer`; empty for 0.
std::vector<attribution::LayerIndex> path_to(const attribution::LayerTree& layers,
                                             attribution::LayerIndex layer);

}  // namespace headroom::exporters
