// A limit in words: the result of its probe, the memory that it counts, and the distance of a peak.
#pragma once

#include <optional>
#include <string>

#include "types/bench_result.h"

namespace headroom::report {

// True if a control group enforces the limit. Its account differs from the resident size, and only the
// account can be compared with the limit.
bool counts_by_group(const Limit& limit);
// True if RLIMIT_DATA enforces the limit. It counts reserved private writable memory (VmData).
bool counts_by_reservation(const Limit& limit);

// 0.336 of the limit → "33.6 %".
std::string share_of(Bytes peak, const Limit& limit);
// "147.2 MiB, 92.0 % of the limit". If the limit does not count resident memory:
// "147.2 MiB charged to the limit, 92.0 % of it (resident 175.4 MiB)". Empty without a measurement.
std::string peak_against(const ModelResult& model, const std::optional<Limit>& limit);
// True if the model ran out of memory in a control group: the kernel kills at the limit, so the group's peak
// cannot show an excess.
bool was_stopped_at_limit(const ModelResult& model, const Limit& limit);
// True if the resident peak is above the limit while the account that the limit enforces is not.
bool resident_is_above(const ModelResult& model, const std::optional<Limit>& limit);

// The meaning of the limit's type according to the probe of this run, with the size of the probe.
std::string meaning_of(const Limit& limit);
// The limit's note, and a note if it is larger than the machine's memory; may be empty.
std::string notes_on(const Limit& limit, const HostInfo& host);
// False for a watchdog, and without a mechanism: memory is only measured, and the probe tries no route.
bool refuses_memory(const Limit& limit);
// True if memory runs out before the limit does.
bool is_above_memory(const Limit& limit, const HostInfo& host);

}  // namespace headroom::report
