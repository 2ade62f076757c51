#include "trace/run_trace.h"

#include <fmt/format.h>
#include <signal.h>
#include <algorithm>

#include "base/text.h"
#include "report/recording/recording_parts.h"
#include "report/recording/recording_views.h"
#include "report/recording/recording_words.h"
#include "trace/summary_lines.h"

namespace headroom::trace {
namespace {

std::string how_it_ended(const CommandEnd& end) {
  std::string text =
      fmt::format("ended with {} after {}", end.status.describe(), format_duration(end.duration));
  if (end.out_of_memory) text += "; the kernel's out-of-memory killer was active meanwhile";
  return text;
}

std::string program_of(const std::vector<std::string>& command) {
  return command.empty() ? "a process" : shortened(command[0]);
}

std::string recording_line(const TraceOutcome& outcome) {
  std::string text = fmt::format("{}, {}", outcome.recording.string(),
                                 format_bytes(Bytes{static_cast<std::int64_t>(outcome.disk_bytes)}));
  if (outcome.events) text += fmt::format(", {} events", grouped(*outcome.events));
  if (outcome.info->segments_overwritten > 0) text += ", latest ones only (ring)";
  if (!outcome.info->closed) text += ", not closed by the process";
  return line("recording", text);
}

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

std::string bytes_of(const attribution::Figure& figure) {
  if (figure.at_most) return fmt::format("at most {}", format_bytes(Bytes{*figure.at_most}));
  const std::string_view bound = figure.at_least ? "at least " : "";
  const std::string text = format_bytes(Bytes{figure.value});
  if (figure.standard_error.value_or(0) < 1) return fmt::format("{}{}", bound, text);
  return fmt::format("{}about {} (± {})", bound, text,
                     format_bytes(Bytes{static_cast<std::int64_t>(*figure.standard_error)}));
}

// Excludes memory that existed only because of tracing, like `headroom report`.
std::int64_t own_bytes(const attribution::LayerFigures& layer) {
  return layer.self.peak_bytes - layer.tracing_peak_bytes;
}

// Blocks that the runtime's arena allocated during a node also serve other nodes: they are not the node's own
// need.
std::string node_suffix(const attribution::LayerFigures& layer, bool has_arena) {
  return has_arena && layer.source == recording::ScopeSource::node ? " (arena grew)" : "";
}

// The layers with the most memory at the heap's peak, each without its inner layers.
std::string layers_at_peak(const recording::RecordingInfo& info,
                           const attribution::RecordingAnalysis& analysis) {
  constexpr std::size_t kMostLayers = 3;
  std::vector<const attribution::LayerFigures*> layers;
  for (const attribution::LayerFigures& layer : analysis.layers)
    if (!layer.path.empty() && own_bytes(layer) > 0) layers.push_back(&layer);
  const std::size_t shown = std::min(kMostLayers, layers.size());
  std::partial_sort(layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(shown), layers.end(),
                    [](const auto* a, const auto* b) { return own_bytes(*a) > own_bytes(*b); });
  const bool has_arena = report::has_arena(info, analysis);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("{}{} {}{}", i > 0 ? ", " : "", shortened(layers[i]->path),
                        format_bytes(Bytes{own_bytes(*layers[i])}), node_suffix(*layers[i], has_arena));
  return text;
}

// Memory that the program mapped itself, and the layer that held most of it at that peak.
std::string mapped_at_peak(const attribution::RecordingAnalysis& analysis) {
  const attribution::MappedFigures& mapped = analysis.mapped;
  std::string text =
      fmt::format("up to {} by the program itself, outside the heap", format_bytes(Bytes{mapped.peak_bytes}));
  const auto most =
      std::max_element(mapped.layers.begin(), mapped.layers.end(),
                       [](const auto& a, const auto& b) { return a.at_peak_bytes < b.at_peak_bytes; });
  if (most == mapped.layers.end() || most->index == 0) return text;
  return text + fmt::format("; {} in {}", format_bytes(Bytes{most->at_peak_bytes}),
                            shortened(analysis.layers[most->index].path));
}

// The summary's lines about host memory.
std::string heap_figures(const recording::RecordingInfo& info,
                         const attribution::RecordingAnalysis& analysis) {
  std::string text = line("peak live", fmt::format("{} at {}{}", bytes_of(analysis.peak_bytes),
                                                   format_duration(analysis.peak_time),
                                                   report::words_for_older_blocks(analysis.peak_bytes)));
  if (const std::string before = report::words_for_memory_before(info, analysis); !before.empty())
    text += line("before", before);
  if (const std::string layers = layers_at_peak(info, analysis); !layers.empty())
    text += line("at the peak", layers);
  text += line("allocations", fmt::format("{}, {} in total; {} released", grouped(analysis.allocations),
                                          format_bytes(Bytes{analysis.total_allocated_bytes}),
                                          grouped(analysis.deallocations)));
  text += line("still live", fmt::format("{} in {}{} allocation{}{}", bytes_of(analysis.leaked_bytes),
                                         analysis.leaked_blocks.standard_error ? "about " : "",
                                         grouped(analysis.leaked_blocks.value),
                                         analysis.leaked_blocks.value == 1 ? "" : "s",
                                         report::words_for_older_blocks(analysis.leaked_bytes)));
  if (const std::string why = report::words_for_end_above_peak(analysis); !why.empty()) text += line("", why);
  if (report::has_much_mapped(analysis)) text += line("mapped", mapped_at_peak(analysis));
  return text;
}

}  // namespace

std::string trace_summary(const TraceOutcome& outcome) {
  std::string text = fmt::format("headroom: {} {}\n", program_of(outcome.command),
                                 outcome.attached.empty() ? how_it_ended(outcome.end) : outcome.attached);
  if (outcome.of_descendant && outcome.info)
    text += line("process", fmt::format("{} {} ({}{})", program_of(outcome.info->command), outcome.info->pid,
                                        outcome.of_worker ? "worker of headroom bench with the " : "",
                                        outcome.by_memory ? "largest peak" : "most events"));
  if (outcome.end.status.signal == SIGSYS)
    text += line(
        "sandbox",
        "if this happens only while tracing, its seccomp filter forbids system calls that recording needs");
  text += outcome.figures;
  if (outcome.info) text += recording_line(outcome);
  // The folder's existence proves nothing: it also contains runtime profiles.
  if (outcome.programs > 1)
    text += line("programs", fmt::format("{}, {} in total; other recordings: {}", outcome.programs,
                                         format_bytes(Bytes{static_cast<std::int64_t>(outcome.tree_bytes)}),
                                         outcome.tree.string()));
  if (outcome.still_running > 0)
    text += line("running",
                 fmt::format("{} of its processes; their recordings keep growing", outcome.still_running));
  if (!outcome.problems.empty()) {
    const std::size_t more = outcome.problems.size() - 1;
    text += line("problem", outcome.problems[0] + (more > 0 ? fmt::format(" (and {} more)", more) : ""));
  }
  if (outcome.info) text += fmt::format("next: headroom report {}\n", shell_word(outcome.recording.string()));
  if (outcome.info && !outcome.refused_in.empty())
    text += fmt::format("next: headroom doctor {}  # which process was refused, and where the memory went\n",
                        shell_word(outcome.refused_in.string()));
  return text;
}

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
