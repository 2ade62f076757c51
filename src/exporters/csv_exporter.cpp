// Layers and stacks as one table (RFC 4180). `kind` distinguishes layers from stacks, and the heap from
// mapped memory and GPUs. A missing figure is an empty cell.

#include "attribution/live_map.h"
#include "attribution/recording_analysis.h"
#include "base/text.h"
#include "exporters/exporter_list.h"
#include "exporters/named_stacks.h"

namespace headroom::exporters {
namespace {

// For recordings without host memory.
void write_entries(const attribution::LayerFigures& layer, OutputSink& sink) {
  sink.print("layer,{},,,,,,,,,,,,,,{},{},\r\n", csv_field(layer.path), layer.entries,
             layer.duration.milliseconds());
}

void write_layer(const attribution::LayerFigures& layer, bool is_outside, OutputSink& sink) {
  sink.print("layer,{},,", csv_field(layer.path));
  if (layer.counts_known)
    sink.print("{},{},{}", layer.allocations, layer.releases, layer.allocated_bytes);
  else
    sink.write(",,");
  sink.print(",,,{},{},{},{},{},{},{}", layer.live.peak_bytes, layer.live.peak_blocks, layer.live.end_bytes,
             layer.live.end_blocks, layer.peak_allocated, layer.peak_reserved, layer.average_fragmentation);
  if (is_outside)
    sink.write(",,,\r\n");
  else
    sink.print(",{},{},\r\n", layer.entries, layer.duration.milliseconds());
}

void write_stack(const NamedStacks& named, const NamedStack& stack, OutputSink& sink) {
  const Amount &peak = stack[Metric::peak], &leaked = stack[Metric::leaked],
               &allocated = stack[Metric::allocated], &temporary = stack[Metric::temporary];
  const auto functions = std::span(stack.frames).subspan(stack.layers);
  sink.print("stack,{},{},{},,{},", csv_field(stack.layer), csv_field(joined(named, functions)),
             allocated.blocks, allocated.bytes);
  if (named.has_temporary)
    sink.print("{},{}", temporary.blocks, temporary.bytes);
  else
    sink.write(",");
  sink.print(",{},{},{},{},,,,,,\r\n", peak.bytes, peak.blocks, leaked.bytes, leaked.blocks);
}

// A row for mapped memory or a GPU. Columns that are not set stay empty.
struct Row {
  std::string kind{}, layer{}, stack{}, device{};
  std::optional<std::int64_t> allocations{}, releases{}, allocated_bytes{};
  std::int64_t at_peak_bytes = 0, at_end_bytes = 0;
};
std::string cell(const std::optional<std::int64_t>& count) {
  return count ? std::to_string(*count) : std::string();
}
void write_row(const Row& row, OutputSink& sink) {
  sink.print("{},{},{},{},{},{},,,{},,{},,,,,,,{}\r\n", row.kind, csv_field(row.layer), csv_field(row.stack),
             cell(row.allocations), cell(row.releases), cell(row.allocated_bytes), row.at_peak_bytes,
             row.at_end_bytes, csv_field(row.device));
}

Row row_of(const attribution::MappingShare& share) {
  return {.at_peak_bytes = share.at_peak_bytes, .at_end_bytes = share.end_bytes};
}
Row row_of(const attribution::DeviceShare& share) {
  return {.allocations = share.allocations,
          .allocated_bytes = share.allocated_bytes,
          .at_peak_bytes = share.at_peak_bytes,
          .at_end_bytes = share.end_bytes};
}

// Writes the owners of the memory in row `whole`: "KIND_layer" and "KIND_stack" rows. `Figures`:
// MappedFigures or DeviceFigures.
template <class Figures>
void write_shares(const Row& whole, const Figures& figures, const ExportInput& input,
                  const attribution::RecordingAnalysis& analysis, OutputSink& sink) {
  for (const auto& share : figures.layers) {
    Row row = row_of(share);
    row.kind = whole.kind + "_layer";
    row.layer = analysis.layers[share.index].path;
    row.device = whole.device;
    write_row(row, sink);
  }
  for (const auto& share : figures.stacks) {
    Row row = row_of(share);
    row.kind = whole.kind + "_stack";
    row.stack = joined_stack(input, StackId{share.index});
    row.device = whole.device;
    write_row(row, sink);
  }
}

void write_mapped(const ExportInput& input, const attribution::RecordingAnalysis& analysis,
                  OutputSink& sink) {
  const attribution::MappedFigures& mapped = analysis.mapped;
  if (mapped.maps == 0 && mapped.unmaps == 0) return;
  const Row whole{.kind = "mapped",
                  .allocations = mapped.maps,
                  .releases = mapped.unmaps,
                  .allocated_bytes = mapped.mapped_bytes,
                  .at_peak_bytes = mapped.peak_bytes,
                  .at_end_bytes = mapped.end_bytes};
  write_row(whole, sink);
  write_shares(whole, mapped, input, analysis, sink);
}

// Only kinds that use the device's memory are part of the total.
void write_device(const ExportInput& input, const attribution::RecordingAnalysis& analysis,
                  const attribution::DeviceFigures& figures, OutputSink& sink) {
  std::int64_t allocations = 0, releases = 0, allocated_bytes = 0;
  for (const attribution::DeviceKindFigures& kind : figures.kinds) {
    if (!kind.in_total) continue;
    allocations += kind.allocations;
    releases += kind.releases;
    attribution::add_wrapping(allocated_bytes, kind.allocated_bytes);
  }
  const Row whole{.kind = "device",
                  .device = std::to_string(figures.ordinal),
                  .allocations = allocations,
                  .releases = releases,
                  .allocated_bytes = allocated_bytes,
                  .at_peak_bytes = figures.peak_bytes,
                  .at_end_bytes = figures.end_bytes};
  write_row(whole, sink);
  write_shares(whole, figures, input, analysis, sink);
}

}  // namespace

Status write_csv(const ExportInput& input, OutputSink& sink) {
  const attribution::RecordingAnalysis analysis = attribution::analyze_recording(input.recording, {});
  const NamedStacks named = name_stacks(input);
  sink.write(
      "kind,layer,stack,allocations,deallocations,allocated_bytes,temporary_allocations,temporary_bytes,"
      "at_peak_bytes,at_peak_blocks,at_end_bytes,at_end_blocks,peak_allocated_bytes,peak_reserved_bytes,"
      "avg_fragmentation,entries,duration_ms,device\r\n");
  for (std::size_t i = 0; i < analysis.layers.size(); ++i) {
    const attribution::LayerFigures& layer = analysis.layers[i];
    if (i > 0 && layer.entries == 0 && layer.allocations == 0)
      continue;  // a scope that was named but never used
    if (analysis.host_recorded)
      write_layer(layer, i == 0, sink);
    else if (i > 0)
      write_entries(layer, sink);
  }
  for (const NamedStack& stack : named.stacks) write_stack(named, stack, sink);
  write_mapped(input, analysis, sink);
  for (const attribution::DeviceFigures& figures : analysis.devices)
    write_device(input, analysis, figures, sink);
  return {};
}

}  // namespace headroom::exporters
