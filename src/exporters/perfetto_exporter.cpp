// A Perfetto trace (https://perfetto.dev/docs/reference/trace-packet-proto). The heap, the program's mappings
// and its memory on each GPU are counters of the process; each thread's layers are slices. Field numbers are
// from Perfetto's schema.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "attribution/device_memory.h"
#include "attribution/live_map.h"
#include "attribution/mapping_ledger.h"
#include "attribution/sampled_peak.h"
#include "exporters/encoders.h"
#include "exporters/exporter_list.h"
#include "exporters/named_stacks.h"

namespace headroom::exporters {
namespace {

using attribution::LayerIndex;
using attribution::LiveBlock;

enum EventType { kSliceBegin = 1, kSliceEnd = 2, kCounter = 4 };
constexpr std::uint64_t kProcess = 1, kHeap = 2, kMapped = 3, kFirstThread = 16;
constexpr std::uint64_t kFirstDevice = std::uint64_t{1} << 40;  // above the ids of 2^32 threads
constexpr int kUnitBytes = 3;

class TraceWriter {
 public:
  TraceWriter(const recording::RecordingInfo& info, OutputSink& sink) : info_(info), sink_(sink) {
    const std::string name = valid_utf8(info.command.empty() ? info.executable : info.command.front());
    put_track(ProtobufMessage()
                  .integer(1, kProcess)
                  .message(3, ProtobufMessage().integer(1, info.pid).text(6, name)));
    if (!info.host_recorded) return;
    put_counter_track(kHeap, "heap");
    put_counter_track(kMapped, "mapped by the program");
  }

  // "GPU 0, NVIDIA H200"
  std::uint64_t add_device(std::uint32_t ordinal) {
    std::string name = fmt::format("GPU {}", ordinal);
    for (const recording::Device& device : info_.devices)
      if (device.ordinal == ordinal && !device.name.empty()) name += ", " + valid_utf8(device.name);
    put_counter_track(kFirstDevice + ordinal, name);
    return kFirstDevice + ordinal;
  }
  void counter(std::uint64_t track, std::int64_t time, std::int64_t value) {
    put_event(time, ProtobufMessage().integer(9, kCounter).integer(11, track).integer(30, value));
  }
  void begin(ThreadIndex thread, std::int64_t time, std::string_view layer) {
    ProtobufMessage event;
    event.integer(9, kSliceBegin).integer(11, track_of(thread)).text(22, "layer").text(23, valid_utf8(layer));
    put_event(time, event);
  }
  void end(ThreadIndex thread, std::int64_t time) {
    put_event(time, ProtobufMessage().integer(9, kSliceEnd).integer(11, track_of(thread)));
  }

 private:
  std::uint64_t track_of(ThreadIndex thread) {
    const std::uint64_t uuid = kFirstThread + thread.index;
    if (!threads_.insert(thread.index).second) return uuid;
    const recording::Thread known =
        thread.index < info_.threads.size() ? info_.threads[thread.index] : recording::Thread{};
    ProtobufMessage descriptor;
    descriptor.integer(1, info_.pid).integer(2, known.tid != 0 ? known.tid : std::int64_t{thread.index});
    if (!known.name.empty()) descriptor.text(5, valid_utf8(known.name));
    put_track(ProtobufMessage().integer(1, uuid).message(4, descriptor).integer(5, kProcess));
    return uuid;
  }
  void put_counter_track(std::uint64_t uuid, std::string_view name) {
    ProtobufMessage track;
    track.integer(1, uuid).text(2, name).integer(5, kProcess);
    put_track(track.message(8, ProtobufMessage().integer(3, kUnitBytes)));
  }
  void put_track(const ProtobufMessage& track) { put(ProtobufMessage().message(60, track)); }
  void put_event(std::int64_t time, const ProtobufMessage& event) {
    put(ProtobufMessage().integer(8, time).message(11, event));
  }
  // All packets form one sequence. The first one declares that the sequence starts there.
  void put(ProtobufMessage& packet) {
    packet.integer(10, 1);
    if (std::exchange(is_first_, false)) packet.integer(13, 1);
    sink_.write(ProtobufMessage().message(1, packet).bytes());
  }

  const recording::RecordingInfo& info_;
  OutputSink& sink_;
  std::set<std::uint32_t> threads_;
  bool is_first_ = true;
};

// A counter reduced to at most two values per interval of time: the highest and the last.
class CounterCurve {
 public:
  CounterCurve(TraceWriter& writer, std::uint64_t track, Nanoseconds duration)
      : writer_(writer), track_(track), width_(std::max<std::int64_t>(1, duration.count / kStretches)) {}

