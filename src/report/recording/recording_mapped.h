// What a recording says of the memory that the program mapped itself, on the terminal and as JSON: who holds
// it, by layer, module and call stack. It is apart from the heap and never added to it.
#pragma once

#include <string>
#include <vector>

#include "attribution/live_rows.h"
#include "base/json.h"
#include "report/recording/recording_views.h"

namespace headroom::report {

// From 1 MiB on, or from one percent of the heap's peak on, it is worth a section of its own.
bool has_much_mapped(const attribution::RecordingAnalysis& analysis);

// The lines of the section; none where it is not worth one. With `rows` that of one moment.
std::vector<std::string> mapped_lines(const RecordingReport& report, int width);
std::vector<std::string> mapped_lines(const RecordingReport& report, const attribution::LiveRows& rows,
                                      int width);

// At most 50 stacks and layers each; all modules.
Json mapped_json(const RecordingReport& report);
Json mapped_json(const RecordingReport& report, const attribution::MappedRows& mapped);

}  // namespace headroom::report
