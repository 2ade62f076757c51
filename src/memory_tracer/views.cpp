#include "memory_tracer/views.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>  // fmt::join, since fmt 11
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>

#include "memory_tracer/torch_sources.h"

namespace headroom::memory_tracer {
namespace {

using Json = nlohmann::json;

// Names come from Python and may contain invalid UTF-8.
std::string quoted(const std::string& name) {
  return Json(name).dump(-1, ' ', false, Json::error_handler_t::replace);
}
std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

const LayerFigures& figures_of(const DeviceAccount* account, LayerId layer) {
  static const LayerFigures none;
  return account != nullptr && layer < account->layers.size() ? account->layers[layer] : none;
}

bool was_used(const Account& account, const LayerFigures& figures, LayerId layer) {
  return account.calls_of(layer) > 0 || figures.allocations > 0;
}

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

Json layers_json(const Session& session, Device device) {
  Json layers = Json::object();
  for (const auto& [name, stats] : layer_stats(session, device)) layers[name] = json_of(stats);
  return layers;
}

Json summary_json(const Session& session, Device device) {
  const Totals totals = totals_of(session, device);
  Json growth = Json::array();
  for (const MemoryGrowth& layer : growth_of(session, device))
    growth.push_back({{"layer_name", layer.layer_name},
                      {"bytes_per_trace", layer.bytes_per_trace},
                      {"live_bytes", layer.live_bytes},
                      {"traces", layer.traces}});
  const SessionLock held;
  Json devices = Json::object();
  for (Device other = 0; other < kDevices; ++other)
    if (const DeviceAccount* account = session.account.find(other))
      devices[name_of(other)] = {{"peak_allocated", account->peak}, {"allocated", account->allocated}};
  return {{"device", name_of(device)},
          {"peak_allocated", totals.peak},
          {"peak_reserved", totals.peak_reserved},
          {"allocated_bytes", totals.allocated},
          {"reserved_bytes", totals.reserved},
          {"total_events", session.account.events_seen()},
          {"max_events", session.account.max_events()},
          {"growth", std::move(growth)},
          {"devices", std::move(devices)}};
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

double seconds_since_start(const Account& account, std::int64_t time_ns) {
  return static_cast<double>(time_ns - account.start_ns()) / 1e9;
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
               seconds_since_start(account, time));
    comma = ",";
  };
  fmt::print(out,
             "{{\"type\":\"evented\",\"name\":\"layers over time\",\"unit\":\"seconds\",\"startValue\":0,"
             "\"endValue\":{:.9f},\"events\":[",
             seconds_since_start(account, last));
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

}  // namespace

std::map<std::string, LayerMemoryStats> layer_stats(const Session& session, Device device) {
  const SessionLock held;
  const Account& account = session.account;
  const DeviceAccount* const of_device = account.find(device);
  std::map<std::string, LayerMemoryStats> stats;
  for (LayerId layer = kBefore + 1; layer < account.layers().size(); ++layer) {
    const LayerFigures& figures = figures_of(of_device, layer);
    if (!was_used(account, figures, layer)) continue;
    const double events = static_cast<double>(figures.fragmentation_events);
    const std::string& name = account.layers()[layer].name;
    stats[name] = {name,
                   figures.peak_allocated,
                   figures.peak_reserved,
                   figures.allocations,
                   figures.releases,
                   events > 0 ? figures.fragmentation_sum / events : 0,
                   static_cast<double>(account.time_of(layer)) / 1e6,
                   account.calls_of(layer),
                   figures.allocated_bytes,
                   figures.live,
                   of_device == nullptr ? 0 : figures.at(of_device->latest_peak)};
  }
  return stats;
}

std::vector<MemoryEvent> events_of(const Session& session) {
  const SessionLock held;
  const Account& account = session.account;
  std::vector<MemoryEvent> events;
  account.for_each_event([&](const Event& event) {
    const double reserved = static_cast<double>(event.reserved);
    const double fragmentation = account.tracks_fragmentation() && event.reserved > 0
                                     ? static_cast<double>(event.reserved - event.allocated) / reserved
                                     : 0;
    events.push_back({seconds_since_start(account, event.time_ns),
                      kEventNames[static_cast<std::size_t>(event.type)],
                      static_cast<std::int64_t>(event.bytes),
                      event.layer == kOutside ? std::string() : account.layers()[event.layer].name,
                      event.allocated, event.reserved, fragmentation});
  });
  return events;
}

std::map<std::string, std::int64_t> memory_at_peak(const Session& session, Device device) {
  const SessionLock held;
  std::map<std::string, std::int64_t> bytes;
  const DeviceAccount* const account = session.account.find(device);
  if (account == nullptr) return bytes;
  for (LayerId layer = 0; layer < account->layers.size(); ++layer)
    if (const std::int64_t bytes_then = account->layers[layer].at(account->latest_peak); bytes_then != 0)
      bytes[session.account.layers()[layer].name] = bytes_then;
  return bytes;
}

MemoryByUse memory_by_use(const Session& session, Device device) {
  const SessionLock held;
  const DeviceAccount* const account = session.account.find(device);
  if (account == nullptr) return {};
  const BytesByUse& use = account->by_use_at_peak;
  return {use[0], use[1], use[2], use[3], use[4], use[5]};
}

std::vector<MemoryGrowth> growth_of(const Session& session, Device device) {
  const SessionLock held;
  std::vector<MemoryGrowth> growths;
  for (const Account::Growth& growth : session.account.growth(device))
    growths.push_back(
        {session.account.layers()[growth.layer].name, growth.bytes_per_trace, growth.live, growth.traces});
  return growths;
}

Totals totals_of(const Session& session, Device device) {
  const SessionLock held;
  const DeviceAccount* const account = session.account.find(device);
  if (account == nullptr) return {};
  return {account->allocated, account->reserved, account->peak, account->peak_reserved};
}

void write_flame_graph(const Session& session, std::ostream& out) {
  const SessionLock held;
  const Account& account = session.account;
  const DeviceAccount* const of_device = account.find(account.device());
  out << "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"headroom\",\n"
         "\"name\":\"memory by layer\",\"shared\":{\"frames\":[";
  for (LayerId layer = 0; layer < account.layers().size(); ++layer)
    fmt::print(out, "{}\n{{\"name\":{}}}", layer == 0 ? "" : ",", quoted(account.layers()[layer].name));
  out << "]},\n\"activeProfileIndex\":0,\"profiles\":[\n";
  write_sampled(
      account, "live at the peak",
      [&](LayerId layer) {
        return of_device == nullptr ? 0 : figures_of(of_device, layer).at(of_device->latest_peak);
      },
      out);
  out << ",\n";
  write_sampled(
      account, "allocated in total",
      [&](LayerId layer) { return figures_of(of_device, layer).allocated_bytes; }, out);
  out << ",\n";
  write_evented(account, out);
  out << "]}\n";
}

namespace {

void write_events(const Session& session, std::ostream& out) {
  std::string_view comma;
  out << '[';
  for (const MemoryEvent& event : events_of(session)) {
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

}  // namespace

std::string events_json(const Session& session) {
  std::ostringstream out;
  write_events(session, out);
  return out.str();
}

void write_timeline(const Session& session, std::ostream& out) {
  out << "{\"events\":";
  write_events(session, out);
  const Device device = session.account.device();
  Json summary = summary_json(session, device);
  summary["memory_at_peak"] = memory_at_peak(session, device);
  summary["memory_by_use_at_peak"] = json_of(memory_by_use(session, device));
  fmt::print(out, ",\n\"layer_stats\":{},\n\"summary\":{}}}\n", line_of(layers_json(session, device)),
             line_of(summary));
}

std::string stats_json(const Session& session, Device device) {
  Json json = summary_json(session, device);
  json["layers"] = layers_json(session, device);
  json["memory_at_peak"] = memory_at_peak(session, device);
  json["memory_by_use_at_peak"] = json_of(memory_by_use(session, device));
  return line_of(json);
}

std::string summary_of(const Session& session) {
  const Device device = session.account.device();
  const Totals totals = totals_of(session, device);
  std::string text = fmt::format("Memory on {}: peak {}, now {}, peak reserved {}\n", name_of(device),
                                 in_mib(totals.peak), in_mib(totals.allocated), in_mib(totals.peak_reserved));
  const MemoryByUse use = memory_by_use(session, device);
  text += fmt::format(
      "At the peak: weights {}, activations {}, gradients {}, optimizer state {}, workspace {}, other {}\n",
      in_mib(use.weights), in_mib(use.activations), in_mib(use.gradients), in_mib(use.optimizer_state),
      in_mib(use.workspace), in_mib(use.other));
  std::vector<LayerMemoryStats> rows;
  for (auto& [name, stats] : layer_stats(session, device)) rows.push_back(stats);
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
  for (const MemoryGrowth& growth : growth_of(session, device))
    text +=
        fmt::format("growing: {} keeps {} more after each of the last {} traces, now {}\n", growth.layer_name,
                    in_mib(growth.bytes_per_trace), growth.traces, in_mib(growth.live_bytes));
  return text;
}

}  // namespace headroom::memory_tracer
