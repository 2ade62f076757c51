// A hundred threads that start and end (benchmarks/trace_stress.cpp): the recording must match exactly what
// they did. Runs for TRACE_STRESS_SECONDS (default 5) and prints its figures on standard output.
#include <unordered_map>

#include "base/json.h"
#include "unit/preload/traced_program.h"

namespace headroom::test {
namespace {

struct Figures {
  std::int64_t threads = 0, allocations = 0, releases = 0, bytes = 0;
  std::uint64_t squares = 0;
};

bool is_of_program(std::uint64_t size) { return size % 16 == 9 && size >= 41 && size < 16 * 703; }

// Computed while reading: a minute's recording does not fit in memory.
struct Recorded : Figures {
  std::uint64_t events = 0, live_twice = 0, live_at_end = 0, file_bytes = 0, segments = 0;
};
Recorded count_recorded(const std::filesystem::path& path) {
  Recorded result;
  auto recording = recording::Recording::open(path);
  EXPECT_TRUE(recording) << recording.error().sentence();
  if (!recording) return result;
  std::unordered_map<std::uint64_t, std::uint64_t> live;
  recording->for_each_event([&](const MemoryEvent& event) {
    ++result.events;
    if (event.kind == MemoryEventKind::allocate) {
      if (!live.emplace(event.address, event.size).second) ++result.live_twice;
      if (!is_of_program(event.size)) return;
      ++result.allocations;
      result.bytes += static_cast<std::int64_t>(event.size);
      result.squares += event.size * event.size;
    } else if (event.kind == MemoryEventKind::release) {
      const auto found = live.find(event.address);
      if (found == live.end()) return;
      if (is_of_program(found->second)) ++result.releases;
      live.erase(found);
    }
  });
  for (const auto& [address, size] : live) result.live_at_end += is_of_program(size);
  EXPECT_THAT(recording->problems(), testing::IsEmpty());
  EXPECT_TRUE(recording->info().closed);
  EXPECT_EQ(recording->info().events_dropped, 0u);
  result.threads = static_cast<std::int64_t>(recording->info().threads.size());
  result.file_bytes = recording->info().file_bytes;
  result.segments = recording->info().segments;
  return result;
}

TEST(TraceStress, RecordsAHundredShortLivedThreadsToTheByte) {
  const char* seconds = std::getenv("TRACE_STRESS_SECONDS");
  TracedProgram traced("full=1");
  const ProgramRun run =
      traced.run({program_path("trace_stress"), seconds != nullptr ? seconds : "5", "100"});
  ASSERT_TRUE(run.status.success()) << run.output;
  const auto truth = parse_json(run.output);
  ASSERT_TRUE(truth) << run.output;
  EXPECT_EQ(get_integer(*truth, "broken"), 0) << "the program's bytes have changed";
  const Recorded recorded = count_recorded(traced.root_path());
  EXPECT_EQ(recorded.allocations, get_integer(*truth, "allocations"));
  EXPECT_EQ(recorded.releases, get_integer(*truth, "releases"));
  EXPECT_EQ(recorded.bytes, get_integer(*truth, "bytes"));
  EXPECT_EQ(recorded.squares, get_member(*truth, "squares").get<std::uint64_t>());
  EXPECT_EQ(recorded.live_twice, 0u);
  EXPECT_EQ(recorded.live_at_end, 0u);
  EXPECT_EQ(recorded.threads, get_integer(*truth, "threads").value_or(0) + 1)
      << "every thread and the main one";
  std::printf("did %srecorded %llu events of %lld threads in %llu segments, %llu bytes\n", run.output.c_str(),
              static_cast<unsigned long long>(recorded.events), static_cast<long long>(recorded.threads),
              static_cast<unsigned long long>(recorded.segments),
              static_cast<unsigned long long>(recorded.file_bytes));
}

}  // namespace
}  // namespace headroom::test
