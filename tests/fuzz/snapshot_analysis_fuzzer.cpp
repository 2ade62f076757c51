// PyTorch snapshots whose trace and segments may contradict each other. Bytes become segments, blocks and
// trace entries at few addresses, written as a pickle. Every snapshot that the reader accepts must be
// analysed and shown without errors, and its counts must add up.
#include <algorithm>
#include <vector>

#include "fuzz.h"
#include "report/snapshot/snapshot_views.h"
#include "snapshot/snapshot_analysis.h"
#include "snapshot/snapshot_reader.h"

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

// Protocol 0, in which everything is text.
std::string integer(std::uint64_t value) { return "L" + std::to_string(value) + "L\n"; }
std::string word(const std::string& text) { return "V" + text + "\n"; }

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

std::string frames(unsigned byte) {
  if ((byte & 3) == 0) return "(l";
  return "((d" + word("name") + word("f" + std::to_string(byte & 3)) + "s" + word("filename") +
         word("model.py") + "s" + word("line") + integer(byte & 15) + "sl";
}

std::string segment(unsigned index, ByteFeed& bytes) {
  const unsigned head = bytes.take();
  std::string blocks = "(";
  std::uint64_t total = 0;
  for (unsigned count = 1 + (head & 3); count > 0; --count) {
    const std::uint64_t size = std::min<std::uint64_t>(size_of(bytes.take()), 8 * kMiB);
    const unsigned state = bytes.take();
    constexpr const char* kStates[] = {"inactive", "active_allocated", "active_pending_free",
                                       "active_allocated"};
    blocks += "(d" + word("size") + integer(size) + "s" + word("requested_size") +
              integer(size - (state >> 2) % 512) + "s" + word("address") +
              integer(address_of(index, 0) + total) + "s" + word("state") + word(kStates[state & 3]) + "s" +
              word("frames") + frames(state >> 2) + "s";
    total += size;
  }
  return "(d" + word("device") + integer(head >> 7) + "s" + word("address") + integer(address_of(index, 0)) +
         "s" + word("total_size") + integer(total) + "s" + word("stream") + integer(head >> 6 & 1) + "s" +
         word("segment_type") + word(head & 4 ? "large" : "small") + "s" + word("is_expandable") +
         (head & 8 ? "I01\n" : "I00\n") + "s" + word("blocks") + blocks + "ls";
}

std::string trace_entry(ByteFeed& bytes) {
  constexpr const char* kActions[] = {"alloc",        "free_requested", "free_completed", "segment_alloc",
                                      "segment_free", "segment_map",    "segment_unmap",  "oom"};
  const unsigned head = bytes.take(), where = bytes.take(), place = bytes.take();
  return "(d" + word("action") + word(kActions[head & 7]) + "s" +
         word((head & 7) == 7 ? "device_free" : "addr") + integer(address_of(where, place)) + "s" +
         word("size") + integer(size_of(bytes.take())) + "s" + word("stream") + integer(head >> 6 & 1) + "s" +
         word("time_us") + integer(1'700'000'000'000'000 + head) + "s" + word("frames") + frames(head >> 3) +
         "s";
}

}  // namespace

void fuzz(std::string_view text) {
  if (text.size() > 1024) return;
  ByteFeed bytes(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  std::string segments = "(";
  const unsigned head = bytes.take();
  for (unsigned index = 0; index < (head & 7); ++index) segments += segment(index, bytes);
  std::string first = "(", second = "(";
  while (!bytes.is_empty()) first += trace_entry(bytes);
  if (head & 8) std::swap(first, second);
  const std::string pickle =
      "(d" + word("segments") + segments + "ls" + word("device_traces") + "(" + first + "l" + second + "lls.";

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
