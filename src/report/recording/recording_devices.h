// What a recording says of GPUs, on the terminal and as JSON: over all of it, and at one moment.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "report/recording/recording_views.h"

namespace headroom::report {

// A heading, and the lines below it.
struct DeviceSection {
  std::string heading;
  std::vector<std::string> lines;
};
std::vector<DeviceSection> device_sections(const RecordingReport& report, int width);
Json devices_json(const RecordingReport& report);

// The same of one moment, LiveRows::devices; a device that held nothing then has no section.
std::vector<DeviceSection> device_sections(const RecordingReport& report,
                                           const std::vector<attribution::DeviceFigures>& at_moment,
                                           int width);
Json devices_json(const RecordingReport& report, const std::vector<attribution::DeviceFigures>& at_moment);

}  // namespace headroom::report
