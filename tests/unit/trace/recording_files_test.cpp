// How the files of a traced command are finished after it has ended.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/files.h"
#include "recording/format.h"
#include "recording/recording.h"
#include "support/recording_builder.h"
#include "support/test_support.h"
#include "trace/recording_files.h"

namespace headroom::trace {
namespace {

namespace fs = std::filesystem;
using test::RecordingBuilder;
using test::RecordingOptions;
using testing::HasSubstr;

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
  EXPECT_THAT(get_text(list[2], "error"), HasSubstr("7 bytes"));
}

TEST(Index, IsNotWrittenForOneProcess) {
  test::TemporaryFolder folder;
  const fs::path root = RecordingBuilder(folder / "a.hrec").finish();
  ASSERT_TRUE(write_tree_index(root, find_recordings(root)).has_value());
  EXPECT_FALSE(fs::exists(folder / "a.hrec.d"));
}

// Which processes count as writers of a recording: tested with real processes, and with files like those in
// /proc.

// A process that maps the file as long as this object lives.
class Mapping {
 public:
  Mapping(const fs::path& file, int open_flags, int protection, int flags) {
    int to_child[2], from_child[2];
    EXPECT_EQ(::pipe2(to_child, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(from_child, O_CLOEXEC), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::close(to_child[1]);
      const int fd = ::open(file.c_str(), open_flags);
      char byte = ::mmap(nullptr, 4096, protection, flags, fd, 0) != MAP_FAILED ? 'y' : 'n';
      [[maybe_unused]] auto sent = ::write(from_child[1], &byte, 1);
      [[maybe_unused]] auto got = ::read(to_child[0], &byte, 1);
      ::_exit(0);
    }
    ::close(to_child[0]);
    ::close(from_child[1]);
    to_child_.reset(to_child[1]);
    char byte = 0;
    EXPECT_EQ(::read(from_child[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    ::close(from_child[0]);
  }
  ~Mapping() {
    to_child_.reset();
    ::waitpid(child_, nullptr, 0);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

 private:
  pid_t child_ = -1;
  UniqueFd to_child_;
};

TEST(Growing, MarksFilesThatAProcessMapsForWriting) {
  test::TemporaryFolder folder;
  const fs::path root = RecordingBuilder(folder / "a.hrec").finish();
  fs::create_directory(folder / "a.hrec.d");
  RecordingBuilder(folder / "a.hrec.d/12-0.hrec").finish();
  const fs::path mapped = RecordingBuilder(folder / "a.hrec.d/3-0.hrec").finish();
  auto recordings = find_recordings(root);
  ASSERT_EQ(recordings.size(), 3u);
  EXPECT_EQ(recordings[0].path, root);
  EXPECT_EQ(recordings[1].path, mapped);
  {
    const Mapping writer(mapped, O_RDWR, PROT_READ | PROT_WRITE, MAP_SHARED);
    EXPECT_EQ(mark_growing(root, recordings), 1u);
  }
  EXPECT_FALSE(recordings[0].growing);
  EXPECT_TRUE(recordings[1].growing);
  EXPECT_FALSE(recordings[2].growing);

  recordings = find_recordings(root);
  EXPECT_EQ(mark_growing(root, recordings), 0u);
  EXPECT_FALSE(recordings[1].growing);
}

TEST(Growing, IgnoresReaders) {
  test::TemporaryFolder folder;
  const fs::path root = RecordingBuilder(folder / "a.hrec").finish();
  auto recordings = find_recordings(root);
  const Mapping report(root, O_RDONLY, PROT_READ, MAP_SHARED);
  const Mapping editor(root, O_RDONLY, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  EXPECT_EQ(mark_growing(root, recordings), 0u);
  EXPECT_FALSE(recordings[0].growing);
}

// /proc names the file by its real path.
TEST(Growing, FindsAFileNamedByALink) {
  test::TemporaryFolder folder;
  fs::create_directory(folder / "real");
  fs::create_directory_symlink(folder / "real", folder / "link");
  const fs::path root = RecordingBuilder(folder / "link/a.hrec").finish();
  auto recordings = find_recordings(root);
  const Mapping writer(root, O_RDWR, PROT_READ | PROT_WRITE, MAP_SHARED);
  EXPECT_EQ(mark_growing(root, recordings), 1u);
  EXPECT_TRUE(recordings[0].growing);
}

// A process whose mappings cannot be read: /proc/PID contains only its start time and PIDs. The recording
// belongs to process 4242 and began 5 s after boot, not counting sleep.
class HiddenProcess : public testing::Test {
 protected:
  HiddenProcess() {
    RecordingBuilder(folder_ / "a.hrec").finish();
    write_process("self", -5, "1");
  }
  // `after`: seconds since the beginning of the recording.
  void write_process(const std::string& name, double after, const std::string& ids) const {
    const auto now = [](clockid_t clock) {
      timespec time{};
      ::clock_gettime(clock, &time);
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    };
    const double began = 5 + now(CLOCK_BOOTTIME) - now(CLOCK_MONOTONIC) + after;
    const auto ticks = std::max(0.0, began * static_cast<double>(::sysconf(_SC_CLK_TCK)));
    const fs::path process = folder_ / "proc" / name;
    fs::create_directories(process);
    std::string stat = "1 (a) b) S";
    for (int field = 4; field < 22; ++field) stat += " 0";
    test::write_text(process / "stat", stat + " " + std::to_string(std::llround(ticks)) + " 0\n");
    if (!ids.empty()) test::write_text(process / "status", "Name:\ta\nNSpid:\t" + ids + "\nNSsid:\t1\n");
  }
  bool is_taken_for_the_writer() const {
    auto recordings = find_recordings(folder_ / "a.hrec");
    const std::size_t running = mark_growing(folder_ / "a.hrec", recordings, folder_ / "proc");
    EXPECT_EQ(running, recordings[0].growing ? 1u : 0u);
    return recordings[0].growing;
  }

  test::TemporaryFolder folder_;
};

TEST_F(HiddenProcess, CountsAsWriterIfItsPidAndStartMatch) {
  const struct {
    const char *process, *ids;
    double after;
    bool is_the_writer;
  } cases[] = {{"4242", "4242", -1, true},      {"4242", "", -1, true},  // a kernel without namespaces
               {"4243", "4243", -1, false},     {"4242", "4242", 30, false},
               {"9000", "9000 4242", -1, true},  // the number inside its container counts
               {"4242", "4242 7", -1, false}};
  for (const auto& each : cases) {
    write_process(each.process, each.after, each.ids);
    EXPECT_EQ(is_taken_for_the_writer(), each.is_the_writer) << each.process << ": " << each.ids;
    fs::remove_all(folder_ / "proc" / each.process);
  }
}

// Where a recording is written, and that no other file changes.

std::string why_not_written(const fs::path& wanted, bool replace) {
  const auto file = prepare_output(wanted, "app", replace);
  if (file) return "";
  EXPECT_EQ(file.error().kind, ErrorKind::usage);
  return file.error().sentence();
}

TEST(Output, CreatesFoldersButNotTheFile) {
  test::TemporaryFolder folder;
  const auto file = prepare_output(folder / "new/deep/a.hrec", "app", false);
  ASSERT_TRUE(file.has_value()) << file.error().sentence();
  EXPECT_EQ(*file, folder / "new/deep/a.hrec");
  EXPECT_TRUE(fs::is_directory(folder / "new/deep"));
  EXPECT_FALSE(fs::exists(*file));
}

TEST(Output, ReplacesOnlyRecordings) {
  test::TemporaryFolder folder;
  const fs::path file = RecordingBuilder(folder / "a.hrec").finish();
  const fs::path tree = tree_folder(file);
  fs::create_directory(tree);
  RecordingBuilder(tree / "7-0.hrec").finish();
  test::write_text(tree / "index.json", "{}");
  test::write_text(tree / "onnxruntime-7-0_2026-11-21.json", "[]");
  test::write_text(tree / "mine.txt", "keep");
  EXPECT_EQ(why_not_written(file, true), "");
  EXPECT_FALSE(fs::exists(file));
  EXPECT_FALSE(fs::exists(tree / "7-0.hrec"));
  EXPECT_FALSE(fs::exists(tree / "index.json"));
  EXPECT_FALSE(fs::exists(tree / "onnxruntime-7-0_2026-11-21.json"));
  EXPECT_EQ(test::read_text(tree / "mine.txt"), "keep");
  fs::remove(tree / "mine.txt");
  EXPECT_EQ(why_not_written(file, true), "");
  EXPECT_FALSE(fs::exists(tree));

  // A process that is killed before it writes the header.
  fs::create_directory(tree);
  for (const fs::path& empty : {file, tree / "8-0.hrec", tree / "index.json.tmp-17-1"})
    test::write_text(empty, "");
  EXPECT_EQ(why_not_written(file, true), "");
  EXPECT_FALSE(fs::exists(file) || fs::exists(tree));

  test::write_text(folder / "letter.txt", "HEADROO, dear, is short");
  EXPECT_THAT(why_not_written(folder / "letter.txt", true), HasSubstr("not a recording"));
  EXPECT_EQ(test::read_text(folder / "letter.txt"), "HEADROO, dear, is short");
}

TEST(Output, ExplainsUnusablePaths) {
  test::TemporaryFolder folder;
  EXPECT_THAT(why_not_written(folder.path(), false), HasSubstr("is a folder"));
  test::write_text(folder / "file", "x");
  EXPECT_THAT(why_not_written(folder / "file/a.hrec", false), HasSubstr("--out"));
  EXPECT_THAT(why_not_written("/proc/a.hrec", false), HasSubstr("cannot write"));
  fs::create_directory(folder / "b.hrec.d");
  EXPECT_THAT(why_not_written(folder / "b.hrec", false), HasSubstr("already exists"));
}

}  // namespace
}  // namespace headroom::trace
