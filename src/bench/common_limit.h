// Models that run at once under a limit that they share: what they take together, whether they kept it, and
// of those that were killed at it who exceeded it.
#pragma once

#include <optional>
#include <vector>

#include "bench/worker_run.h"
#include "model/bench_result.h"

namespace headroom::bench {

// At a common limit the kernel kills the largest process, which need not be the one that grew. What each
// model needed alone, under the same limit, tells them apart: the errors in `together` say it, and a model
// that kept the limit alone is marked neither as over it nor as within it.
void tell_apart_at_common_limit(std::vector<ModelResult>& together, const std::vector<ModelResult>& alone);

// The sum of the shares of pages (PSS) of all runs that were just read; of those that have ended nothing.
// Nothing where a share could not be read: a sum of some would pass for that of all.
std::optional<Bytes> joint_share(const std::vector<WorkerRun*>& runs);

// The pages that they have in memory together, each once: the shares would leave out what of the pages in
// common (the runtime's code) falls to the bench's own processes. At least all of one process' is there, so
// of files and of shared memory the larger of that and the sum of the shares counts. Nothing before Linux
// 5.3, which does not tell the parts of a share.
std::optional<Bytes> joint_resident(const std::vector<WorkerRun*>& runs);
std::optional<Bytes> resident_once(const std::vector<ProcessMemory>& samples);

// Absent without a limit, and where the run was cut short before it was exceeded.
std::optional<bool> kept_common_limit(const ParallelResult& result, const std::optional<Bytes>& limit,
                                      bool was_cut_short);

}  // namespace headroom::bench
