#include "trace/memory_figures.h"

#include <algorithm>

#include "report/recording/recording_words.h"
#include "report/run/process_figures.h"
#include "trace/heap_figures.h"
#include "trace/summary_lines.h"

namespace headroom::trace {
namespace {

constexpr std::size_t kMostDevices = 4;

std::string name_of(const recording::RecordingInfo& info, std::uint32_t ordinal) {
  for (const recording::Device& device : info.devices)
    if (device.ordinal == ordinal && !device.name.empty()) return shortened(device.name) + ": ";
  return "";
}

// One line per device.
std::string device_figures(const recording::RecordingInfo& info,
                           const attribution::RecordingAnalysis& analysis) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostDevices, analysis.devices.size()); ++i) {
    const attribution::DeviceFigures& device = analysis.devices[i];
    std::string figures =
        fmt::format("{}peak {} allocated at {}, {} at the end", name_of(info, device.ordinal),
                    format_bytes(Bytes{device.peak_bytes}), format_duration(device.peak_time),
                    format_bytes(Bytes{device.end_bytes}));
    if (device.refused_count > 0)
      figures += fmt::format("; {} request{} refused", grouped(device.refused_count),
                             device.refused_count == 1 ? "" : "s");
    text += line(fmt::format("GPU {}", device.ordinal), figures);
  }
  if (analysis.devices.size() > kMostDevices)
    text += line("", fmt::format("and {} more GPUs", analysis.devices.size() - kMostDevices));
  return text;
}

}  // namespace

std::string memory_figures(const recording::RecordingInfo& info,
                           const attribution::RecordingAnalysis& analysis) {
  std::string text =
      info.host_recorded ? heap_figures(info, analysis) : line("recorded", report::kGpuMemoryOnly);
  text += device_figures(info, analysis);
  if (!info.host_recorded && analysis.devices.empty()) text += line("", "no GPU memory was requested");
  if (analysis.dropped_events > 0)
    text += line("dropped", fmt::format("{} events: {}", grouped(analysis.dropped_events),
                                        report::cure_for_drops(info)));
  return text;
}

}  // namespace headroom::trace
