// What of the budget is taken, in bytes: what models are charged, and what was measured beyond it. Plain
// data.
//
//   baseline     of the process before the pool: runtimes, the program's own; less where the process was
//                once seen with less while nothing was loaded
//   charged      to loaded models: what each takes when it runs
//   loading      reserved for the load in progress: its peak, not what stays
//   leaving      charged to models that are being freed, until what came back is measured
//   stuck        loads and frees that hang: nobody knows what they have taken
//   margin       kept free: sessions take a little for a moment that no reading shows
//   unaccounted  measured beyond baseline and what loaded models were seen to take: what did not come back,
//                what a model takes beyond its charge, what the program has taken since
#pragma once

#include <algorithm>

#include "base/units.h"

namespace headroom::pool {

struct MemoryBooks {
  Bytes budget, margin, baseline;
  Bytes charged, loading, leaving, stuck;
  Bytes
      seen;  // of loaded models: how much the process grew by loading and running them, at most their charge
  Bytes unaccounted;

  // A reading of what the process has, taken while nothing is loaded or freed. Sessions that run meanwhile
  // can only make `unaccounted` too large, and the next reading mends that.
  void follow(Bytes measured) {
    const bool is_empty = charged.count == 0 && loading.count == 0 && leaving.count == 0 && stuck.count == 0;
    if (is_empty) baseline = std::min(baseline, measured);
    unaccounted = std::max(Bytes{}, measured - (baseline + seen + stuck));
  }
  Bytes used() const { return baseline + charged + loading + leaving + stuck + unaccounted; }
  Bytes free() const { return budget - margin - used(); }
};

}  // namespace headroom::pool
