// The summary that is added up while a program runs equals the analysis of the whole recording.
#include "attribution/heap_summary.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>

#include "base/files.h"
#include "recording/recording_follower.h"
#include "unit/attribution/analyze.h"
#include "unit/attribution/random_events.h"

namespace headroom::attribution {
namespace {

namespace fs = std::filesystem;
using recording::FileHeader;
using recording::SegmentHeader;

// A recording that grows before the follower's eyes: a copy whose headers show only the events up to a time.
class GrowingCopy {
 public:
  explicit GrowingCopy(const fs::path& path)
      : bytes_(fs::file_size(path)), fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    memory_ =
        static_cast<std::uint8_t*>(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
    flags_ = header().flags.load();
    claimed_ = header().segments_claimed.load();
    for (std::uint64_t slot = 0; slot < claimed_; ++slot) segments_.push_back(boundaries_of(slot));
    grow_to(0);
  }
  ~GrowingCopy() { ::munmap(memory_, bytes_); }
  GrowingCopy(const GrowingCopy&) = delete;
  GrowingCopy& operator=(const GrowingCopy&) = delete;

  std::uint64_t end_time() const { return end_time_; }
  void grow_to(std::uint64_t time) {
    header().flags.store(time >= end_time_ ? flags_
                                           : flags_ & ~(recording::kFlagClosed | recording::kFlagSealed));
    header().last_ticks.store(header().first_ticks + time);
    std::uint64_t claimed = 0;
    for (std::uint64_t slot = 0; slot < claimed_; ++slot) {
      const Segment& segment = segments_[slot];
      std::uint32_t committed = 0;
      for (const auto& [at, offset] : segment.boundaries)
        if (at <= time) committed = offset;
      header_of(slot).committed.store(committed);
      header_of(slot).checksum.store(committed == segment.boundaries.back().second ? segment.checksum : 0);
      if (committed > 0) claimed = slot + 1;
    }
    header().segments_claimed.store(claimed);
  }

 private:
  struct Segment {
    std::vector<std::pair<std::uint64_t, std::uint32_t>> boundaries;  // time of an event, end of its record
    std::uint32_t checksum = 0;
  };

  FileHeader& header() { return *reinterpret_cast<FileHeader*>(memory_); }
  SegmentHeader& header_of(std::uint64_t slot) {
    return *reinterpret_cast<SegmentHeader*>(memory_ + recording::kHeaderBytes + header().metadata_bytes +
                                             slot * header().segment_bytes);
  }
  Segment boundaries_of(std::uint64_t slot) {
    const SegmentHeader& written = header_of(slot);
    recording::SegmentSpan span{};
    span.base_time = written.base_time;
    span.begin = reinterpret_cast<const std::uint8_t*>(&written) + sizeof written;
    span.end = span.begin + written.committed.load();
    recording::SampleWeights weights(0);
    recording::SegmentDecoder decoder(span, {}, weights, 0, nullptr);
    Segment segment;
    segment.checksum = written.checksum.load();
    while (decoder.advance()) {
      segment.boundaries.emplace_back(decoder.next_time(), static_cast<std::uint32_t>(decoder.offset()));
      end_time_ = std::max(end_time_, decoder.next_time());
    }
    segment.boundaries.emplace_back(end_time_, written.committed.load());
    return segment;
  }

