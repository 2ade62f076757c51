#include "memory_tracer/views.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>  // fmt::join, since fmt 11
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace headroom {
namespace memory_tracer {
namespace {

using Json = nlohmann::json;

// Names come from Python and may contain invalid UTF-8.
std::string quoted(const std::string& name) {
  return Json(name).dump(-1, ' ', false, Json::error_handler_t::replace);
}
std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json json_of(const LayerMemoryStats& stats) {
  return {{"layer_name", stats.layer_name},
          {"peak_allocated", stats.peak_allocated},
          {"peak_reserved", stats.peak_reserved},
          {"total_allocations", stats.total_allocations},
          {"total_deallocations", stats.total_deallocations},
          {"avg_fragmentation", stats.avg_fragmentation},
          {"duration_ms", stats.duration_ms},
          {"calls", stats.calls},
          {"allocated_bytes", stats.allocated_bytes},
          {"live_bytes", stats.live_bytes},
          {"at_peak_bytes", stats.at_peak_bytes}};
}

Json json_of(const MemoryByUse& use) {
  return {{"weights", use.weights},     {"activations", use.activations},
          {"gradients", use.gradients}, {"optimizer_state", use.optimizer_state},
          {"workspace", use.workspace}, {"other", use.other}};
}

Json summary_json(const MemoryTracer& tracer, std::string_view device) {
  Json summary = {{"growth", Json::array()},
                  {"memory_at_peak", tracer.get_memory_at_peak(device)},
                  {"memory_by_use_at_peak", json_of(tracer.get_memory_by_use(device))}};
  for (const MemoryGrowth& layer : tracer.get_growth(device))
    summary["growth"].push_back({{"layer_name", layer.layer_name},
                                 {"bytes_per_trace", layer.bytes_per_trace},
                                 {"live_bytes", layer.live_bytes},
                                 {"traces", layer.traces}});
  const SessionLock held;
  const Account& account = MemoryTracerAccess::session(tracer).account;
  const Device shown = device.empty() ? account.device() : device_of(device);
  static const DeviceAccount kNone{};
  const DeviceAccount& totals = account.find(shown) == nullptr ? kNone : *account.find(shown);
  summary["device"] = name_of(shown);
  summary["peak_allocated"] = totals.peak;
  summary["peak_reserved"] = totals.peak_reserved;
  summary["allocated_bytes"] = totals.allocated;
  summary["reserved_bytes"] = totals.reserved;
  summary["total_events"] = account.events_seen();
  summary["max_events"] = account.max_events();
  Json& devices = summary["devices"] = Json::object();
  for (Device other = 0; other < kDevices; ++other)
    if (const DeviceAccount* each = account.find(other))
      devices[name_of(other)] = {{"peak_allocated", each->peak}, {"allocated", each->allocated}};
  return summary;
}

Json layers_json(const MemoryTracer& tracer, std::string_view device) {
  Json layers = Json::object();
  for (const auto& [name, stats] : tracer.get_layer_stats(device)) layers[name] = json_of(stats);
  return layers;
}

// The layer's containers, outermost first, followed by the layer.
std::vector<LayerId> path_of(const Account& account, LayerId layer) {
  std::vector<LayerId> path{layer};
  while (account.layers()[path.back()].parent != kOutside)
    path.push_back(account.layers()[path.back()].parent);
  std::reverse(path.begin(), path.end());
  return path;
}

template <class Bytes>
void write_sampled(const Account& account, std::string_view name, const Bytes& bytes_of, std::ostream& out) {
  std::int64_t total = 0;
  std::string samples, weights;
  for (LayerId layer = 0; layer < account.layers().size(); ++layer) {
    const std::int64_t bytes = bytes_of(layer);
    if (bytes <= 0) continue;
    total += bytes;
    const char* const comma = samples.empty() ? "" : ",";
    samples += fmt::format("{}\n[{}]", comma, fmt::join(path_of(account, layer), ","));
    weights += fmt::format("{}{}", comma, bytes);
  }
  fmt::print(out,
             "{{\"type\":\"sampled\",\"name\":{},\"unit\":\"bytes\",\"startValue\":0,\"endValue\":{},\n"
             "\"samples\":[{}],\n\"weights\":[{}]}}",
             quoted(std::string(name)), total, samples, weights);
}

// Writes the thread with the most layers, because a profile contains one thread. Layers that were opened
// before the oldest event, or are still open, are closed in order, because the viewer requires it.
void write_evented(const Account& account, std::ostream& out) {
  std::unordered_map<ThreadId, std::size_t> enters;
  std::int64_t last = account.start_ns();
  account.for_each_event([&](const Event& event) {
    if (event.type == EventType::layer_enter) ++enters[event.thread];
    last = std::max(last, event.time_ns);
  });
  ThreadId thread = 0;
  for (const auto& [id, count] : enters)
    if (count > enters[thread]) thread = id;
  std::vector<LayerId> open;
  std::string_view comma;
  const auto write = [&](char type, LayerId layer, std::int64_t time) {
    fmt::print(out, "{}\n{{\"type\":\"{}\",\"frame\":{},\"at\":{:.9f}}}", comma, type, layer,
               account.seconds_since_start(time));
    comma = ",";
  };
  fmt::print(out,
             "{{\"type\":\"evented\",\"name\":\"layers over time\",\"unit\":\"seconds\",\"startValue\":0,"
             "\"endValue\":{:.9f},\"events\":[",
             account.seconds_since_start(last));
  account.for_each_event([&](const Event& event) {
    if (event.thread != thread) return;
    if (event.type == EventType::layer_enter) {
      open.push_back(event.layer);
      write('O', event.layer, event.time_ns);
    } else if (event.type == EventType::layer_exit && !open.empty() && open.back() == event.layer) {
      open.pop_back();
      write('C', event.layer, event.time_ns);
    }
  });
  for (; !open.empty(); open.pop_back()) write('C', open.back(), last);
  out << "]}";
}

std::string in_mib(std::int64_t bytes) {
  return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1024 * 1024));
}

void write_flame_graph(const Account& account, std::ostream& out) {
  const DeviceAccount* const of_device = account.find(account.device());
  out << "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"headroom\",\n"
         "\"name\":\"memory by layer\",\"shared\":{\"frames\":[";
  for (LayerId layer = 0; layer < account.layers().size(); ++layer)
    fmt::print(out, "{}\n{{\"name\":{}}}", layer == 0 ? "" : ",", quoted(account.layers()[layer].name));
  out << "]},\n\"activeProfileIndex\":0,\"profiles\":[\n";
  static const DeviceAccount kNone{};
  const DeviceAccount& figures = of_device == nullptr ? kNone : *of_device;
  const auto figures_of = [&](LayerId layer) {
    return layer < figures.layers.size() ? figures.layers[layer] : LayerFigures();
  };
  write_sampled(
      account, "live at the peak", [&](LayerId layer) { return figures_of(layer).at(figures.latest_peak); },
      out);
  out << ",\n";
  write_sampled(
      account, "allocated in total", [&](LayerId layer) { return figures_of(layer).allocated_bytes; }, out);
  out << ",\n";
  write_evented(account, out);
  out << "]}\n";
}

void write_events(const MemoryTracer& tracer, std::ostream& out) {
  std::string_view comma;
  out << '[';
  for (const MemoryEvent& event : tracer.get_events()) {
    fmt::print(out,
               "{}\n{{\"timestamp\":{:.9f},\"event_type\":\"{}\",\"size_bytes\":{},\"layer_name\":{},"
               "\"allocated_bytes\":{},\"reserved_bytes\":{},\"fragmentation_ratio\":{:.6f}}}",
               comma, event.timestamp, event.event_type, event.size_bytes,
               event.layer_name.empty() ? "null" : quoted(event.layer_name), event.allocated_bytes,
               event.reserved_bytes, event.fragmentation_ratio);
    comma = ",";
  }
  out << ']';
}

template <class Write>
void write_file(const std::string& path, const Write& write) {
  std::ofstream file(path);
  if (file) write(file);
  file.close();
  if (!file)
    throw std::runtime_error(
        "cannot write " + path +
        ": the folder is missing or not writable, or the disk is full; choose another path");
}

}  // namespace

