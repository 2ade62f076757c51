// The stacks of a recording as names, outermost first, with the layers that they ran in before them: what
// flame graphs are made of.
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
  std::string file;  // the source file, else the module; empty for layers and where neither is known
  bool is_layer = false;
};

struct NamedStack {
  std::vector<std::uint32_t> frames;  // indices into NamedStacks::frames, outermost first
  std::size_t layers = 0;             // so many of them are layers
  std::string layer;                  // their path
  std::array<Amount, kMetrics> amounts{};
  const Amount& operator[](Metric metric) const { return amounts[static_cast<std::size_t>(metric)]; }
};

struct NamedStacks {
  std::vector<NamedFrame> frames;  // distinct
  std::vector<NamedStack> stacks;  // distinct
  bool has_temporary = false;
};

// Two places in a function are one frame: a flame graph is of functions, and their stacks become one.
NamedStacks name_stacks(const ExportInput& input);

// Looks all addresses of the recording's stacks up at once, which is much faster than one by one.
void prepare_symbols(const ExportInput& input);

// One stack as joined() writes it; "(no stack)" where none was recorded. prepare_symbols() comes before.
std::string joined_stack(const ExportInput& input, StackId stack);

// Stacks and layers as one text, outermost first: "main;load;malloc". What separates frames or lines in the
// formats that have no escapes is replaced.
std::string joined(const NamedStacks& named, std::span<const std::uint32_t> frames);

// The layers from the outermost to `layer` itself; empty for 0.
std::vector<analysis::LayerIndex> path_to(const analysis::LayerTree& layers, analysis::LayerIndex layer);

}  // namespace headroom::exporters
