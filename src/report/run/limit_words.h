// A limit in words: what was proved about it, in which account it counts, and how near a peak came.
#pragma once

#include <optional>
#include <string>

#include "types/bench_result.h"

namespace headroom::report {

// True where a control group enforces the limit: its account is not the resident size, and only the account
// can be compared with the limit.
bool counts_by_group(const Limit& limit);
// True where RLIMIT_DATA enforces it: what counts is the private writable memory that is reserved (VmData).
bool counts_by_reservation(const Limit& limit);

// 0.336 of the limit → "33.6 %".
std::string share_of(Bytes peak, const Limit& limit);
// "147.2 MiB, 92.0 % of the limit"; the resident peak beside it where the account is another one:
// "147.2 MiB charged to the limit, 92.0 % of it (resident 175.4 MiB)". Empty where nothing was measured.
std::string peak_against(const ModelResult& model, const std::optional<Limit>& limit);
// True if the model ran out of memory in a control group: the kernel kills at the limit, so the group's peak
// cannot show an excess.
bool was_stopped_at_limit(const ModelResult& model, const Limit& limit);
// True if the resident peak is above the limit while the account that the limit enforces is not.
bool resident_is_above(const ModelResult& model, const std::optional<Limit>& limit);

// What the word for the type was proved to mean in this run, with the size at which it was tried.
std::string meaning_of(const Limit& limit);
// The limit's own note, and that it is larger than the machine's memory; empty if there is nothing to say.
std::string notes_on(const Limit& limit, const HostInfo& host);
// False for a watchdog, and without a mechanism: memory is only measured, and the probe tries no route.
bool refuses_memory(const Limit& limit);
// True if memory runs out before the limit does.
bool is_above_memory(const Limit& limit, const HostInfo& host);

}  // namespace headroom::report
