// Layers and stacks as one table, by RFC 4180: `kind` tells them apart, a figure that a row does not have is
// an empty cell.
#include "analysis/recording_analysis.h"
#include "exporters/exporter_list.h"
#include "exporters/named_stacks.h"

namespace headroom::exporters {
namespace {

std::string cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

void write_layer(const analysis::LayerFigures& layer, bool is_outside, OutputSink& sink) {
  sink.print("layer,{},,", cell(layer.path));
  if (layer.counts_known)
    sink.print("{},{},{}", layer.allocations, layer.releases, layer.allocated_bytes);
  else
    sink.write(",,");
  sink.print(",,,{},{},{},{},{},{},{}", layer.live.peak_bytes, layer.live.peak_blocks, layer.live.end_bytes,
             layer.live.end_blocks, layer.peak_allocated, layer.peak_reserved, layer.average_fragmentation);
  if (is_outside)
    sink.write(",,\r\n");
  else
    sink.print(",{},{}\r\n", layer.entries, layer.duration.milliseconds());
}

void write_stack(const NamedStacks& named, const NamedStack& stack, OutputSink& sink) {
  const Amount &peak = stack[Metric::peak], &leaked = stack[Metric::leaked],
               &allocated = stack[Metric::allocated], &temporary = stack[Metric::temporary];
  const auto functions = std::span(stack.frames).subspan(stack.layers);
  sink.print("stack,{},{},{},,{},", cell(stack.layer), cell(joined(named, functions)), allocated.blocks,
             allocated.bytes);
  if (named.has_temporary)
    sink.print("{},{}", temporary.blocks, temporary.bytes);
  else
    sink.write(",");
  sink.print(",{},{},{},{},,,,,\r\n", peak.bytes, peak.blocks, leaked.bytes, leaked.blocks);
}

}  // namespace

Status write_csv(const ExportInput& input, OutputSink& sink) {
  const analysis::RecordingAnalysis analysis = analysis::analyze_recording(input.recording, {});
  const NamedStacks named = name_stacks(input);
  sink.write(
      "kind,layer,stack,allocations,deallocations,allocated_bytes,temporary_allocations,temporary_bytes,"
      "at_peak_bytes,at_peak_blocks,at_end_bytes,at_end_blocks,peak_allocated_bytes,peak_reserved_bytes,"
      "avg_fragmentation,entries,duration_ms\r\n");
  for (std::size_t i = 0; i < analysis.layers.size(); ++i) {
    const analysis::LayerFigures& layer = analysis.layers[i];
    if (i > 0 && layer.entries == 0 && layer.allocations == 0) continue;  // named, never used
    write_layer(layer, i == 0, sink);
  }
  for (const NamedStack& stack : named.stacks) write_stack(named, stack, sink);
  return {};
}

}  // namespace headroom::exporters
