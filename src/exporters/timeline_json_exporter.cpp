// A JSON object of `events`, `layer_stats` (the layers' figures) and `summary`. Each event has the allocated
// and reserved bytes after it, for the heap, mapped memory and GPUs. The exporter writes event by event, so
// its memory does not grow with the recording.
#include <fmt/format.h>

#include <cstdlib>

#include "attribution/device_memory.h"
#include "attribution/heap_fragmentation.h"
#include "attribution/live_map.h"
#include "attribution/mapping_ledger.h"
#include "attribution/recording_analysis.h"
#include "base/json.h"
#include "exporters/exporter_list.h"
#include "exporters/named_stacks.h"

namespace headroom::exporters {
namespace {

using attribution::LayerIndex;
using attribution::LiveBlock;

// Includes the allocator's headers and rounding, as in the analysis.
std::int64_t reserved_for(const LiveBlock& block) {
  const auto overhead = static_cast<std::int64_t>(attribution::chunk_bytes(block.size) - block.size);
  return block.bytes() + overhead * block.blocks();
}

class EventWriter {
 public:
  EventWriter(const recording::Recording& recording, OutputSink& sink)
      : walk_(recording),
        layers_(walk_.layers()),
        sink_(sink),
        mappings_(recording.info().page_bytes),
        devices_(recording.info()),
        host_recorded_(recording.info().host_recorded) {}

  void visit(const MemoryEvent& event) {
    // As in the analysis: time never decreases, and a segment's header may name another layer.
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
      case MemoryEventKind::map:
      case MemoryEventKind::unmap:
      case MemoryEventKind::reserve:
      case MemoryEventKind::make_accessible:
        enter(event);
        return change_mappings(event);
      case MemoryEventKind::device_allocate:
      case MemoryEventKind::device_release:
      case MemoryEventKind::device_refused:
        enter(event);
        return change_device(event);
      default:
        return;  // counted or lost events do not change live bytes
    }
  }

