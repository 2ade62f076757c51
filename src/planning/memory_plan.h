// The plan of a budget: the memory at each moment during and after the start, the worst moment, and whether
// it fits the rules (docs/plan.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "planning/best_set.h"
#include "planning/occupancy.h"
#include "types/bench_result.h"
#include "types/budget.h"

namespace headroom::planning {

enum class Verdict { healthy, tight, risky, does_not_fit };
std::string_view name_of(Verdict verdict);    // "healthy", "tight", …: for JSON
std::string_view words_for(Verdict verdict);  // "tight but viable"

struct PlanMoment {
  // loading: a lazy component, or a member of a group, is loaded while the components outside its group run
  enum class Kind { starting, all_starting, running, loading };
  Kind kind = Kind::running;
  std::optional<std::size_t> loading;  // the component
  std::vector<Occupancy::Share> shares;
  Bytes total;
};
std::string_view name_of(PlanMoment::Kind kind);
bool has_shared_pages(const PlanMoment& moment);

struct MemoryPlan {
  Budget budget;  // with the device's rows, and all needs resolved
  std::vector<std::size_t> order;
  std::vector<PlanMoment> moments;  // in order of time
  std::size_t worst_moment = 0;     // index in `moments`
  Bytes running;                    // all at their peaks
  Bytes rest;                       // all at their means
  std::vector<std::size_t> best_order;
  Bytes best_peak;                  // with best_order
  Bytes total, allowed, available;  // device memory; maximum by the rules; free memory at the peak
  double used = 0;                  // share of the total at the peak
  Verdict verdict = Verdict::healthy;
  std::vector<std::string> reasons;
  std::optional<BestSet> fitting;  // if the whole budget does not fit the rules

  // The peak of the same components, counted in two ways. The verdict uses the one that the device's limit is
  // about. machine_peak: all pages, shared ones once. A machine needs this much.
  Bytes machine_peak;
  // charged_peak: without shared pages and without the machine's system. The kernel charges this much to a
  // control group with all components if the file pages are already in the page cache.
  Bytes charged_peak;
  // If all start together: the peak if no component waits until the others are loaded.
  std::optional<Bytes> unwaited_peak;

  const PlanMoment& worst() const { return moments[worst_moment]; }
};

// Usage error: no device, or no components. Footprints must be resolved before (footprints.h). `peak_alone`
// computes only the peak and the verdict. It skips the best order, the best set and the figures for other
// limits and starts, which take longer than all the rest.
enum class PlanDetail { all, peak_alone };
Result<MemoryPlan> make_plan(const Budget& budget, PlanDetail detail = PlanDetail::all);

// In decimal budgets "500 MB" for components and "8.0 GB" for sums, else binary units ("476.8 MiB").
std::string words_for_part(Bytes bytes, bool is_decimal);
std::string words_for_sum(Bytes bytes, bool is_decimal);
// "while VILA-3B is loaded and 6 others run", "while all run".
std::string words_for(const PlanMoment& moment, const Budget& budget);

// Compares a plan with the measurements of a parallel run of `headroom bench` with the same components.
struct VerifiedFigure {
  std::string name;
  Bytes planned, measured;
  // The difference as a share of the measurement; above 0: the plan is higher.
  double relative_difference() const {
    if (measured.count == 0) return 0;
    return static_cast<double>((planned - measured).count) / static_cast<double>(measured.count);
  }
};

struct Verification {
  std::string run;
  std::string source;                      // source of the joint peak: "cgroup_v1", "pss_samples"
  std::vector<VerifiedFigure> components;  // resident memory at the run's peak
  VerifiedFigure joint;
  std::vector<std::string> left_out;  // planned components that are not in the run
  bool is_lower_bound = false;        // the measured joint peak is a lower bound
  bool holds = false;
};

// A plan holds if its joint peak is at most this share of the measurement below or above the measurement.
inline constexpr double kMaxUnder = 0.02, kMaxOver = 0.05;

// Verifies the components that are in the run (by name or model), started all at once as the bench does. All
// needs must be resolved. Usage error: a run without --parallel, or with other models.
Result<Verification> verify_plan(const Budget& budget, const BenchResult& run, const std::string& run_name);

}  // namespace headroom::planning