  void set(std::int64_t time, std::int64_t value) {
    if (time >= end_ && has_value_) flush();
    if (!has_value_ || value > highest_.value) highest_ = {time, value};
    if (!has_value_) end_ = time + width_;
    last_ = {time, value};
    has_value_ = true;
  }
  void flush() {
    if (!has_value_) return;
    writer_.counter(track_, highest_.time, highest_.value);
    if (last_.time > highest_.time) writer_.counter(track_, last_.time, last_.value);
    has_value_ = false;
  }

 private:
  static constexpr std::int64_t kStretches = 50'000;  // at most 3 MB of counters
  struct Point {
    std::int64_t time = 0, value = 0;
  };
  TraceWriter& writer_;
  std::uint64_t track_;
  std::int64_t width_, end_ = 0;
  Point highest_, last_;
  bool has_value_ = false;
};

class EventWalk {
 public:
  // `most`: the total of small allocations, an upper bound for the estimates from samples.
  EventWalk(const recording::Recording& recording, OutputSink& sink, attribution::SmallAllocations most)
      : info_(recording.info()),
        writer_(recording.info(), sink),
        walk_(recording),
        heap_(writer_, kHeap, recording.info().duration),
        mapped_(writer_, kMapped, recording.info().duration),
        mappings_(recording.info().page_bytes),
        devices_(recording.info()),
        most_sampled_(most.bytes) {}

  void visit(const MemoryEvent& event) {
    time_ns_ = std::max(time_ns_, event.time.count);
    LiveBlock block;
    if (event.kind == MemoryEventKind::map || event.kind == MemoryEventKind::unmap ||
        event.kind == MemoryEventKind::reserve || event.kind == MemoryEventKind::make_accessible) {
      change_mappings(event);
    } else if (event.kind == MemoryEventKind::device_allocate ||
               event.kind == MemoryEventKind::device_release) {
      change_device(event);
    } else if (event.kind == MemoryEventKind::enter_scope) {
      enter(event);
    } else if (event.kind == MemoryEventKind::release) {
      enter(event);
      if (live_.take(event.address, block)) change(block, -1);
    } else if (attribution::is_allocation(event)) {
      enter(event);
      if (!attribution::make_block(event, 0, time_ns_, block)) return;
      LiveBlock replaced;
      if (live_.insert(block, replaced)) change(replaced, -1);
      change(block, 1);
    }
  }

  void finish() {
    heap_.flush();
    mapped_.flush();
    for (auto& [ordinal, curve] : device_curves_) curve.flush();
  }

 private:
  void enter(const MemoryEvent& event) {
    walk_.go(
        event, [&](LayerIndex) { writer_.end(event.thread, time_ns_); },
        [&](LayerIndex layer) { writer_.begin(event.thread, time_ns_, walk_.layers()[layer].name); });
  }
  void change(const LiveBlock& block, std::int64_t sign) {
    std::int64_t& live = block.weight == 1 ? live_bytes_ : sampled_bytes_;
    attribution::add_wrapping(live, sign * block.bytes());
    std::int64_t heap = std::min(sampled_bytes_, most_sampled_);
    attribution::add_wrapping(heap, live_bytes_);
    heap_.set(time_ns_, heap);
  }
  void change_mappings(const MemoryEvent& event) {
    mappings_.apply(event);
    mapped_.set(time_ns_, mappings_.mapped_bytes());
  }

  void change_device(const MemoryEvent& event) {
    devices_.visit(event, 0, time_ns_);
    auto found = device_curves_.find(event.device);
    if (found == device_curves_.end())
      found =
          device_curves_.try_emplace(event.device, writer_, writer_.add_device(event.device), info_.duration)
              .first;
    found->second.set(time_ns_, devices_.total_of(event.device));
  }

  const recording::RecordingInfo& info_;
  TraceWriter writer_;
  LayerWalk walk_;
  CounterCurve heap_, mapped_;
  attribution::MappingLedger mappings_;
  attribution::LiveMap live_;
  attribution::DeviceLedgers devices_;
  std::map<std::uint32_t, CounterCurve> device_curves_;
  std::int64_t time_ns_ = 0;
  std::int64_t live_bytes_ = 0, sampled_bytes_ = 0;  // recorded individually; estimated from samples
  std::int64_t most_sampled_;
};

}  // namespace

Status write_perfetto(const ExportInput& input, OutputSink& sink) {
  EventWalk walk(input.recording, sink, attribution::bound_of_samples(input.recording));
  input.recording.for_each_event([&](const MemoryEvent& event) { walk.visit(event); });
  walk.finish();
  return {};
}

}  // namespace headroom::exporters
