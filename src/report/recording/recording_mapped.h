// Memory that the program mapped itself, by layer, module and call stack, on the terminal and as JSON. It is
// not part of the heap and never added to it.
#pragma once

#include <string>
#include <vector>

#include "attribution/live_rows.h"
#include "base/json.h"
#include "report/recording/recording_views.h"
#include "report/screen_lines.h"

namespace headroom::report {

// From 1 MiB or one percent of the heap's peak on, it gets a section.
bool has_much_mapped(const attribution::RecordingAnalysis& analysis);

// The section, if there is enough to show. With `rows`: that of one moment.
void add_mapped(ScreenLines& screen, const RecordingReport& report);
void add_mapped(ScreenLines& screen, const RecordingReport& report, const attribution::LiveRows& rows);

// At most 50 stacks and layers each; all modules.
Json mapped_json(const RecordingReport& report);
Json mapped_json(const RecordingReport& report, const attribution::MappedRows& mapped);

}  // namespace headroom::report
