// How much of the budget is in use, in bytes: the charges of models, and measured memory beyond them. Plain
// data.
//
//   baseline     memory of the process before the pool: runtimes and the program itself. The pool lowers it
//                when a reading shows less while nothing is loaded
//   charged      charges of loaded models: the memory that each needs when it runs
//   loading      reserved for the load in progress: the load's peak, which may exceed the memory that stays
//   leaving      charges of models that are being freed, until the returned memory is measured
//   stuck        reserved by loads and frees that hang: their real memory is unknown
//   margin       stays free: sessions briefly use a little memory that no reading shows
//   unaccounted  measured beyond baseline and the observed memory of loaded models: memory that did not
//                come back, that a model uses beyond its charge, or that the program allocated since
#pragma once

#include <algorithm>

#include "base/units.h"

namespace headroom::pool {

struct MemoryAccount {
  Bytes budget, margin, baseline;
  Bytes charged, loading, leaving, stuck;
  Bytes observed;  // growth of the process by loading and running models; at most their charges
  Bytes unaccounted;

  // Takes a reading of the process's memory, made while nothing is loaded or freed. Sessions that run at
  // that time can only make `unaccounted` too large; the next reading corrects it.
  void apply_reading(Bytes measured) {
    const bool is_empty = charged.count == 0 && loading.count == 0 && leaving.count == 0 && stuck.count == 0;
    if (is_empty) baseline = std::min(baseline, measured);
    unaccounted = std::max(Bytes{}, measured - (baseline + observed + stuck));
  }
  Bytes used() const { return baseline + charged + loading + leaving + stuck + unaccounted; }
  Bytes free() const { return budget - margin - used(); }
};

}  // namespace headroom::pool
