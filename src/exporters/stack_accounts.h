// The allocations of each call stack in each layer: the data of all formats that show stacks. The analysis
// has figures by stack and by layer. Here they are by both, so that layers can be shown above their stacks.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "attribution/layer_tree.h"
#include "exporters/export_input.h"
#include "recording/recording.h"
#include "types/memory_event.h"

namespace headroom::exporters {

// Blocks and their bytes. Estimated if samples represent other allocations (docs/trace-report.md).
struct Amount {
  std::int64_t blocks = 0, bytes = 0;
};

struct StackAccount {
  attribution::LayerIndex layer = 0;
  StackId stack;
  std::array<Amount, kMetrics> amounts{};  // indexed by Metric
  const Amount& operator[](Metric metric) const { return amounts[static_cast<std::size_t>(metric)]; }
  Amount& operator[](Metric metric) { return amounts[static_cast<std::size_t>(metric)]; }
};

struct StackAccounts {
  attribution::LayerTree layers;
  std::vector<StackAccount> accounts;  // in the order of first allocations
  bool has_temporary = false;          // only in full recordings
};

// One pass. The sums over all accounts equal the totals of attribution::analyze_recording.
StackAccounts account_stacks(recording::Recording& recording);

}  // namespace headroom::exporters
