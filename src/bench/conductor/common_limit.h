// Models that run at the same time under one common limit: their total memory, whether they stayed within the
// limit, and which model exceeded it.
#pragma once

#include <optional>
#include <vector>

#include "bench/conductor/measuring_child.h"
#include "types/bench_result.h"

namespace headroom::bench {

// At a common limit the kernel kills the largest process, even if another one grew. The run of each model
// alone, under the same limit, shows which model was too large. This function adds that finding to the errors
// in `together`. A killed model that fits alone is marked neither as over the limit nor as within it.
void explain_kills_at_common_limit(std::vector<ModelResult>& together, const std::vector<ModelResult>& alone);

// Sum of the proportional shares (PSS) of all workers at their last sample; workers that have ended add
// nothing. Absent if one share could not be read, because a partial sum would look like the total.
std::optional<Bytes> joint_pss(const std::vector<WorkerRun*>& runs);

// Resident memory of all workers together, each shared page counted once. The sum of PSS is too low: it
// leaves out the part of common pages (the runtime's code) that the kernel assigns to Headroom's other
// processes. All pages of one process are certainly resident. So file pages and shared memory each count as
// the larger of two figures: the largest process, or the sum of the shares. Absent before Linux 5.3, which
// does not split PSS by kind.
std::optional<Bytes> joint_resident(const std::vector<WorkerRun*>& runs);
std::optional<Bytes> resident_without_duplicates(const std::vector<ProcessMemory>& samples);

// Absent without a limit, and if the run was cut short before the limit was exceeded.
std::optional<bool> stayed_within_common_limit(const ParallelResult& result,
                                               const std::optional<Bytes>& limit, bool was_cut_short);

}  // namespace headroom::bench
