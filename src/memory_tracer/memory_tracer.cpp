#include <cstdio>
#include <stdexcept>

#include "headroom/memory_tracer.h"
#include "memory_tracer/session.h"
#include "memory_tracer/torch_sources.h"

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

// Calls `read` with the device's account, which is locked and may be empty.
template <class Read>
auto with_account(const Session& session, std::string_view device, const Read& read) {
  const Device asked = device_or(session, device);
  const SessionLock held;
  static const DeviceAccount kEmpty{};
  const DeviceAccount* const account = session.account.find(asked);
  return read(account == nullptr ? kEmpty : *account);
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
  return with_account(*session_, device, [&](const DeviceAccount& of_device) {
    const Account& account = session_->account;
    std::map<std::string, LayerMemoryStats> stats;
    for (LayerId layer = kBefore + 1; layer < account.layers().size(); ++layer) {
      const LayerFigures figures = layer < of_device.layers.size() ? of_device.layers[layer] : LayerFigures();
      if (account.calls_of(layer) == 0 && figures.allocations == 0) continue;
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
                     figures.at(of_device.latest_peak)};
    }
    return stats;
  });
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

std::vector<MemoryEvent> MemoryTracer::get_events() const {
  const SessionLock held;
  const Account& account = session_->account;
  std::vector<MemoryEvent> events;
  account.for_each_event([&](const Event& event) {
    const double reserved = static_cast<double>(event.reserved);
    const double fragmentation = account.tracks_fragmentation() && event.reserved > 0
                                     ? static_cast<double>(event.reserved - event.allocated) / reserved
                                     : 0;
    events.push_back({account.seconds_since_start(event.time_ns),
                      kEventNames[static_cast<std::size_t>(event.type)],
                      static_cast<std::int64_t>(event.bytes),
                      event.layer == kOutside ? std::string() : account.layers()[event.layer].name,
                      event.allocated, event.reserved, fragmentation});
  });
  return events;
}

std::int64_t MemoryTracer::peak_allocated(std::string_view device) const {
  return with_account(*session_, device, [](const DeviceAccount& account) { return account.peak; });
}
std::int64_t MemoryTracer::allocated(std::string_view device) const {
  return with_account(*session_, device, [](const DeviceAccount& account) { return account.allocated; });
}

std::map<std::string, std::int64_t> MemoryTracer::get_memory_at_peak(std::string_view device) const {
  return with_account(*session_, device, [&](const DeviceAccount& account) {
    std::map<std::string, std::int64_t> bytes;
    for (LayerId layer = 0; layer < account.layers.size(); ++layer)
      if (const std::int64_t bytes_then = account.layers[layer].at(account.latest_peak); bytes_then != 0)
        bytes[session_->account.layers()[layer].name] = bytes_then;
    return bytes;
  });
}

MemoryByUse MemoryTracer::get_memory_by_use(std::string_view device) const {
  return with_account(*session_, device, [](const DeviceAccount& account) {
    const BytesByUse& use = account.by_use_at_peak;
    return MemoryByUse{use[0], use[1], use[2], use[3], use[4], use[5]};
  });
}

std::vector<MemoryGrowth> MemoryTracer::get_growth(std::string_view device) const {
  const Device asked = device_or(*session_, device);
  const SessionLock held;
  std::vector<MemoryGrowth> growths;
  for (const Account::Growth& growth : session_->account.growth(asked))
    growths.push_back(
        {session_->account.layers()[growth.layer].name, growth.bytes_per_trace, growth.live, growth.traces});
  return growths;
}

void MemoryTracer::print_summary() const {
  const std::string text = summary();
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace headroom