  std::size_t bytes_;
  UniqueFd fd_;
  std::uint8_t* memory_;
  std::uint32_t flags_;
  std::uint64_t claimed_, end_time_ = 0;
  std::vector<Segment> segments_;
};

void expect_equal(const RecordingAnalysis& summary, const RecordingAnalysis& analysis) {
  EXPECT_EQ(summary.events, analysis.events);
  EXPECT_EQ(summary.allocations, analysis.allocations);
  EXPECT_EQ(summary.deallocations, analysis.deallocations);
  EXPECT_EQ(summary.total_allocated_bytes, analysis.total_allocated_bytes);
  EXPECT_EQ(summary.unknown_releases, analysis.unknown_releases);
  EXPECT_EQ(summary.missed_releases, analysis.missed_releases);
  EXPECT_EQ(summary.unseen_blocks, analysis.unseen_blocks);
  EXPECT_EQ(summary.dropped_events, analysis.dropped_events);
  EXPECT_EQ(summary.complete, analysis.complete);
  EXPECT_EQ(summary.problems, analysis.problems);
  EXPECT_EQ(summary.peak_bytes.value, analysis.peak_bytes.value);
  EXPECT_EQ(summary.peak_blocks.value, analysis.peak_blocks.value);
  EXPECT_EQ(summary.peak_time, analysis.peak_time);
  EXPECT_EQ(summary.leaked_bytes.value, analysis.leaked_bytes.value);
  EXPECT_EQ(summary.leaked_blocks.value, analysis.leaked_blocks.value);
  EXPECT_EQ(summary.mapped.peak_bytes, analysis.mapped.peak_bytes);
  EXPECT_EQ(summary.mapped.peak_time, analysis.mapped.peak_time);
  EXPECT_EQ(summary.mapped.end_bytes, analysis.mapped.end_bytes);
  EXPECT_EQ(summary.mapped.bytes_at_heap_peak, analysis.mapped.bytes_at_heap_peak);
  ASSERT_EQ(summary.layers.size(), analysis.layers.size());
  for (std::size_t i = 0; i < summary.layers.size(); ++i) {
    EXPECT_EQ(summary.layers[i].path, analysis.layers[i].path);
    EXPECT_EQ(summary.layers[i].self.peak_bytes, analysis.layers[i].self.peak_bytes)
        << summary.layers[i].path;
  }
  ASSERT_EQ(summary.mapped.layers.size(), analysis.mapped.layers.size());
  for (const MappingShare& share : summary.mapped.layers)
    EXPECT_NE(std::ranges::find(analysis.mapped.layers, share), analysis.mapped.layers.end());
}

// Follows the recording in this many steps of time; 0: reads it at once.
std::optional<RecordingAnalysis> summary_in_steps(const fs::path& path, std::uint64_t steps) {
  std::optional<GrowingCopy> growing;
  if (steps > 0) growing.emplace(path);
  auto follower = recording::RecordingFollower::open(path);
  if (!follower) return std::nullopt;
  HeapSummary summary(follower->page_bytes());
  const auto visit = [&](const MemoryEvent& event) { summary.visit(event); };
  for (std::uint64_t i = 1; i <= steps; ++i) {
    growing->grow_to(growing->end_time() * i / steps);
    if (!follower->read(visit, false)) return std::nullopt;
  }
  if (!follower->read(visit, true)) return std::nullopt;
  summary.end();
  growing.reset();
  return summary.finish(recording::Recording::open(path).value());
}

class HeapSummaryTest : public testing::TestWithParam<unsigned> {};

TEST_P(HeapSummaryTest, EqualsTheAnalysis) {
  test::TemporaryFolder folder;
  test::RecordingBuilder builder(folder / "a.hrec", kOfRandomEvents);
  add_random_events(builder, GetParam(), true);
  const fs::path path = builder.finish();
  recording::Recording recording = recording::Recording::open(path).value();
  const RecordingAnalysis analysis = analyze_recording(recording, {});
  for (const std::uint64_t steps : {0, 3, 100}) {
    const auto summary = summary_in_steps(path, steps);
    ASSERT_TRUE(summary) << steps;
    expect_equal(*summary, analysis);
  }
}

INSTANTIATE_TEST_SUITE_P(RandomEvents, HeapSummaryTest, testing::Range(1U, 9U));

TEST(HeapSummary, GivesUpWhenAnEventComesTooLate) {
  test::TemporaryFolder folder;
  test::RecordingBuilder builder(folder / "a.hrec", {});
  builder.allocate(0, 10, 0x1000, 8);
  builder.allocate(1, 20, 0x2000, 8);
  builder.allocate(1, 3'000, 0x3000, 8);
  const fs::path path = builder.finish();
  GrowingCopy growing(path);
  growing.grow_to(3'000);
  auto follower = recording::RecordingFollower::open(path);
  ASSERT_TRUE(follower);
  const auto ignore = [](const MemoryEvent&) {};
  EXPECT_TRUE(follower->read(ignore, true));
  // Another thread writes an event of the past.
  test::RecordingBuilder late(folder / "b.hrec", {});
  late.allocate(0, 10, 0x1000, 8);
  late.allocate(1, 20, 0x2000, 8);
  late.allocate(1, 3'000, 0x3000, 8);
  late.allocate(2, 15, 0x4000, 8);
  const fs::path other = late.finish();
  std::ifstream bytes(other, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(bytes), {}};
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  EXPECT_FALSE(follower->read(ignore, true));
}

TEST(HeapSummary, LeavesOtherModesToTheAnalysis) {
  test::TemporaryFolder folder;
  test::RecordingBuilder sampled(folder / "a.hrec", {.full = false});
  sampled.allocate(0, 10, 0x1000, 8192);
  EXPECT_FALSE(summary_in_steps(sampled.finish(), 0));
  test::RecordingBuilder ring(folder / "b.hrec", {.ring = true});
  ring.allocate(0, 10, 0x1000, 8);
  EXPECT_FALSE(summary_in_steps(ring.finish(), 0));
  test::RecordingBuilder gpu(folder / "c.hrec", {});
  gpu.device_allocate(0, 10, 0, DeviceMemoryKind::device, 0x1000, 4096);
  EXPECT_FALSE(summary_in_steps(gpu.finish(), 0));
}

}  // namespace
}  // namespace headroom::attribution
