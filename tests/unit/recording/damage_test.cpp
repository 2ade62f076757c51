// Recordings that were truncated, overwritten or have flipped bits: the reader returns an error, or a partial
// result that says so. It never crashes (the address sanitizer checks that).
#include <cstring>

#include "unit/recording/events.h"

namespace headroom::recording {
namespace {

namespace fs = std::filesystem;
using test::OwnRecording;
using test::RecordingBuilder;
using test::RecordingOptions;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::uint32_t kSmallSegment = 4096, kSmallMetadata = 1024;

// A small recording with all kinds of records, threads, stacks, scopes and modules.
std::string small_recording(const fs::path& path, RecordingOptions options = {}) {
  options.segment_bytes = kSmallSegment;
  options.metadata_bytes = kSmallMetadata;
  RecordingBuilder builder(path, options);
  const auto scope = builder.scope("layer");
  builder.thread(0, 1, "main");
  builder.module("/lib/x.so", "id", 0x1000, 0x2000, 0);
  for (std::uint64_t time = 1; time < 300; ++time) {
    const auto thread = static_cast<std::uint32_t>(time % 3);
    if (time % 50 == 0) builder.enter_scope(thread, time, scope);
    if (time % 60 == 0) builder.counters(thread, time, scope, 10, 100, 5);
    if (time % 70 == 0) builder.map(thread, time, 0x100000 * time, 4096);
    builder.allocate(thread, time, 0x1000 * time, time, {0x10 + time % 5, 0x10});
    if (time > 10) builder.release(thread, time, 0x1000 * (time - 10));
  }
  return test::read_text(builder.finish());
}

Seen read_bytes(const fs::path& path, const std::string& bytes) {
  test::write_text(path, bytes);
  return read_events(path);
}

std::string error_of(const fs::path& path, const std::string& bytes) {
  test::write_text(path, bytes);
  const auto recording = Recording::open(path);
  return recording ? "" : recording.error().sentence();
}

TEST(Damage, RejectsOtherFilesWithASentence) {
  test::TemporaryFolder folder;
  const std::string good = small_recording(folder / "good.hrec");
  const fs::path path = folder / "bad.hrec";
  EXPECT_FALSE(Recording::open(folder / "absent.hrec").has_value());
  EXPECT_FALSE(Recording::open(folder.path()).has_value());
  EXPECT_THAT(error_of(path, ""), HasSubstr("0 bytes"));
  EXPECT_THAT(error_of(path, std::string(10'000, 'x')), HasSubstr("not a Headroom recording"));
  std::string later = good;
  put(later, offsetof(FileHeader, version), kVersion + 1);
  EXPECT_THAT(error_of(path, later), HasSubstr("version 2"));
  std::string damaged = good;
  put(damaged, offsetof(FileHeader, segment_bytes), std::uint32_t{0});
  EXPECT_THAT(error_of(path, damaged), HasSubstr("damaged"));
}

TEST(Damage, ReadsTruncatedFilesOfEveryLength) {
  test::TemporaryFolder folder;
  const fs::path path = folder / "a.hrec";
  small_recording(path);
  const std::size_t whole = read_events(path).events.size();
  constexpr std::size_t kSegmentsBegin = kHeaderBytes + kSmallMetadata;
  for (std::size_t length = fs::file_size(path); length > 0; --length) {
    // In unused bytes (the rest of the header, zeros after the records), test only every 64th length.
    const std::size_t in_segment = length < kSegmentsBegin ? 0 : (length - kSegmentsBegin) % kSmallSegment;
    if ((length < kHeaderBytes || in_segment > 1500) && length % 64 != 0) continue;
    fs::resize_file(path, length);
    auto cut = Recording::open(path);
    EXPECT_EQ(cut.has_value(), length >= kHeaderBytes) << length;
    if (!cut) continue;
    const Seen seen = read_events(*cut);
    EXPECT_LE(seen.events.size(), whole);
    // Events are never lost silently.
    if (seen.events.size() < whole) {
      EXPECT_THAT(seen.problems, Not(IsEmpty())) << length;
    }
  }
}

// All records have the same size, so the number of events before a cut is known. The process was killed or
// ended, and the file was cut at each of its bytes.
TEST(Damage, KeepsEachEventBeforeTheCut) {
  constexpr std::size_t kEvents = 200;
  constexpr std::size_t kRecords = kHeaderBytes + kSmallMetadata + sizeof(SegmentHeader);
  for (const bool closed : {true, false}) {
    test::TemporaryFolder folder;
    const fs::path path = folder / "a.hrec";
    RecordingBuilder builder(
        path, {.closed = closed, .segment_bytes = kSmallSegment, .metadata_bytes = kSmallMetadata});
    builder.thread(0, 1, "main");
    for (std::uint64_t i = 1; i <= kEvents; ++i) builder.allocate(0, i, 0x1000 * i, 8);
    const std::string whole = test::read_text(builder.finish());
    const auto committed =
        get<std::uint32_t>(whole, kRecords - sizeof(SegmentHeader) + offsetof(SegmentHeader, committed));
    ASSERT_EQ(committed % kEvents, 0U);
    const std::size_t record = committed / kEvents;
    for (std::size_t length = kRecords + committed; length >= kHeaderBytes; --length) {
      fs::resize_file(path, length);
      const Seen seen = read_events(path);
      const std::size_t before = length < kRecords ? 0 : (length - kRecords) / record;
      ASSERT_EQ(seen.events.size(), before) << length;
      if (before > 0) {
        EXPECT_EQ(seen.events.back().address, 0x1000 * before);
      }
      if (before < kEvents) {
        ASSERT_THAT(seen.problems, Contains(HasSubstr("cut off"))) << length;
      }
    }
  }
}

// A killed process that recorded only names: no segment shows that the file was cut.
TEST(Damage, ReportsACutInTheNamesOfAKilledProcess) {
  test::TemporaryFolder folder;
  const fs::path path = folder / "a.hrec";
  RecordingBuilder builder(path, {.closed = false, .metadata_bytes = kSmallMetadata});
  for (std::uint32_t i = 0; i < 8; ++i) builder.thread(i, i, "worker");
  const std::string whole = test::read_text(builder.finish());
  const std::size_t names = kHeaderBytes + get<std::uint64_t>(whole, offsetof(FileHeader, metadata_used));
  EXPECT_THAT(read_bytes(path, whole).problems, IsEmpty());
  for (std::size_t length = kHeaderBytes; length < names; ++length)
    ASSERT_THAT(read_bytes(path, whole.substr(0, length)).problems, Contains(HasSubstr("cut off"))) << length;
}

// A thread that is killed between claiming metadata and filling it leaves zeros.
TEST(Damage, SkipsAHoleInTheMetadata) {
  OwnRecording builder;
  builder.metadata(MetadataKind::note, 0, "before");
  builder.metadata(MetadataKind::note, 0, "hidden, and long enough to hold a header of its own");
  builder.metadata(MetadataKind::note, 0, "after");
  std::string bytes = test::read_text(builder.finish());
  const std::size_t hidden = bytes.find("hidden") - sizeof(MetadataHeader);
  put(bytes, hidden, std::uint32_t{0});
  test::write_text(builder.folder / "hole.hrec", bytes);
  const auto recording = Recording::open(builder.folder / "hole.hrec");
  ASSERT_TRUE(recording.has_value());
  EXPECT_THAT(recording->info().notes, testing::ElementsAre("before", "after"));
  EXPECT_THAT(recording->problems(), Contains(HasSubstr("could not be read")));
}

// A header can claim 4 GiB of names, and a record can claim any id. Memory use depends on the file's size,
// not on these claims.
TEST(Damage, SmallFileNeedsLittleMemory) {
  OwnRecording builder({.metadata_bytes = kSmallMetadata});
  constexpr std::uint32_t kFarId = 0x0ffffff0;
  const std::string tid_and_name(12, 'x');
  builder.metadata(MetadataKind::thread, kFarId, tid_and_name);
  builder.metadata(MetadataKind::scope, kFarId, std::string(8, '\0') + "layer");
  builder.metadata(MetadataKind::thread, 1, tid_and_name);
  std::string bytes = test::read_text(builder.finish());
  put(bytes, offsetof(FileHeader, metadata_bytes), std::uint32_t{0xfffffff8});
  put(bytes, offsetof(FileHeader, metadata_used), std::uint64_t{0xfffffff8});
  bytes.resize(12 << 10);
  test::write_text(builder.folder / "claims.hrec", bytes);
  const auto recording = Recording::open(builder.folder / "claims.hrec");
  ASSERT_TRUE(recording.has_value());
  EXPECT_EQ(recording->info().threads.size(), 2U);
  EXPECT_EQ(recording->info().scopes.size(), 1U);
}

// A thread claimed a segment and died before its first record, or before it extended the file. This differs
// from a truncated file.
TEST(Damage, AcceptsUnusedSegments) {
  test::TemporaryFolder folder;
  const std::string good = small_recording(folder / "good.hrec");
  const std::size_t whole = read_bytes(folder / "a.hrec", good).events.size();
  const auto claimed = get<std::uint64_t>(good, offsetof(FileHeader, segments_claimed));
  const auto problems = [&](std::uint64_t more, std::uint32_t added_bytes, std::uint64_t file_bytes = 0) {
    std::string bytes = good + std::string(added_bytes, '\0');
    put(bytes, offsetof(FileHeader, segments_claimed), claimed + more);
    if (file_bytes > 0) put(bytes, offsetof(FileHeader, file_bytes), file_bytes);
    const Seen seen = read_bytes(folder / "a.hrec", bytes);
    EXPECT_EQ(seen.events.size(), whole);
    return seen.problems;
  };
  EXPECT_THAT(problems(1, kSmallSegment), IsEmpty());
  EXPECT_THAT(problems(3, 0), IsEmpty());
  EXPECT_THAT(problems(3, 0, good.size() + 2 * kSmallSegment), ElementsAre(HasSubstr("2 of ")));
}

TEST(Damage, ReadsTheOtherSegmentsBesideADamagedOne) {
  OwnRecording builder;
  builder.allocate(0, 1, 0x1000, 8);
  builder.allocate(1, 2, 0x2000, 8);
  builder.allocate(1, 3, 0x3000, 8);
  std::string bytes = test::read_text(builder.finish());
  const std::size_t second =
      kHeaderBytes + RecordingOptions().metadata_bytes + RecordingOptions().segment_bytes;
  // Its first record uses an undefined stack.
  RecordWriter writer;
  std::vector<std::uint64_t> segment(RecordingOptions().segment_bytes / 8);
  writer.open(segment.data(), segment.size() * 8, 1, 1, 0, 2);
  writer.allocate(2, 0x2000, 8, 7);
  std::memcpy(bytes.data() + second, segment.data(), segment.size() * 8);
  const Seen seen = read_bytes(builder.folder / "b.hrec", bytes);
  ASSERT_EQ(seen.events.size(), 1u);
  EXPECT_EQ(seen.events[0].address, 0x1000u);
  EXPECT_THAT(seen.problems, Contains(HasSubstr("before it is defined")));
}

// Later versions may add records without making files unreadable: kTagExtension, kind, bytes, payload.
TEST(Versions, SkipsRecordsOfLaterVersions) {
  OwnRecording builder;
  builder.allocate(0, 10, 0x1000, 8);
  std::string bytes = test::read_text(builder.finish());
  const std::size_t segment = kHeaderBytes + RecordingOptions().metadata_bytes;
  const std::size_t committed_at = segment + offsetof(SegmentHeader, committed);
  const auto committed = get<std::uint32_t>(bytes, committed_at);
  // 5 units later: kind 300 with three unknown bytes; 2 units later a release.
  const std::vector<std::uint8_t> added{kTagExtension | 5 << 4, 0xac, 2, 3, 0xff, 0xff, 0xff,
                                        kTagRelease | 2 << 4,   0};
  std::memcpy(bytes.data() + segment + sizeof(SegmentHeader) + committed, added.data(), added.size());
  put(bytes, committed_at, static_cast<std::uint32_t>(committed + added.size()));
  const Seen seen = read_bytes(builder.folder / "later.hrec", bytes);
  EXPECT_THAT(seen.problems, IsEmpty());
  ASSERT_EQ(seen.events.size(), 2u);
  EXPECT_EQ(seen.events[1].kind, MemoryEventKind::release);
  EXPECT_EQ(seen.events[1].address, 0x1000u);
  EXPECT_EQ(seen.events[1].time.count, 17);
}

}  // namespace
}  // namespace headroom::recording
