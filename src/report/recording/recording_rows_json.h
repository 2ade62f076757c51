// Parts of a recording's JSON that more than one of its views have.
#pragma once

#include <string>

#include "attribution/recording_analysis.h"
#include "base/json.h"
#include "report/recording/recording_views.h"

namespace headroom::report {

// The figure, its standard error where it is an estimate, and what it can be at most where that is known.
void set(Json& object, const std::string& key, const attribution::Figure& figure);
void set(Json& object, const attribution::LiveFigures& live);

// The index, and the kernel's id and the name where they are known.
Json thread_json(const recording::RecordingInfo& info, ThreadIndex thread);

Json modules_json(const RecordingReport& report);
Json sessions_json(const RecordingReport& report);
Json threads_json(const RecordingReport& report);

}  // namespace headroom::report
