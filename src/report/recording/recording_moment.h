// `headroom report FILE.hrec --at TIME`: live memory at one moment, by layer, call stack, module, size and
// thread. docs/trace-report.md names the keys of the JSON.
#pragma once

#include <string>

#include "attribution/live_rows.h"
#include "report/recording/recording_views.h"

namespace headroom::report {

// One screen, at most `width` columns. `rows` is of the report's recording.
std::string moment_to_terminal(const RecordingReport& report, const attribution::LiveRows& rows, bool color,
                               int width);
// Every row but of stacks, of which the 50 that held most are listed.
Json moment_to_json(const RecordingReport& report, const attribution::LiveRows& rows);

}  // namespace headroom::report