 private:
  void allocate(const MemoryEvent& event) {
    const LayerIndex layer = layers_.of(event.scope);
    LiveBlock block;
    if (!attribution::make_block(event, layer, time_ns_, block)) return;
    LiveBlock replaced;
    if (live_.insert(block, replaced)) {  // its free was not recorded
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

  // Omits events without effect, such as reserving addresses.
  void change_mappings(const MemoryEvent& event) {
    const std::int64_t before = mappings_.mapped_bytes();
    mappings_.apply(event);
    const std::int64_t change = mappings_.mapped_bytes() - before;
    if (change != 0)
      write(change > 0 ? "map" : "unmap", std::abs(change), layers_.of(event.scope),
            fmt::format(",\"mapped_bytes\":{}", mappings_.mapped_bytes()));
  }

  void change_device(const MemoryEvent& event) {
    const bool released = event.kind == MemoryEventKind::device_release;
    const std::string_view type = event.kind == MemoryEventKind::device_allocate ? "device_alloc"
                                  : released                                     ? "device_free"
                                                                                 : "device_refused";
    std::int64_t bytes = released ? devices_.live_at(event.device, event.device_kind, event.address) : 0;
    devices_.visit(event, layers_.of(event.scope), time_ns_);
    if (event.kind == MemoryEventKind::device_allocate)
      bytes = devices_.live_at(event.device, event.device_kind, event.address);
    if (event.kind == MemoryEventKind::device_refused) bytes = static_cast<std::int64_t>(event.size);
    write(type, bytes, layers_.of(event.scope),
          fmt::format(",\"device\":{},\"memory_kind\":\"{}\",\"device_bytes\":{}", event.device,
                      attribution::name_of(event.device_kind), devices_.total_of(event.device)));
  }

  void enter(const MemoryEvent& event) {
    walk_.go(
        event, [&](LayerIndex layer) { write("layer_exit", 0, layer); },
        [&](LayerIndex layer) { write("layer_enter", 0, layer); });
  }

  void change(const LiveBlock& block, std::int64_t sign) {
    attribution::add_wrapping(allocated_, sign * block.bytes());
    attribution::add_wrapping(reserved_, sign * reserved_for(block));
  }

  // `more`: additional keys of this event type, each after a comma.
  void write(std::string_view type, std::int64_t bytes, LayerIndex layer, std::string_view more = {}) {
    const double fragmentation =
        reserved_ > 0 ? static_cast<double>(reserved_ - allocated_) / static_cast<double>(reserved_) : 0;
    sink_.print("{}\n{{\"timestamp\":{}.{:09},\"event_type\":\"{}\",\"size_bytes\":{},\"layer_name\":{}",
                separator_, time_ns_ / 1'000'000'000, time_ns_ % 1'000'000'000, type, bytes,
                name_of_layer(layer));
    if (host_recorded_)
      sink_.print(",\"allocated_bytes\":{},\"reserved_bytes\":{},\"fragmentation_ratio\":{:.6f}", allocated_,
                  reserved_, fragmentation);
    sink_.print("{}}}", more);
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
  attribution::LayerTree& layers_;
  OutputSink& sink_;
  attribution::LiveMap live_;
  attribution::MappingLedger mappings_;
  attribution::DeviceLedgers devices_;
  std::vector<std::string> names_;  // names of layers, as JSON
  std::int64_t time_ns_ = 0, allocated_ = 0, reserved_ = 0;
  bool host_recorded_;
  std::string_view separator_;
};

Json layer_stats(const attribution::RecordingAnalysis& analysis) {
  Json stats = Json::object();
  for (std::size_t i = 0; i < analysis.layers.size(); ++i) {
    const attribution::LayerFigures& layer = analysis.layers[i];
    if (i > 0 && layer.entries == 0 && layer.allocations == 0)
      continue;  // a scope that was named but never used
    if (!analysis.host_recorded) {
      if (i > 0)
        stats[layer.path] = {{"layer_name", layer.path}, {"duration_ms", layer.duration.milliseconds()}};
      continue;
    }
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

Json devices_of(const ExportInput& input, const attribution::RecordingAnalysis& analysis) {
  Json devices = Json::array();
  for (const attribution::DeviceFigures& figures : analysis.devices) {
    Json device = {{"device", figures.ordinal},
                   {"peak_bytes", figures.peak_bytes},
                   {"peak_time_seconds", figures.peak_time.seconds()},
                   {"at_end_bytes", figures.end_bytes},
                   {"refused_count", figures.refused_count},
                   {"refused_bytes", figures.refused_bytes}};
    for (const recording::Device& known : input.recording.info().devices) {
      if (known.ordinal != figures.ordinal) continue;
      device["name"] = known.name;
      if (known.limit_bytes) device["limit_bytes"] = *known.limit_bytes;
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

Json summary(const ExportInput& input, const attribution::RecordingAnalysis& analysis) {
  Json json = {{"recording", input.file},
               {"command", input.recording.info().command},
               {"duration_seconds", analysis.duration.seconds()},
               {"host_recorded", analysis.host_recorded}};
  if (analysis.host_recorded) {
    json["total_allocations"] = analysis.allocations;
    json["total_deallocations"] = analysis.deallocations;
    json["total_allocated_bytes"] = analysis.total_allocated_bytes;
    json["peak_bytes"] = analysis.peak_bytes.value;
    json["peak_time_seconds"] = analysis.peak_time.seconds();
    json["leaked_bytes"] = analysis.leaked_bytes.value;
    json["mapped_peak_bytes"] = analysis.mapped.peak_bytes;
    json["mapped_end_bytes"] = analysis.mapped.end_bytes;
    json["sampled"] = !analysis.full;
  }
  json["devices"] = devices_of(input, analysis);
  json["dropped_events"] = analysis.dropped_events;
  json["complete"] = analysis.complete;
  return json;
}

}  // namespace

Status write_timeline_json(const ExportInput& input, OutputSink& sink) {
  const attribution::RecordingAnalysis analysis = attribution::analyze_recording(input.recording, {});
  sink.write("{\"events\":[");
  EventWriter writer(input.recording, sink);
  input.recording.for_each_event([&](const MemoryEvent& event) { writer.visit(event); });
  sink.print("],\n\"layer_stats\":{},\n\"summary\":{}}}\n", to_line(layer_stats(analysis)),
             to_line(summary(input, analysis)));
  return {};
}

}  // namespace headroom::exporters
