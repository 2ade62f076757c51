// Compares the analysis of random events of several threads with a simple reference implementation. The
// reference keeps everything in maps and copies the state at every peak.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "unit/attribution/analyze.h"
#include "unit/attribution/random_events.h"

namespace headroom::attribution {
namespace {

struct Block {
  std::int64_t size = 0;
  StackId stack;
  std::string layer;
  std::uint32_t thread = 0;
};

struct Sums {
  std::map<std::uint32_t, std::int64_t> stacks, threads;
  std::map<std::string, std::int64_t> layers;  // inclusive: a layer and its inner layers
  std::int64_t bytes = 0;
};

// The reference implementation: handles one event after the other; slow but simple.
struct Reference {
  std::map<std::uint64_t, Block> live;
  Sums now, at_peak;
  std::int64_t allocations = 0, releases = 0, allocated = 0, temporary = 0, unknown = 0, missed = 0;
  Nanoseconds peak_time;
  std::map<std::string, std::int64_t> layer_peaks, layer_allocations;
  std::map<std::uint32_t, std::int64_t> stack_allocations, stack_bytes;
  std::map<std::uint32_t, std::uint64_t> last_allocated;
  std::vector<std::pair<Nanoseconds, std::int64_t>> history;

  void change(const Block& block, int sign) {
    now.bytes += sign * block.size;
    now.stacks[block.stack.index] += sign * block.size;
    now.threads[block.thread] += sign * block.size;
    for (std::string path = block.layer;; path.erase(path.rfind('/'))) {
      now.layers[path] += sign * block.size;
      layer_peaks[path] = std::max(layer_peaks[path], now.layers[path]);
      if (path.find('/') == std::string::npos) break;
    }
  }

  void visit(const MemoryEvent& event, const std::string& layer) {
    if (event.kind == MemoryEventKind::allocate) {
      Block block{static_cast<std::int64_t>(event.size), event.stack, layer, event.thread.index};
      if (const auto it = live.find(event.address); it != live.end()) {
        ++missed;
        change(it->second, -1);
      }
      live[event.address] = block;
      change(block, 1);
      ++allocations;
      allocated += block.size;
      ++stack_allocations[event.stack.index];
      stack_bytes[event.stack.index] += block.size;
      ++layer_allocations[layer];
      last_allocated[event.thread.index] = event.address;
      if (now.bytes > at_peak.bytes) {
        at_peak = now;
        peak_time = event.time;
      }
    } else if (event.kind == MemoryEventKind::release) {
      ++releases;
      const auto it = live.find(event.address);
      if (it == live.end()) {
        ++unknown;
      } else {
        if (last_allocated[event.thread.index] == event.address) ++temporary;
        change(it->second, -1);
        live.erase(it);
      }
      last_allocated[event.thread.index] = 0;
    }
    history.emplace_back(event.time, now.bytes);
  }
};

class AnalysisPropertyTest : public testing::TestWithParam<unsigned> {};

TEST_P(AnalysisPropertyTest, AgreesWithReferenceImplementation) {
  OwnRecording builder(kOfRandomEvents);
  add_random_events(builder, GetParam(), false);
  recording::Recording recording = open_built(builder);
  const RecordingAnalysis analysis = analyze_recording(recording, {.cores = 1 + GetParam() % 2});
  Reference reference;
  recording.for_each_event(
      [&](const MemoryEvent& event) { reference.visit(event, recording.path_of(event.scope)); });

  EXPECT_EQ(analysis.complete, reference.unknown == 0);
  EXPECT_EQ(analysis.events, static_cast<std::int64_t>(reference.history.size()));
  EXPECT_EQ(analysis.allocations, reference.allocations);
  EXPECT_EQ(analysis.deallocations, reference.releases);
  EXPECT_EQ(analysis.total_allocated_bytes, reference.allocated);
  EXPECT_EQ(analysis.temporary, reference.temporary);
  EXPECT_EQ(analysis.unknown_releases, reference.unknown);
  EXPECT_EQ(analysis.missed_releases, reference.missed);
  EXPECT_EQ(analysis.peak_bytes.value, reference.at_peak.bytes);
  EXPECT_EQ(analysis.peak_time, reference.peak_time);
  EXPECT_EQ(analysis.leaked_bytes.value, reference.now.bytes);
  EXPECT_EQ(analysis.leaked_blocks.value, static_cast<std::int64_t>(reference.live.size()));
  for (const StackFigures& stack : analysis.stacks) {
    EXPECT_EQ(stack.allocations, reference.stack_allocations[stack.stack.index]);
    EXPECT_EQ(stack.allocated_bytes, reference.stack_bytes[stack.stack.index]);
    EXPECT_EQ(stack.live.peak_bytes, reference.at_peak.stacks[stack.stack.index]);
    EXPECT_EQ(stack.live.end_bytes, reference.now.stacks[stack.stack.index]);
  }
  for (const ThreadFigures& thread : analysis.threads) {
    EXPECT_EQ(thread.live.peak_bytes, reference.at_peak.threads[thread.thread.index]);
    EXPECT_EQ(thread.live.end_bytes, reference.now.threads[thread.thread.index]);
  }
  std::int64_t classes_at_peak = 0;
  for (const SizeClassFigures& size_class : analysis.size_classes)
    classes_at_peak += size_class.live.peak_bytes;
  EXPECT_EQ(classes_at_peak, reference.at_peak.bytes);
  for (const LayerFigures& layer : analysis.layers) {
    EXPECT_EQ(layer.peak_allocated, reference.layer_peaks[layer.path]) << layer.path;
    EXPECT_EQ(layer.live.peak_bytes, reference.at_peak.layers[layer.path]) << layer.path;
    EXPECT_EQ(layer.live.end_bytes, reference.now.layers[layer.path]) << layer.path;
  }

  // Compare the live bytes at some moments.
  std::vector<Nanoseconds> times;
  for (std::size_t i = 0; i < reference.history.size(); i += 997) times.push_back(reference.history[i].first);
  const auto moments = live_at(recording, times);
  ASSERT_EQ(moments.size(), times.size());
  std::size_t at = 0;
  for (const LiveMoment& moment : moments) {
    while (at + 1 < reference.history.size() && reference.history[at + 1].first <= moment.time) ++at;
    EXPECT_EQ(moment.bytes, reference.history[at].second) << "at " << moment.time.count << " ns";
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnalysisPropertyTest, testing::Range(1U, 9U));

}  // namespace
}  // namespace headroom::attribution
