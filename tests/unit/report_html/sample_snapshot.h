// Sample memory snapshots that cover all sections of the page.
#pragma once

#include "report/snapshot/snapshot_html.h"
#include "snapshot/snapshot.h"

namespace headroom::test {

enum class SampleSnapshot {
  training,  // a loop that leaks, on a device that runs out of memory; names that need escaping
  state,     // no trace, no stacks, two devices
  empty,     // the allocator held no memory
};

snapshot::Snapshot sample_snapshot(SampleSnapshot kind);
std::string page_of(const snapshot::Snapshot& snapshot);

}  // namespace headroom::test
