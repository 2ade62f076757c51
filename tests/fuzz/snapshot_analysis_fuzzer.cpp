// PyTorch snapshots whose trace and segments may contradict each other. Bytes become segments, blocks and
// trace entries at few addresses, written as a pickle. Every snapshot that the reader accepts must be
// analysed and shown without errors, and its counts must add up.
#include <fmt/format.h>
#include <algorithm>

#include "fuzz.h"
#include "report/snapshot/snapshot_views.h"
#include "snapshot/snapshot_analysis.h"
#include "snapshot/snapshot_reader.h"
#include "support/pickle_of.h"

namespace {

using namespace headroom;

class ByteFeed {
 public:
  ByteFeed(const std::uint8_t* data, std::size_t size) : next_(data), end_(data + size) {}
  bool is_empty() const { return next_ == end_; }
  unsigned take() { return is_empty() ? 0u : *next_++; }

 private:
  const std::uint8_t *next_, *end_;
};

constexpr std::uint64_t kBase = 0x7f00'0000'0000;
constexpr std::uint64_t kMiB = 1 << 20;

// Sizes around the thresholds of the allocator's rules: 512 B, 1 MiB, 2 MiB, 10 MiB, 20 MiB.
std::uint64_t size_of(unsigned byte) {
  constexpr std::uint64_t kBorders[] = {512, kMiB, 2 * kMiB, 10 * kMiB, 20 * kMiB, 512, 4096, 64 * kMiB};
  const std::uint64_t border = kBorders[byte & 7];
  const std::uint64_t steps = byte >> 3;
  return steps < 16 ? border + steps * 512 : border * (steps - 15);
}
// Blocks start at multiples of 512 bytes within 32 segments of 32 MiB.
std::uint64_t address_of(unsigned segment, unsigned place) {
  return kBase + (segment & 31) * 32 * kMiB + std::uint64_t{place} * 512 * (place & 1 ? 1 : 256);
}

Json frames(unsigned byte) {
  if ((byte & 3) == 0) return Json::array();
  return Json::array(
      {{{"name", fmt::format("f{}", byte & 3)}, {"filename", "model.py"}, {"line", byte & 15}}});
}

Json segment(unsigned index, ByteFeed& bytes) {
  const unsigned head = bytes.take();
  Json blocks = Json::array();
  std::uint64_t total = 0;
  for (unsigned count = 1 + (head & 3); count > 0; --count) {
    const std::uint64_t size = std::min<std::uint64_t>(size_of(bytes.take()), 8 * kMiB);
    const unsigned state = bytes.take();
    constexpr const char* kStates[] = {"inactive", "active_allocated", "active_pending_free",
                                       "active_allocated"};
    blocks.push_back({{"size", size},
                      {"requested_size", size - (state >> 2) % 512},
                      {"address", address_of(index, 0) + total},
                      {"state", kStates[state & 3]},
                      {"frames", frames(state >> 2)}});
    total += size;
  }
  return {{"device", head >> 7},
          {"address", address_of(index, 0)},
          {"total_size", total},
          {"stream", head >> 6 & 1},
          {"segment_type", head & 4 ? "large" : "small"},
          {"is_expandable", (head & 8) != 0},
          {"blocks", std::move(blocks)}};
}

Json trace_entry(ByteFeed& bytes) {
  constexpr const char* kActions[] = {"alloc",        "free_requested", "free_completed", "segment_alloc",
                                      "segment_free", "segment_map",    "segment_unmap",  "oom"};
  const unsigned head = bytes.take(), where = bytes.take(), place = bytes.take();
  return {{"action", kActions[head & 7]},
          {(head & 7) == 7 ? "device_free" : "addr", address_of(where, place)},
          {"size", size_of(bytes.take())},
          {"stream", head >> 6 & 1},
          {"time_us", 1'700'000'000'000'000 + head},
          {"frames", frames(head >> 3)}};
}

}  // namespace

void fuzz(std::string_view text) {
  if (text.size() > 1024) return;
  ByteFeed bytes(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  Json segments = Json::array(), first = Json::array(), second = Json::array();
  const unsigned head = bytes.take();
  for (unsigned index = 0; index < (head & 7); ++index) segments.push_back(segment(index, bytes));
  while (!bytes.is_empty()) first.push_back(trace_entry(bytes));
  if (head & 8) std::swap(first, second);
  const std::string pickle =
      test::pickle_of({{"segments", segments}, {"device_traces", Json::array({first, second})}});

  auto input = snapshot::PickleInput::of(pickle);
  auto read = snapshot::read_snapshot(input);
  if (!read) {
    if (read.error().why.empty()) std::abort();
    return;
  }
  snapshot::SnapshotOptions options;
  options.timeline_places = 12;
  const auto devices = snapshot::analyze_snapshot(*read, options);
  for (const snapshot::DeviceAnalysis& device : devices) {
    std::int64_t live = 0;
    for (const snapshot::PlaceFigures& place : device.figures) {
      if (place.live_bytes < 0 || place.peak_bytes < 0 || place.allocations < 0) std::abort();
      live += place.live_bytes;
    }
    for (std::size_t point = 0; point < device.timeline.place_bytes.size(); ++point) {
      const auto& held = device.timeline.place_bytes[point];
      if (held.size() != device.timeline.places.size()) std::abort();
      if (!device.doubt.empty()) continue;
      std::int64_t sum = 0;
      for (const std::int64_t of_place : held) {
        if (of_place < 0) std::abort();
        sum += of_place;
      }
      if (sum > device.timeline.points[point].highest) std::abort();
    }
    // A trace that does not match the segments must be marked as doubtful. Any other trace must add up to
    // them.
    if (!device.doubt.empty()) continue;
    if (live != device.live_bytes) std::abort();
    if (device.peak_allocated_bytes < device.live_bytes) std::abort();
    if (device.live_bytes + device.pending_bytes > device.reserved_bytes) std::abort();
  }
  const report::SnapshotReport report{"snapshot.pickle", *read, devices};
  (void)report::snapshot_to_terminal(report, false, 80);
  if (to_text(report::snapshot_to_json(report)).empty()) std::abort();
}
