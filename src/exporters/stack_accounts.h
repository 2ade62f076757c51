// What each call stack allocated in each layer: the figures behind the formats that show stacks. The analysis
// has them by stack and by layer; here they are by both, so that a layer can stand in front of its stacks.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analysis/layer_tree.h"
#include "exporters/export_input.h"
#include "model/memory_event.h"
#include "recording/recording.h"

namespace headroom::exporters {

// Blocks and their bytes. Where samples stand for other allocations they are estimated
// (docs/trace-report.md).
struct Amount {
  std::int64_t blocks = 0, bytes = 0;
};

struct StackAccount {
  analysis::LayerIndex layer = 0;
  StackId stack;
  std::array<Amount, kMetrics> amounts{};  // by Metric
  const Amount& operator[](Metric metric) const { return amounts[static_cast<std::size_t>(metric)]; }
  Amount& operator[](Metric metric) { return amounts[static_cast<std::size_t>(metric)]; }
};

struct StackAccounts {
  analysis::LayerTree layers;
  std::vector<StackAccount> accounts;  // in the order of their first allocations
  bool has_temporary = false;          // only full recordings tell
};

// One pass; the sums over all accounts are the totals of analysis::analyze_recording.
StackAccounts account_stacks(recording::Recording& recording);

}  // namespace headroom::exporters
