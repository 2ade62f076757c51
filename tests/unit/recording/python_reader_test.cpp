// Proves that docs/recording-format.md is sufficient: a reader in Python, written from this document with
// only the standard library, gives the same results as the C++ reader.
#include <fcntl.h>

#include <array>
#include <cmath>
#include <map>
#include <random>

#include "base/json.h"
#include "base/subprocess.h"
#include "unit/recording/events.h"

namespace headroom::recording {
namespace {

using test::OwnRecording;
using test::RecordingBuilder;
using test::RecordingOptions;
using testing::ElementsAre;

bool python_is_here() { return std::system("python3 -c '' 2>/dev/null") == 0; }

Json python_reads(const std::filesystem::path& recording, const std::filesystem::path& answer) {
  const UniqueFd out(::open(answer.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  SpawnOptions options;
  options.command = {"python3", test::source_path("tests/golden/read_recording.py"), recording.string()};
  options.stdout_fd = out.get();
  auto child = Subprocess::spawn(options);
  EXPECT_TRUE(child.has_value() && child->wait().success());
  auto document = parse_json(test::read_text(answer));
  return document ? *document : Json();
}

// Live bytes by all samples, and by each half of them.
using ByHalf = std::array<std::int64_t, 3>;

ByHalf bytes_of(const MemoryEvent& event) {
  const auto size = static_cast<double>(event.size);
  if (event.kind != MemoryEventKind::sampled_allocate) {
    const auto bytes = static_cast<std::int64_t>(event.size);
    return {bytes, bytes, bytes};
  }
  const double half_weight = event.weight * (1 + std::sqrt(1 - 1 / event.weight));
  const std::int64_t in_half = std::llround(size * half_weight);
  return {std::llround(size * event.weight), event.half == SampleHalf::b ? 0 : in_half,
          event.half == SampleHalf::a ? 0 : in_half};
}

// The middle of the first interval in which half A has its maximum, and half B's value there.
std::pair<std::int64_t, std::int64_t> peak_of_halves(const std::map<std::int64_t, ByHalf>& live_at,
                                                     std::int64_t end) {
  std::int64_t highest = -1, from = 0, to = 0;
  for (auto it = live_at.begin(); it != live_at.end();) {
    const std::int64_t level = it->second[1], since = it->first;
    while (it != live_at.end() && it->second[1] == level) ++it;
    if (level <= highest) continue;
    highest = level;
    from = since;
    to = it == live_at.end() ? end + 1 : it->first;
  }
  const std::int64_t moment = from + (to - from) / 2;
  return {moment, std::prev(live_at.upper_bound(moment))->second[2]};
}

struct Figures {
  std::int64_t events = 0, allocations = 0, deallocations = 0, allocated_bytes = 0, gap_events = 0;
  std::int64_t live_bytes = 0, peak_bytes = 0;
  double peak_seconds = 0;
  std::map<std::uint64_t, ByHalf> live;
  std::map<std::string, std::int64_t> bytes_by_scope;
};

Figures figures_of(Recording& recording) {
  Figures figures;
  bool sampled = false;
  ByHalf now{};
  std::map<std::int64_t, ByHalf> live_at{{0, now}};  // after the last event of each time
  std::int64_t end = 0;
  const auto change = [&](const ByHalf& by, std::int64_t sign) {
    for (std::size_t i = 0; i < now.size(); ++i) now[i] += sign * by[i];
    live_at[end] = now;
  };
  const auto count = [&](const MemoryEvent& event, std::uint64_t allocations) {
    figures.allocations += static_cast<std::int64_t>(allocations);
    figures.allocated_bytes += static_cast<std::int64_t>(event.size);
    figures.bytes_by_scope[recording.path_of(event.scope)] += static_cast<std::int64_t>(event.size);
  };
  recording.for_each_event([&](const MemoryEvent& event) {
    end = event.time.count;
    figures.events += event.kind != MemoryEventKind::release_counters;  // part of the counters record
    switch (event.kind) {
      case MemoryEventKind::allocate:
      case MemoryEventKind::sampled_allocate: {
        ByHalf& block = figures.live[event.address];
        change(block, -1);
        block = bytes_of(event);
        change(block, 1);
        count(event, 1);
        sampled = sampled || event.weight != 1;
        if (now[0] > figures.peak_bytes) {
          figures.peak_bytes = now[0];
          figures.peak_seconds = event.time.seconds();
        }
        break;
      }
      case MemoryEventKind::release:
        ++figures.deallocations;
        if (const auto block = figures.live.find(event.address); block != figures.live.end()) {
          change(block->second, -1);
          figures.live.erase(block);
        }
        break;
      case MemoryEventKind::counters:
        count(event, event.count);
        break;
      case MemoryEventKind::release_counters:
        figures.deallocations += static_cast<std::int64_t>(event.count);
        break;
      case MemoryEventKind::gap:
        figures.gap_events += static_cast<std::int64_t>(event.count);
        break;
      default:
        break;
    }
  });
  figures.live_bytes = now[0];
  if (sampled) {
    const auto [moment, bytes] = peak_of_halves(live_at, end);
    figures.peak_bytes = bytes;
    figures.peak_seconds = Nanoseconds{moment}.seconds();
  }
  return figures;
}

void expect_same(Recording& recording, const Json& python) {
  const Figures figures = figures_of(recording);
  EXPECT_EQ(get_integer(python, "events"), figures.events);
  EXPECT_EQ(get_integer(python, "allocations"), figures.allocations);
  EXPECT_EQ(get_integer(python, "deallocations"), figures.deallocations);
  EXPECT_EQ(get_integer(python, "total_allocated_bytes"), figures.allocated_bytes);
  EXPECT_EQ(get_integer(python, "gap_events"), figures.gap_events);
  EXPECT_EQ(get_integer(python, "peak_bytes"), figures.peak_bytes);
  EXPECT_NEAR(*get_number(python, "peak_time_seconds"), figures.peak_seconds, 1e-8);
  EXPECT_EQ(get_integer(python, "leaked_bytes"), figures.live_bytes);
  EXPECT_EQ(get_integer(python, "leaked_blocks"), static_cast<std::int64_t>(figures.live.size()));
  EXPECT_EQ(get_integer(python, "stacks"), static_cast<std::int64_t>(recording.stacks().size()) - 1);
  EXPECT_EQ(get_integer(python, "dropped_events"),
            static_cast<std::int64_t>(recording.info().events_dropped));
  EXPECT_EQ(get_member(python, "command"), Json(recording.info().command));
  EXPECT_EQ(get_bool(python, "closed"), recording.info().closed);
  const Json& scopes = get_member(python, "bytes_by_scope");
  EXPECT_EQ(scopes.size(), figures.bytes_by_scope.size());
  for (const auto& [path, bytes] : figures.bytes_by_scope)
    EXPECT_EQ(get_integer(scopes, path), bytes) << path;
}

// All kinds of records, many threads and segments, and reused addresses.
std::filesystem::path busy_recording(const std::filesystem::path& path, RecordingOptions options) {
  options.segment_bytes = 16 << 10;
  options.time_shift = 3;
  options.nanoseconds_per_tick = 0.4;
  RecordingBuilder builder(path, options);
  const auto session = builder.scope("session", 0, ScopeSource::session);
  const std::vector<std::uint32_t> scopes{0, session, builder.scope("conv1", session, ScopeSource::node),
                                          builder.scope("größe", session, ScopeSource::node)};
  const std::uint32_t weights = builder.scope(kWeightsScope, scopes[2], ScopeSource::weights);
  builder.thread(0, 100, "main");
  builder.module("/usr/lib/libc.so.6", std::string("\x01\xfe", 2), 0x7000, 0x9000, 0x7000);
  std::mt19937_64 random(20261121);
  std::vector<std::uint64_t> live;
  std::uint64_t time = 0;
  for (int i = 0; i < 20'000; ++i) {
    time += random() % 60;
    const auto thread = static_cast<std::uint32_t>(random() % 5);
    if (i % 97 == 0) builder.enter_scope(thread, time, scopes[random() % scopes.size()]);
    if (i % 501 == 0) builder.counters(thread, time, scopes[random() % scopes.size()], 10, 500, 9);
    if (i % 701 == 0) builder.map(thread, time, (1ULL << 46) + (random() % 100) * 4096, 8192, {0x70, 0x71});
    if (i % 907 == 0) builder.reserve(thread, time, (1ULL << 45) + (random() % 100) * 4096, 1 << 20, {0x72});
    if (i % 911 == 0) builder.make_accessible(thread, time, 1ULL << 45, 4096, {0x73, 0x71});
    if (i % 301 == 0 && !live.empty()) builder.weight(thread, time, live[random() % live.size()], weights);
    if (i % 703 == 0) builder.unmap(thread, time, 1ULL << 46, 4096);
    if (i % 5003 == 0) builder.gap(thread, time, 17);
    const bool allocate = live.size() < 10 || (live.size() < 300 && random() % 2 == 0);
    if (!allocate) {
      std::swap(live[random() % live.size()], live.back());
      builder.release(thread, ++time, live.back());
      live.pop_back();
      continue;
    }
    const std::uint64_t address = 0x500000000000 + (random() % 4096) * 64;
    if (std::find(live.begin(), live.end(), address) != live.end()) continue;
    live.push_back(address);
    const RecordingBuilder::Frames stack{0x7000 + random() % 50, 0x8000 + random() % 3, 0x9000};
    if (!options.full && random() % 3 == 0)
      builder.sample(thread, time, address, 16 + random() % 2000, stack);
    else
      builder.allocate(thread, time, address, random() % 100'000, stack);
  }
  // Counts after the last record, as a killed process leaves them.
  if (!options.full) builder.count(1, time, 7, 700, 3);
  return builder.finish();
}

class PythonReader : public testing::TestWithParam<const char*> {};

TEST_P(PythonReader, AgreesWithTheCppReader) {
  if (!python_is_here()) GTEST_SKIP() << test::absent_message("python3");
  const std::string kind = GetParam();
  test::TemporaryFolder folder;
  RecordingOptions options{.full = kind != "sampled", .ring = kind == "ring"};
  if (kind == "ring" || kind == "limit") options.segments_limit = 6;
  const auto path = busy_recording(folder / "a.hrec", options);
  if (kind == "killed") std::filesystem::resize_file(path, std::filesystem::file_size(path) * 2 / 3);
  Recording recording = Recording::open(path).value();
  expect_same(recording, python_reads(path, folder / "answer.json"));
}

TEST(PythonReaderOfDevices, AgreesWithTheCppReader) {
  if (!python_is_here()) GTEST_SKIP() << test::absent_message("python3");
  OwnRecording builder;
  DeviceRecord record{};
  record.total_bytes = 1 << 30;
  record.limit_bytes = 1 << 20;
  record.flags = kDeviceLimited | kDeviceIntegrated;
  builder.device(1, record, "A GPU");
  builder.device_allocate(0, 10, 1, DeviceMemoryKind::device, 0x7f0000000200, 5000, {0x10, 0x20});
  builder.device_allocate(1, 11, 1, DeviceMemoryKind::pinned_host, 0x7f0000000201, 300);
  builder.device_allocate(0, 12, 1, DeviceMemoryKind::mapping, 0x7f0000000200, 70'000);
  builder.device_refused(0, 13, 1, DeviceMemoryKind::managed, 9000, 5300, 1 << 20, {0x30});
  builder.device_holder(0, 13, 1, 4711, 6000);
  builder.device_release(1, 14, 1, DeviceMemoryKind::device, 0x7f0000000200);
  builder.device_figure(0, 15, 1, DeviceMemoryKind::pool_reserved, 2 << 20);
  builder.allocate(0, 16, 0x1000, 64);
  const auto path = builder.finish();
  const Json python = python_reads(path, builder.folder / "answer.json");
  const Json& device = get_member(get_member(python, "devices"), "1");
  EXPECT_EQ(get_text(device, "name"), "A GPU");
  EXPECT_EQ(get_integer(device, "limit_bytes"), 1 << 20);
  EXPECT_EQ(get_bool(device, "integrated"), true);
  EXPECT_EQ(get_integer(device, "peak_bytes"), 5300);
  EXPECT_EQ(get_integer(device, "live_bytes"), 300);
  EXPECT_EQ(get_integer(device, "live_blocks"), 2);
  EXPECT_EQ(get_integer(device, "refused_bytes"), 9000);
  EXPECT_EQ(get_integer(get_member(device, "holders"), "4711"), 6000);
  EXPECT_EQ(get_integer(get_member(device, "figures"), "11"), 2 << 20);
  Recording recording = Recording::open(path).value();
  expect_same(recording, python);
}

INSTANTIATE_TEST_SUITE_P(Recordings, PythonReader,
                         testing::Values("full", "sampled", "ring", "limit", "killed"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace headroom::recording
