#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "headroom/memory_tracer.h"
#include "memory_tracer/session.h"
#include "memory_tracer/torch_sources.h"
#include "memory_tracer/views.h"

namespace headroom {

using namespace memory_tracer;

namespace {

Device checked_device(std::string_view name) {
  const Device device = device_of(name);
  if (device == kDevices)
    throw std::invalid_argument("invalid device '" + std::string(name) +
                                "': use cpu, cuda, or cuda:0 to cuda:15");
  return device;
}

// Without a GPU, only the CPU is traced, so its figures are shown.
Device device_here(std::string_view name) {
  const Device device = checked_device(name);
  return has_cuda() ? device : kCpu;
}

Device device_or(const Session& session, std::string_view name) {
  return name.empty() ? session.account.device() : checked_device(name);
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

MemoryTracer::MemoryTracer(const MemoryTracerOptions& options)
    : session_(std::make_shared<Session>(options.max_events, device_here(options.device),
                                         options.enable_fragmentation_tracking)) {
  if (options.record_to.empty()) return;
  start_stream(options.record_to);
  session_->is_recorded = true;
}
MemoryTracer::~MemoryTracer() = default;
MemoryTracer::MemoryTracer(MemoryTracer&&) noexcept = default;
MemoryTracer& MemoryTracer::operator=(MemoryTracer&&) noexcept = default;

MemoryTracer::Trace::Trace(std::shared_ptr<Session> session) : session_(std::move(session)) {}
MemoryTracer::Trace::~Trace() {
  if (session_) close_trace(*session_);
}
MemoryTracer::Trace MemoryTracer::trace() { return trace(std::vector<Weight>{}); }
MemoryTracer::Trace MemoryTracer::trace(const std::vector<Weight>& weights) {
  std::vector<WeightBlock> blocks;
  for (const Weight& weight : weights)
    blocks.push_back(
        {reinterpret_cast<std::uint64_t>(weight.data), weight.bytes, static_cast<Device>(weight.device + 1)});
  open_trace(*session_, blocks);
  return Trace(session_);
}

MemoryTracer::Layer::Layer(std::shared_ptr<Session> session, std::string_view name)
    : session_(std::move(session)) {
  enter_layer(*session_, name);
}
MemoryTracer::Layer::~Layer() { leave_layer(*session_); }

std::map<std::string, LayerMemoryStats> MemoryTracer::get_layer_stats(std::string_view device) const {
  return layer_stats(*session_, device_or(*session_, device));
}

std::map<std::string, std::int64_t> MemoryTracer::get_peak_memory_per_layer(std::string_view device) const {
  std::map<std::string, std::int64_t> peaks;
  for (const auto& [name, stats] : get_layer_stats(device)) peaks[name] = stats.peak_allocated;
  return peaks;
}

std::map<std::string, double> MemoryTracer::get_fragmentation_stats(std::string_view device) const {
  std::map<std::string, double> ratios;
  if (!session_->account.tracks_fragmentation()) return ratios;
  for (const auto& [name, stats] : get_layer_stats(device)) ratios[name] = stats.avg_fragmentation;
  return ratios;
}

std::vector<MemoryEvent> MemoryTracer::get_events() const { return events_of(*session_); }
std::int64_t MemoryTracer::peak_allocated(std::string_view device) const {
  return totals_of(*session_, device_or(*session_, device)).peak;
}
std::int64_t MemoryTracer::allocated(std::string_view device) const {
  return totals_of(*session_, device_or(*session_, device)).allocated;
}
std::map<std::string, std::int64_t> MemoryTracer::get_memory_at_peak(std::string_view device) const {
  return memory_at_peak(*session_, device_or(*session_, device));
}
MemoryByUse MemoryTracer::get_memory_by_use(std::string_view device) const {
  return memory_by_use(*session_, device_or(*session_, device));
}
std::vector<MemoryGrowth> MemoryTracer::get_growth(std::string_view device) const {
  return growth_of(*session_, device_or(*session_, device));
}

void MemoryTracer::export_flame_graph(const std::string& path) const {
  write_file(path, [&](std::ostream& out) { write_flame_graph(*session_, out); });
}
void MemoryTracer::export_timeline(const std::string& path) const {
  write_file(path, [&](std::ostream& out) { write_timeline(*session_, out); });
}
std::string MemoryTracer::summary() const { return summary_of(*session_); }
void MemoryTracer::print_summary() const {
  const std::string text = summary();
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace headroom
