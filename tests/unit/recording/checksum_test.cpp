// A changed bit of a recording is reported, wherever it is. Nothing is reported if no bit was changed.
#include "recording/encoding.h"

#include <cstring>
#include <random>
#include <tuple>

#include "unit/recording/events.h"

namespace headroom::recording {
namespace {

namespace fs = std::filesystem;
using test::OwnRecording;
using test::RecordingBuilder;
using test::RecordingOptions;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::uint32_t kSegmentSize = 4096, kMetadataSize = 2048;
constexpr std::size_t kFirstSegment = kHeaderBytes + kMetadataSize;

// Three threads. Each fills segments and leaves one open.
void fill(RecordingBuilder& builder) {
  const auto scope = builder.scope("layer");
  builder.thread(0, 1, "main");
  builder.thread(1, 2, "worker");
  builder.module("/lib/x.so", "id", 0x1000, 0x2000, 0);
  for (std::uint64_t time = 1; time < 1200; ++time) {
    const auto thread = static_cast<std::uint32_t>(time % 3);
    if (time % 50 == 0) builder.enter_scope(thread, time, scope);
    builder.allocate(thread, time, 0x1000 * time, time, {0x10 + time % 5, 0x10});
    if (time > 10) builder.release(thread, time, 0x1000 * (time - 10));
  }
  builder.count(2, 1200, 7, 700, 3);
}

RecordingOptions checksum_options() {
  return {.segment_bytes = kSegmentSize, .metadata_bytes = kMetadataSize};
}

std::string recording_bytes(const fs::path& path, const RecordingOptions& options) {
  RecordingBuilder builder(path, options);
  fill(builder);
  return test::read_text(builder.finish());
}

// Everything that a report could show about a recording.
struct ChecksumFigures {
  std::vector<std::tuple<int, std::int64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t,
                         std::string, std::vector<std::uint64_t>>>
      events;
  std::vector<std::string> threads, modules, command;
  std::int64_t started = 0, duration = 0;
  friend bool operator==(const ChecksumFigures&, const ChecksumFigures&) = default;
};

struct Look {
  bool is_error = false, is_whole = false;
  std::vector<std::string> problems;
  ChecksumFigures figures;
};

Look look_at(const fs::path& path) {
  auto recording = Recording::open(path);
  if (!recording) return {true, false, {}, {}};
  Look seen;
  std::uint64_t gaps = 0;
  recording->for_each_event([&](const MemoryEvent& event) {
    gaps += event.kind == MemoryEventKind::gap ? 1 : 0;
    const auto frames = recording->stacks().frames(event.stack);
    seen.figures.events.emplace_back(static_cast<int>(event.kind), event.time.count, event.address,
                                     event.size, event.count, event.thread.index,
                                     recording->path_of(event.scope),
                                     std::vector<std::uint64_t>(frames.begin(), frames.end()));
  });
  const RecordingInfo& info = recording->info();
  for (const Thread& thread : info.threads) seen.figures.threads.push_back(thread.name);
  for (const Module& module : info.modules) seen.figures.modules.push_back(module.path + module.build_id);
  seen.figures.command = info.command;
  seen.figures.started = info.started_realtime_ns;
  seen.figures.duration = info.duration.count;
  seen.problems = recording->problems();
  // The same rule as in the analysis.
  seen.is_whole = info.closed && info.events_dropped == 0 && gaps == 0 && info.segments_overwritten == 0 &&
                  seen.problems.empty();
  return seen;
}

std::vector<std::string> problems_of(const fs::path& path, const std::string& bytes) {
  test::write_text(path, bytes);
  return look_at(path).problems;
}

std::uint64_t claimed_in(const std::string& bytes) {
  return get<std::uint64_t>(bytes, offsetof(FileHeader, segments_claimed));
}

// The published test values of XXH64: any XXH64 library can verify a recording.
TEST(Checksum, IsXxh64) {
  EXPECT_EQ(checksum("", 0, 0), 0xef46db3751d8e999U);
  EXPECT_EQ(checksum("a", 1, 0), 0xd24ec4f1a98c6e5bU);
  EXPECT_EQ(checksum("abc", 3, 0), 0x44bc2cf5ad770999U);
  constexpr std::string_view kLong = "Nobody inspects the spammish repetition";
  EXPECT_EQ(checksum(kLong.data(), kLong.size(), 0), 0xfbcea83c8a378bf1U);
}

TEST(Checksum, FindsNoProblemInAnIntactRecording) {
  test::TemporaryFolder folder;
  for (const bool ring : {false, true})
    for (const bool closed : {true, false})
      for (const bool checksums : {true, false}) {
        RecordingOptions options = checksum_options();
        options.ring = ring;
        options.closed = closed;
        options.checksums = checksums;
        if (ring) options.segments_limit = 4;
        recording_bytes(folder / "a.hrec", options);
        EXPECT_THAT(look_at(folder / "a.hrec").problems, IsEmpty())
            << "ring " << ring << ", closed " << closed << ", checksums " << checksums;
      }
}

// In every part of a closed recording, a flipped bit must give an error, a problem, or the same figures.
TEST(Checksum, ReportsFlippedBitsThatChangeFigures) {
  test::TemporaryFolder folder;
  const fs::path path = folder / "a.hrec";
  const std::string good = recording_bytes(path, checksum_options());
  const Look whole = look_at(path);
  ASSERT_TRUE(whole.is_whole);
  const std::uint64_t segments = claimed_in(good);
  ASSERT_GE(segments, 6U);  // full ones and open ones
  const auto metadata_used = get<std::uint64_t>(good, offsetof(FileHeader, metadata_used));

  std::mt19937 random(20261122);
  std::size_t errors = 0, figures = 0, same = 0;
  const auto flip = [&](std::size_t at, unsigned bit) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
    test::write_text(path, bytes);
    const Look seen = look_at(path);
    if (seen.is_error)
      ++errors;
    else if (!seen.is_whole)
      ++figures;
    else if (seen.figures == whole.figures)
      ++same;
    else
      ADD_FAILURE() << "bit " << bit << " of byte " << at << " changes figures silently";
  };
  for (std::size_t at = 0; at < sizeof(FileHeader); ++at)
    for (unsigned bit = at % 2; bit < 8; bit += test::kIsSlowBuild ? 8 : 2) flip(at, bit);
  for (int i = 0; i < test::repetitions(200); ++i)
    flip(kHeaderBytes + random() % metadata_used, static_cast<unsigned>(random() % 8));
  for (std::uint64_t segment = 0; segment < segments; ++segment) {
    const std::size_t begin = kFirstSegment + segment * kSegmentSize;
    for (std::size_t bit = 0; bit < sizeof(SegmentHeader) * 8;
         bit += 1 + random() % (test::kIsSlowBuild ? 200 : 20))
      flip(begin + bit / 8, static_cast<unsigned>(bit % 8));
    std::uint32_t committed = 0;
    std::memcpy(&committed, good.data() + begin + offsetof(SegmentHeader, committed), sizeof committed);
    for (int i = 0; i < test::repetitions(30); ++i)
      flip(begin + sizeof(SegmentHeader) + random() % committed, static_cast<unsigned>(random() % 8));
  }
  // Check that the flips reached the important parts.
  EXPECT_GT(figures, test::kIsSlowBuild ? 50U : 500U) << errors << " errors, " << same << " without effect";
}

TEST(Checksum, NamesTheDamagedPart) {
  test::TemporaryFolder folder;
  const std::string good = recording_bytes(folder / "a.hrec", checksum_options());
  const auto flipped = [&](std::size_t at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    return problems_of(folder / "b.hrec", bytes);
  };
  EXPECT_THAT(
      flipped(offsetof(FileHeader, pid)),
      ElementsAre(HasSubstr("the file's header does not match its checksum: it was changed or cut off")));
  EXPECT_THAT(flipped(offsetof(FileHeader, segment_bytes) + 3), Contains(HasSubstr("the file's header")));
  EXPECT_THAT(flipped(good.find("/lib/x.so")), ElementsAre(HasSubstr("names and modules")));
  EXPECT_THAT(flipped(kFirstSegment + offsetof(SegmentHeader, counted_bytes)),
              ElementsAre(HasSubstr("segment 0 of thread 1 (worker) does not match its checksum")));
  const std::size_t last = kFirstSegment + (claimed_in(good) - 1) * kSegmentSize;
  EXPECT_THAT(flipped(last + offsetof(SegmentHeader, base_time)),
              Contains(HasSubstr("differs from its sealed copy")));
  // A killed process leaves checksums of full segments, but none of the open ones.
  RecordingOptions options = checksum_options();
  options.closed = false;
  std::string killed = recording_bytes(folder / "a.hrec", options);
  killed[kFirstSegment + 100] = static_cast<char>(killed[kFirstSegment + 100] ^ 32);
  EXPECT_THAT(problems_of(folder / "b.hrec", killed), Contains(HasSubstr("segment 0 of thread 1")));
}

// Records that a thread writes after the end of the recording are not covered by the checksum, but are read.
TEST(Checksum, ReadsRecordsAfterTheEnd) {
  OwnRecording builder(checksum_options());
  builder.allocate(0, 10, 0x1000, 8);
  std::string bytes = test::read_text(builder.finish());
  const std::size_t committed_at = kFirstSegment + offsetof(SegmentHeader, committed);
  const auto committed = get<std::uint32_t>(bytes, committed_at);
  bytes[kFirstSegment + sizeof(SegmentHeader) + committed] = static_cast<char>(kTagRelease);
  bytes[committed_at] = static_cast<char>(committed + 2);
  test::write_text(builder.folder / "a.hrec", bytes);
  const Look seen = look_at(builder.folder / "a.hrec");
  EXPECT_TRUE(seen.is_whole);
  EXPECT_EQ(seen.figures.events.size(), 2U);
}

}  // namespace
}  // namespace headroom::recording
