// How the files of a traced command are finished after it has ended.
#include "trace/recording_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "recording/recording.h"
#include "support/recording_builder.h"
#include "support/test_support.h"
#include "trace/tree_index.h"

namespace headroom::trace {
namespace {

namespace fs = std::filesystem;
using test::RecordingBuilder;
using test::RecordingOptions;

std::uint64_t events_in(const fs::path& path) {
  auto recording = recording::Recording::open(path);
  EXPECT_TRUE(recording.has_value()) << recording.error().sentence();
  std::uint64_t events = 0;
  recording->for_each_event([&](const MemoryEvent&) { ++events; });
  EXPECT_THAT(recording->problems(), testing::IsEmpty());
  return events;
}

// Segments of several threads with little content, and space that was claimed and never used.
fs::path wasteful_recording(const fs::path& path, RecordingOptions options = {}) {
  options.segment_bytes = 1 << 20;
  RecordingBuilder builder(path, options);
  for (std::uint64_t i = 0; i < 4000; ++i)
    builder.allocate(static_cast<std::uint32_t>(i % 4), i, 0x1000 * (i + 1), i, {0x10 + i % 50, 0x20});
  builder.finish();
  // As a process leaves it: every claimed byte occupies disk space.
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(::posix_fallocate(fd.get(), 0, static_cast<off_t>(fs::file_size(path) + (2 << 20))), 0);
  return path;
}

std::int64_t disk_bytes(const fs::path& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_blocks * 512;
}

TEST(Compact, ReleasesUnusedDiskSpace) {
  for (const bool ring : {false, true}) {
    test::TemporaryFolder folder;
    RecordingOptions options;
    options.ring = ring;
    const fs::path file = wasteful_recording(folder / "a.hrec", options);
    const std::uint64_t events = events_in(file);
    const std::int64_t before = disk_bytes(file);
    compact_recording(file);
    EXPECT_EQ(events_in(file), events);
    EXPECT_LT(fs::file_size(file), 4096U + (64U << 10) + (4U << 20));
    EXPECT_LT(disk_bytes(file), before / 10);
    const auto whole = test::read_text(file);
    compact_recording(file);
    EXPECT_EQ(test::read_text(file), whole) << "a second time changes something";
  }
}

TEST(Compact, IgnoresFilesThatAreNotRecordings) {
  test::TemporaryFolder folder;
  test::write_text(folder / "a.hrec", std::string(10'000, 'x'));
  compact_recording(folder / "a.hrec");
  EXPECT_EQ(fs::file_size(folder / "a.hrec"), 10'000U);
  compact_recording(folder / "absent.hrec");
  const fs::path file = RecordingBuilder(folder / "b.hrec").finish();
  std::string bytes = test::read_text(file);
  bytes[offsetof(recording::FileHeader, segments_claimed) + 6] = 1;  // more than the file can contain
  test::write_text(file, bytes);
  compact_recording(file);
  EXPECT_EQ(test::read_text(file), bytes);
}

TEST(Index, ListsTheProcesses) {
  test::TemporaryFolder folder;
  RecordingOptions options;
  options.command = {"make", "-j2"};
  RecordingBuilder root(folder / "a.hrec", options);
  root.allocate(0, 2'000'000'000, 0x1000, 8);
  root.finish();
  fs::create_directory(folder / "a.hrec.d");
  options.pid = 4300;
  options.parent_pid = 4242;
  options.exec_generation = 1;
  options.closed = false;
  options.command = {"cc1"};
  RecordingBuilder(folder / "a.hrec.d/4300-1.hrec", options).finish();
  test::write_text(folder / "a.hrec.d/4301-0.hrec", "nothing");
  auto recordings = find_recordings(folder / "a.hrec");
  recordings[1].growing = true;
  ASSERT_TRUE(write_tree_index(folder / "a.hrec", recordings).has_value());
  const auto index = parse_json(test::read_text(folder / "a.hrec.d/index.json"));
  ASSERT_TRUE(index.has_value());
  EXPECT_EQ(get_integer(*index, "schema_version"), 1);
  const Json& list = get_member(*index, "recordings");
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(get_text(list[0], "file"), "../a.hrec");
  EXPECT_EQ(get_member(list[0], "command"), Json({"make", "-j2"}));
  EXPECT_NEAR(*get_number(list[0], "duration_seconds"), 2, 0.1);
  EXPECT_EQ(get_integer(list[0], "file_bytes"), static_cast<std::int64_t>(fs::file_size(folder / "a.hrec")));
  EXPECT_EQ(get_bool(list[0], "growing"), false);
  EXPECT_EQ(get_text(list[1], "file"), "4300-1.hrec");
  EXPECT_EQ(get_integer(list[1], "pid"), 4300);
  EXPECT_EQ(get_integer(list[1], "parent_pid"), 4242);
  EXPECT_EQ(get_integer(list[1], "generation"), 1);
  EXPECT_EQ(get_bool(list[1], "closed"), false);
  EXPECT_EQ(get_bool(list[1], "growing"), true);
  EXPECT_EQ(get_text(list[2], "file"), "4301-0.hrec");
  EXPECT_THAT(get_text(list[2], "error"), testing::HasSubstr("7 bytes"));
}

TEST(Index, IsNotWrittenForOneProcess) {
  test::TemporaryFolder folder;
  const fs::path root = RecordingBuilder(folder / "a.hrec").finish();
  ASSERT_TRUE(write_tree_index(root, find_recordings(root)).has_value());
  EXPECT_FALSE(fs::exists(folder / "a.hrec.d"));
}

}  // namespace
}  // namespace headroom::trace
