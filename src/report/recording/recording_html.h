// `headroom report FILE.hrec --html`: the recording as one page, with live memory at moments spread over it.
// The size of the page depends on its stacks and layers, not on the events.
#pragma once

#include <string>

#include "base/result.h"
#include "report/recording/recording_html_moments.h"
#include "report/recording/recording_views.h"

namespace headroom::report {

// `moments` are those of take_page_moments() for the recording of `report`.
std::string recording_to_html(const RecordingReport& report, const PageMoments& moments);

}  // namespace headroom::report
