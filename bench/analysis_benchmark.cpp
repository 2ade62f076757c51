// How fast a recording is analysed: makes recordings of a storm of allocations and prints events a second for
// the decoding alone and for the whole analysis.
//
//   analysis_benchmark [EVENTS]      20 000 000 events unless told otherwise
//
// The storm is that of bench/README.md: 4096 live slots, 16 to 2063 bytes, stacks of 10 frames. It is also
// run with a million live slots (larger than the processor's caches), with layers three deep, on two threads,
// and as samples, whose peak takes another pass.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <vector>

#include "analysis/recording_analysis.h"
#include "base/text.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace {

using namespace headroom;

struct Storm {
  const char* name;
  std::size_t slots = 4096;
  std::uint32_t threads = 1, layers = 0;
  bool sampled = false;
};

std::vector<test::RecordingBuilder::Frames> make_stacks(std::size_t count) {
  std::vector<test::RecordingBuilder::Frames> stacks(count);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t depth = 0; depth < 10; ++depth)
      stacks[i].push_back(0x401000 + 16 * (depth < 4 ? (i >> depth) * 10 + depth : depth));
  return stacks;
}

std::filesystem::path make_recording(const std::filesystem::path& path, const Storm& storm,
                                     std::int64_t events) {
  test::RecordingOptions options;
  options.full = !storm.sampled;
  options.segment_bytes = 1 << 20;
  options.metadata_bytes = 1 << 20;
  options.segments_limit = 1 << 16;
  test::RecordingBuilder builder(path, options);
  const auto stacks = make_stacks(500);
  std::vector<std::uint32_t> layers{0};
  for (std::uint32_t i = 0; i < storm.layers; ++i)
    layers.push_back(builder.scope("layer" + std::to_string(i), i % 3 == 0 ? 0 : i));
  std::mt19937 random(7);
  std::vector<std::uint64_t> live(storm.slots * storm.threads);
  std::uint64_t time = 0;
  for (std::int64_t i = 0; i < events; ++i) {
    time += 20 + random() % 100;
    const auto thread =
        static_cast<std::uint32_t>(random() % 64 == 0 ? random() % storm.threads : i / 64 % storm.threads);
    if (layers.size() > 1 && i % 32 == 0) builder.enter_scope(thread, time, layers[random() % layers.size()]);
    const std::size_t slot = thread * storm.slots + random() % storm.slots;
    if (live[slot] != 0) {
      builder.release(thread, time, std::exchange(live[slot], 0));
      continue;
    }
    // Each slot has its own place, as a size class of an allocator would give.
    live[slot] = 0x555500000000 + slot * 2080;
    const std::uint64_t size = 16 + random() % 2048;
    const auto& stack = stacks[random() % stacks.size()];
    if (storm.sampled)
      builder.sample(thread, time, live[slot], size, stack);
    else
      builder.allocate(thread, time, live[slot], size, stack);
  }
  return builder.finish();
}

double events_per_second(std::int64_t events, const auto& work) {
  const Nanoseconds start = monotonic_now();
  work();
  return static_cast<double>(events) / (monotonic_now() - start).seconds();
}

int measure(const Storm& storm, std::int64_t events, const std::filesystem::path& folder) {
  const auto path = make_recording(folder / "storm.hrec", storm, events);
  auto recording = recording::Recording::open(path);
  if (!recording) {
    fmt::print(stderr, "{}\n", recording.error().sentence());
    return 1;
  }
  // The best of three: the machine has other work too.
  double decoding = 0, analysing = 0;
  std::int64_t read = 0;
  analysis::RecordingAnalysis result;
  for (int round = 0; round < 3; ++round) {
    read = 0;
    decoding = std::max(decoding, events_per_second(events, [&] {
                          recording->for_each_event([&](const MemoryEvent&) { ++read; });
                        }));
    analysing = std::max(
        analysing, events_per_second(events, [&] { result = analysis::analyze_recording(*recording, {}); }));
  }
  fmt::print(
      "{:<34} {:>5.1f} bytes/event   decode {:>6.1f} M events/s   analysis {:>6.1f} M events/s   peak {}\n",
      storm.name, static_cast<double>(recording->info().file_bytes) / static_cast<double>(read),
      decoding * 1e-6, analysing * 1e-6, format_bytes({result.peak_bytes.value}));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto events = argc > 1 ? headroom::parse_number<std::int64_t>(argv[1]) : 20'000'000;
  if (!events || *events < 1) {
    fmt::print(stderr, "usage: analysis_benchmark [EVENTS]\n");
    return 2;
  }
  const headroom::test::TemporaryFolder folder;
  int failed = 0;
  for (const Storm& storm : {Storm{"4096 live"}, Storm{"4096 live, 30 layers", 4096, 1, 30},
                             Storm{"4096 live each, 2 threads", 4096, 2, 0}, Storm{"1 M live", 1 << 20},
                             Storm{"4096 live samples", 4096, 1, 0, true}})
    failed |= measure(storm, *events, folder.path());
  return failed;
}
