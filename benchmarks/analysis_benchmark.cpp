// Measures how fast a recording is analysed: generates recordings of an allocation storm, and prints events
// per second for decoding alone and for the whole analysis.
//
//   analysis_benchmark [EVENTS [STORM]]      default: 20 000 000 events, all storms (STORM: one of them, from
//   1)
//
// The storm is that of trace_storm.cpp: 4096 live slots, 16 to 2063 bytes, stacks of 10 frames.
// Variants have a million live slots (larger than the processor's caches), layers nested three deep, two
// threads, and samples, whose peak needs a second pass. A real recording of samples has most events in
// counters. Here each event is a sample, which is the slowest case.
//
// Each storm is generated in one process and analysed in another, whose memory peak is the analyser's.
#include <fmt/format.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "attribution/recording_analysis.h"
#include "base/text.h"
#include "base/units.h"
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
    // Each slot has a fixed address, as in a size class of an allocator.
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

// CPU time of this process including system time: other work on the machine does not count.
Nanoseconds processor_time() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return {std::int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec};
}

double events_per_second(std::int64_t events, const auto& work) {
  const Nanoseconds start = processor_time();
  work();
  return static_cast<double>(events) / (processor_time() - start).seconds();
}

// The memory peak of this process, mapped file pages included.
std::int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return 1024 * std::stoll(line.substr(6));
  return 0;
}

// Runs `work` in a child process and returns its exit status.
int in_child(const auto& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int failed = work();
    std::fflush(nullptr);
    ::_exit(failed);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}

int measure(const Storm& storm, std::int64_t events, const std::filesystem::path& path) {
  auto recording = recording::Recording::open(path);
  if (!recording) {
    fmt::print(stderr, "{}\n", recording.error().sentence());
    return 1;
  }
  // The best of three runs, because caches are shared with other work.
  double decoding = 0, analysing = 0;
  std::int64_t read = 0;
  for (int round = 0; round < 3; ++round) {
    read = 0;
    decoding = std::max(decoding, events_per_second(events, [&] {
                          recording->for_each_event([&](const MemoryEvent&) { ++read; });
                        }));
    analysing = std::max(analysing,
                         events_per_second(events, [&] { attribution::analyze_recording(*recording, {}); }));
  }
  fmt::print(
      "{:<26} {:>4.1f} bytes/event   decode {:>6.1f} M events/s   analysis {:>6.1f} M events/s   "
      "analyser's memory {:>9} (recording {})\n",
      storm.name, static_cast<double>(recording->info().file_bytes) / static_cast<double>(read),
      decoding * 1e-6, analysing * 1e-6, format_bytes({peak_resident_bytes()}),
      format_bytes({static_cast<std::int64_t>(recording->info().file_bytes)}));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Storm storms[] = {Storm{"4096 live"}, Storm{"4096 live, 30 layers", 4096, 1, 30},
                          Storm{"4096 live each, 2 threads", 4096, 2, 0}, Storm{"1 M live", 1 << 20},
                          Storm{"4096 live samples", 4096, 1, 0, true}};
  const auto events = argc > 1 ? headroom::parse_number<std::int64_t>(argv[1]) : 20'000'000;
  const auto only = argc > 2 ? headroom::parse_number<std::size_t>(argv[2]) : 0;
  if (!events || *events < 1 || !only || *only > std::size(storms)) {
    fmt::print(stderr, "usage: analysis_benchmark [EVENTS [STORM]]\n");
    return 2;
  }
  const headroom::test::TemporaryFolder folder;
  const auto path = folder.path() / "storm.hrec";
  for (std::size_t i = 0; i < std::size(storms); ++i) {
    if (*only != 0 && *only != i + 1) continue;
    if (in_child([&] { return make_recording(path, storms[i], *events).empty() ? 1 : 0; }) != 0) return 1;
    if (in_child([&] { return measure(storms[i], *events, path); }) != 0) return 1;
  }
  return 0;
}
