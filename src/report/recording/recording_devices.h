// GPU memory of a recording, on the terminal and as JSON: over the whole recording, and at one moment.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "report/recording/recording_views.h"
#include "report/screen_lines.h"

namespace headroom::report {

// A section per device.
void add_devices(ScreenLines& screen, const RecordingReport& report);
Json devices_json(const RecordingReport& report);

// The same at one moment (LiveRows::devices). A device that held nothing at that time has no section.
void add_devices(ScreenLines& screen, const RecordingReport& report,
                 const std::vector<attribution::DeviceFigures>& at_moment);
Json devices_json(const RecordingReport& report, const std::vector<attribution::DeviceFigures>& at_moment);

}  // namespace headroom::report
