// What was live at a moment by module, by thread and by size of the allocation: names and numbers for the
// views.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "attribution/recording_analysis.h"
#include "base/json.h"
#include "report/recording/recording_views.h"

namespace headroom::report {

// The class of allocations whose size has this number of bits: 0; 1; 2 to 3; 4 to 7; …
std::uint64_t smallest_of_class(std::size_t bits);
std::uint64_t largest_of_class(std::size_t bits);
// "2.0 MiB to 4.0 MiB".
std::string words_for_size_class(std::size_t bits);

// "worker (tid 42)", or "thread 3" if the recording does not name the thread.
std::string words_for_thread(const recording::RecordingInfo& info, std::size_t thread);

// {"module": {"name": [], "bytes": [[]]}, "thread": {…}, "size": {…}}: bytes[m][i] is the memory of row i at
// moment m. Each list has the 200 rows that held most at any moment, threads and sizes ascending;
// "other_bytes"[m] is the rest.
Json live_shares_json(const RecordingReport& report, const std::vector<attribution::LiveMoment>& moments);

// The memory of each row at a moment, by the number of the moment.
using HeldAt = std::function<const std::vector<std::int64_t>&(std::size_t)>;

// Figure i; 0 beyond the end.
std::int64_t figure_at(const std::vector<std::int64_t>& figures, std::size_t i);

// The rows that held most at any moment, the largest first; none that never held memory.
std::vector<std::size_t> leading_rows(std::size_t moments, const HeldAt& held_at, std::size_t count);

}  // namespace headroom::report