std::string events_json(const MemoryTracer& tracer) {
  std::ostringstream out;
  write_events(tracer, out);
  return out.str();
}

std::string stats_json(const MemoryTracer& tracer, std::string_view device) {
  Json json = summary_json(tracer, device);
  json["layers"] = layers_json(tracer, device);
  return line_of(json);
}

}  // namespace memory_tracer

using namespace memory_tracer;

void MemoryTracer::export_flame_graph(const std::string& path) const {
  write_file(path, [&](std::ostream& out) {
    const SessionLock held;
    write_flame_graph(session_->account, out);
  });
}

void MemoryTracer::export_timeline(const std::string& path) const {
  write_file(path, [&](std::ostream& out) {
    out << "{\"events\":";
    write_events(*this, out);
    fmt::print(out, ",\n\"layer_stats\":{},\n\"summary\":{}}}\n", line_of(layers_json(*this, {})),
               line_of(summary_json(*this, {})));
  });
}

std::string MemoryTracer::summary() const {
  const Json totals = summary_json(*this, {});
  const auto total = [&](const char* name) { return in_mib(totals[name].get<std::int64_t>()); };
  std::string text =
      fmt::format("Memory on {}: peak {}, now {}, peak reserved {}\n", totals["device"].get<std::string>(),
                  total("peak_allocated"), total("allocated_bytes"), total("peak_reserved"));
  const MemoryByUse use = get_memory_by_use();
  text += fmt::format(
      "At the peak: weights {}, activations {}, gradients {}, optimizer state {}, workspace {}, other {}\n",
      in_mib(use.weights), in_mib(use.activations), in_mib(use.gradients), in_mib(use.optimizer_state),
      in_mib(use.workspace), in_mib(use.other));
  std::vector<LayerMemoryStats> rows;
  for (auto& [name, stats] : get_layer_stats()) rows.push_back(stats);
  std::sort(rows.begin(), rows.end(), [](const LayerMemoryStats& a, const LayerMemoryStats& b) {
    return std::pair(a.at_peak_bytes, a.allocated_bytes) > std::pair(b.at_peak_bytes, b.allocated_bytes);
  });
  constexpr std::size_t kRows = 20;
  text += fmt::format("{:<40} {:>14} {:>14} {:>9} {:>9} {:>11}\n", "layer", "peak inside", "own at peak",
                      "allocs", "calls", "ms");
  for (std::size_t i = 0; i < std::min(rows.size(), kRows); ++i)
    text += fmt::format("{:<40} {:>14} {:>14} {:>9} {:>9} {:>11.2f}\n", rows[i].layer_name,
                        in_mib(rows[i].peak_allocated), in_mib(rows[i].at_peak_bytes),
                        rows[i].total_allocations, rows[i].calls, rows[i].duration_ms);
  if (rows.size() > kRows) text += fmt::format("and {} more layers\n", rows.size() - kRows);
  for (const MemoryGrowth& growth : get_growth())
    text +=
        fmt::format("growing: {} keeps {} more after each of the last {} traces, now {}\n", growth.layer_name,
                    in_mib(growth.bytes_per_trace), growth.traces, in_mib(growth.live_bytes));
  return text;
}

}  // namespace headroom
