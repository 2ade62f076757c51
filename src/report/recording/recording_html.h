// `headroom report FILE.hrec --html`: the recording as one page, with what was live at moments all over it.
// The size of the page goes by the stacks and layers that it shows, not by the events.
#pragma once

#include <string>

#include "base/result.h"
#include "report/recording/recording_html_moments.h"
#include "report/recording/recording_views.h"

namespace headroom::report {

// `moments` are those of take_page_moments() for the recording of `report`.
std::string recording_to_html(const RecordingReport& report, const PageMoments& moments);

}  // namespace headroom::report
