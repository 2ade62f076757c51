// Every event with what was allocated and reserved after it, the layers' figures, and a summary: a JSON
// object of `events`, `layer_stats` and `summary`. Written event by event, so memory does not grow with the
// recording.
#include "analysis/glibc_chunk.h"
#include "analysis/live_counter.h"
#include "analysis/live_map.h"
#include "analysis/recording_analysis.h"
#include "base/json.h"
#include "exporters/exporter_list.h"
#include "exporters/layer_walk.h"

namespace headroom::exporters {
namespace {

using analysis::LayerIndex;
using analysis::LiveBlock;

// With the allocator's headers and rounding, as the analysis counts it.
std::int64_t reserved_for(const LiveBlock& block) {
  const auto overhead = static_cast<std::int64_t>(analysis::chunk_bytes(block.size) - block.size);
  return block.bytes() + overhead * block.blocks();
}

class EventWriter {
 public:
  EventWriter(const recording::Recording& recording, OutputSink& sink)
      : walk_(recording), layers_(walk_.layers()), sink_(sink) {}

  void visit(const MemoryEvent& event) {
    // As the analysis does: time never runs backwards, and a segment's header may tell of another layer.
    time_ns_ = std::max(time_ns_, event.time.count);
    switch (event.kind) {
      case MemoryEventKind::allocate:
      case MemoryEventKind::sampled_allocate:
        enter(event);
        return allocate(event);
      case MemoryEventKind::release:
        enter(event);
        return release(event);
      case MemoryEventKind::enter_scope:
        return enter(event);
      default:
        return;  // counted, mapped or lost: nothing of the heap's live blocks changes
    }
  }

 private:
  void allocate(const MemoryEvent& event) {
    const LayerIndex layer = layers_.of(event.scope);
    LiveBlock block;
    if (!analysis::make_block(event, layer, time_ns_, block)) return;
    LiveBlock replaced;
    if (live_.insert(block, replaced)) {  // its release was not seen
      change(replaced, -1);
      write("free", replaced.bytes(), layer);
    }
    change(block, 1);
    write("alloc", block.bytes(), layer);
  }

  void release(const MemoryEvent& event) {
    LiveBlock block;
    const bool known = live_.take(event.address, block);
    if (known) change(block, -1);
    write("free", known ? block.bytes() : 0, layers_.of(event.scope));
  }

  void enter(const MemoryEvent& event) {
    walk_.go(
        event, [&](LayerIndex layer) { write("layer_exit", 0, layer); },
        [&](LayerIndex layer) { write("layer_enter", 0, layer); });
  }

  void change(const LiveBlock& block, std::int64_t sign) {
    analysis::add_wrapping(allocated_, sign * block.bytes());
    analysis::add_wrapping(reserved_, sign * reserved_for(block));
  }

  void write(std::string_view type, std::int64_t bytes, LayerIndex layer) {
    const double fragmentation =
        reserved_ > 0 ? static_cast<double>(reserved_ - allocated_) / static_cast<double>(reserved_) : 0;
    sink_.print(
        "{}\n{{\"timestamp\":{}.{:09},\"event_type\":\"{}\",\"size_bytes\":{},\"layer_name\":{},"
        "\"allocated_bytes\":{},\"reserved_bytes\":{},\"fragmentation_ratio\":{:.6f}}}",
        separator_, time_ns_ / 1'000'000'000, time_ns_ % 1'000'000'000, type, bytes, name_of_layer(layer),
        allocated_, reserved_, fragmentation);
    separator_ = ",";
  }

  const std::string& name_of_layer(LayerIndex layer) {
    while (names_.size() <= layer) {
      const std::string& path = layers_[static_cast<LayerIndex>(names_.size())].path;
      names_.push_back(names_.empty() ? "null" : to_line(Json(path)));
    }
    return names_[layer];
  }

  LayerWalk walk_;
  analysis::LayerTree& layers_;
  OutputSink& sink_;
  analysis::LiveMap live_;
  std::vector<std::string> names_;  // of layers, as JSON
  std::int64_t time_ns_ = 0, allocated_ = 0, reserved_ = 0;
  std::string_view separator_;
};

Json layer_stats(const analysis::RecordingAnalysis& analysis) {
  Json stats = Json::object();
  for (std::size_t i = 0; i < analysis.layers.size(); ++i) {
    const analysis::LayerFigures& layer = analysis.layers[i];
    if (i > 0 && layer.entries == 0 && layer.allocations == 0) continue;  // named, never used
    const auto count = [&](std::int64_t value) { return layer.counts_known ? Json(value) : Json(); };
    stats[layer.path] = {{"layer_name", layer.path},
                         {"peak_allocated", layer.peak_allocated},
                         {"peak_reserved", layer.peak_reserved},
                         {"total_allocations", count(layer.allocations)},
                         {"total_deallocations", count(layer.releases)},
                         {"avg_fragmentation", layer.average_fragmentation},
                         {"duration_ms", layer.duration.milliseconds()}};
  }
  return stats;
}

Json summary(const ExportInput& input, const analysis::RecordingAnalysis& analysis) {
  return {{"recording", input.file},
          {"command", input.recording.info().command},
          {"duration_seconds", analysis.duration.seconds()},
          {"total_allocations", analysis.allocations},
          {"total_deallocations", analysis.deallocations},
          {"total_allocated_bytes", analysis.total_allocated_bytes},
          {"peak_bytes", analysis.peak_bytes.value},
          {"peak_time_seconds", analysis.peak_time.seconds()},
          {"leaked_bytes", analysis.leaked_bytes.value},
          {"dropped_events", analysis.dropped_events},
          {"sampled", !analysis.full},
          {"complete", analysis.complete}};
}

}  // namespace

Status write_timeline_json(const ExportInput& input, OutputSink& sink) {
  const analysis::RecordingAnalysis analysis = analysis::analyze_recording(input.recording, {});
  sink.write("{\"events\":[");
  EventWriter writer(input.recording, sink);
  input.recording.for_each_event([&](const MemoryEvent& event) { writer.visit(event); });
  sink.print("],\n\"layer_stats\":{},\n\"summary\":{}}}\n", to_line(layer_stats(analysis)),
             to_line(summary(input, analysis)));
  return {};
}

}  // namespace headroom::exporters
