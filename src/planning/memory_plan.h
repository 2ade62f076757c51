// The check of a budget in time: what is in memory at each moment of the start and after it, which moment is
// the highest, and whether that fits by the rules. docs/plan.md
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/budget.h"
#include "planning/best_set.h"
#include "planning/occupancy.h"

namespace headroom::planning {

enum class Verdict { healthy, tight, risky, does_not_fit };
std::string_view name_of(Verdict verdict);    // "healthy", "tight", …: for JSON
std::string_view words_for(Verdict verdict);  // "tight but viable"

struct PlanMoment {
  enum class Kind { starting, all_starting, running, loading };  // loading: on demand, while all others run
  Kind kind = Kind::running;
  std::optional<std::size_t> loading;  // the component
  std::vector<Occupancy::Share> shares;
  Bytes total;
};
std::string_view name_of(PlanMoment::Kind kind);
bool has_common_pages(const PlanMoment& moment);

struct MemoryPlan {
  Budget budget;  // with the device's own rows and all needs known
  std::vector<std::size_t> order;
  std::vector<PlanMoment> moments;  // in time
  std::size_t worst_moment = 0;     // of `moments`
  Bytes running;                    // all at their peaks
  Bytes rest;                       // all at their means
  std::vector<std::size_t> best_order;
  Bytes best_peak;                  // with it
  Bytes total, allowed, available;  // of the device; by the rules; free at the peak
  double used = 0;                  // share of the total at the peak
  Verdict verdict = Verdict::healthy;
  std::vector<std::string> reasons;
  std::optional<BestSet> fitting;  // where the whole does not keep the rules

  // The same components, counted in two ways; the verdict is by the one that the device's limit is about.
  // All pages, those that processes have in common once: what a machine must have.
  Bytes machine_peak;
  // Without the pages in common, and without a machine's own system: what a control group with all the others
  // is charged, where the files' pages are in the page cache before.
  Bytes charged_peak;
  // Where all start together: the peak if none waits until the others are loaded.
  std::optional<Bytes> unwaited_peak;

  const PlanMoment& worst() const { return moments[worst_moment]; }
};

// The budget with rows for what the device's system and desktop take; unless it has rows of its own for them.
Budget with_device_rows(Budget budget);

// Usage error: no device, or nothing to plan. Footprints must have been resolved (footprints.h).
// `peak_alone` is for plans of which only the peak and the verdict count: without the best order, the largest
// set and the figures for other limits and starts, which take longer than all the rest.
enum class PlanDetail { all, peak_alone };
Result<MemoryPlan> make_plan(const Budget& budget, PlanDetail detail = PlanDetail::all);

// "500 MB" of components and "8.0 GB" of sums in decimal budgets; else as everywhere ("476.8 MiB").
std::string words_for_part(Bytes bytes, bool is_decimal);
std::string words_for_sum(Bytes bytes, bool is_decimal);
// "while VILA-3B is loaded and 6 others run", "while all run".
std::string words_for(const PlanMoment& moment, const Budget& budget);

}  // namespace headroom::planning
