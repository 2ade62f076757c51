// Which processes count as writers of a recording: tested with real processes, and with files like those in
// /proc.
#include "trace/growing_recordings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/files.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::trace {
namespace {

namespace fs = std::filesystem;
using test::RecordingBuilder;

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

TEST_F(HiddenProcess, CountsAsWriterIfItsPidMatches) {
  write_process("4242", -1, "4242");
  EXPECT_TRUE(is_taken_for_the_writer());
}

TEST_F(HiddenProcess, CountsAsWriterWithoutNamespaces) {
  write_process("4242", -1, "");
  EXPECT_TRUE(is_taken_for_the_writer());
}

TEST_F(HiddenProcess, IsIgnoredIfItsPidDiffers) {
  write_process("4243", -1, "4243");
  EXPECT_FALSE(is_taken_for_the_writer());
}

TEST_F(HiddenProcess, IsIgnoredIfItStartedAfterTheRecording) {
  write_process("4242", 30, "4242");
  EXPECT_FALSE(is_taken_for_the_writer());
}

TEST_F(HiddenProcess, UsesThePidInsideItsContainer) {
  write_process("9000", -1, "9000 4242");
  EXPECT_TRUE(is_taken_for_the_writer());
}

TEST_F(HiddenProcess, IgnoresThePidOutsideItsContainer) {
  write_process("4242", -1, "4242 7");
  EXPECT_FALSE(is_taken_for_the_writer());
}

}  // namespace
}  // namespace headroom::trace
