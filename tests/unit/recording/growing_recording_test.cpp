// Recordings that are read while their process still writes. Data from before is read correctly, and nothing
// is reported as damaged.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "base/files.h"
#include "recording/record_writer.h"
#include "unit/recording/events.h"

namespace headroom::recording {
namespace {

namespace fs = std::filesystem;
using test::RecordingBuilder;
using test::RecordingOptions;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::uint32_t kSegmentBytes = 4096, kMetadataBytes = 1024;
constexpr std::uint64_t kSlots = 4, kOldSize = 1000, kNewSize = 7000;
constexpr std::size_t kFirstSlot = kHeaderBytes + kMetadataBytes;

RecordingOptions small_options(bool ring) {
  return {.ring = ring,
          .closed = false,
          .segment_bytes = kSegmentBytes,
          .metadata_bytes = kMetadataBytes,
          .segments_limit = ring ? kSlots : RecordingOptions().segments_limit};
}

// One thread fills `segments` slots and begins another.
fs::path recording_of(const fs::path& path, const RecordingOptions& options, std::uint64_t segments) {
  RecordingBuilder builder(path, options);
  std::uint64_t time = 0;
  for (std::uint64_t i = 0; i < segments; ++i) {
    while (builder.writer(0, time)->used_bytes() < kSegmentBytes - 800) {
      ++time;
      builder.allocate(0, time, 0x1000 * time, kOldSize + i, {0x10 + time % 5, 0x10});
    }
    builder.end_segment(0);
  }
  builder.allocate(0, time + 1, 0x1000 * time, kOldSize + segments, {0x10});
  return builder.finish();
}

// The traced process's view of the file: a shared mapping.
class Process {
 public:
  explicit Process(const fs::path& path) : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    bytes_ = fs::file_size(path);
    memory_ =
        static_cast<std::uint8_t*>(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
  }
  ~Process() { ::munmap(memory_, bytes_); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  FileHeader& header() { return *reinterpret_cast<FileHeader*>(memory_); }
  // Fills the oldest slot of the ring again.
  void overwrite_oldest() {
    const std::uint64_t number = header().segments_claimed.fetch_add(1);
    std::uint8_t* const slot = memory_ + kFirstSlot + number % kSlots * kSegmentBytes;
    RecordWriter writer;
    writer.open(slot, kSegmentBytes, number, 0, 0, number * 1'000'000);
    std::uint64_t time = number * 1'000'000;
    const std::uint64_t frames[] = {0x77, 0x78, 0x79};
    const std::uint32_t stack = writer.define_stack(time, frames, 3);
    for (; writer.has_space(); ++time) writer.allocate(time, 0x10 * time, kNewSize, stack);
    writer.seal_and_close();
  }

 private:
  UniqueFd fd_;
  std::size_t bytes_ = 0;
  std::uint8_t* memory_ = nullptr;
};

std::set<std::uint64_t> sizes_of(const std::vector<MemoryEvent>& events) {
  std::set<std::uint64_t> sizes;
  for (const MemoryEvent& event : events) sizes.insert(event.size);
  return sizes;
}

TEST(GrowingRing, ReportsOverwrittenSlotsAsMissingNotDamaged) {
  test::TemporaryFolder folder;
  const fs::path path = recording_of(folder / "a.hrec", small_options(true), kSlots);
  Recording recording = Recording::open(path).value();
  Process process(path);
  process.overwrite_oldest();
  process.overwrite_oldest();
  // Slot 0 was the newest when the file was opened, so segments 1 and 2 are gone.
  for (int pass = 0; pass < 2; ++pass) {
    const Seen seen = read_events(recording);
    EXPECT_THAT(sizes_of(seen.events), ElementsAre(kOldSize + 3, kOldSize + 4));
    EXPECT_THAT(
        seen.problems,
        ElementsAre(AllOf(HasSubstr("2 of the ring's 4 segments were overwritten while the ring was read"),
                          HasSubstr("still writes"))));
  }
}

TEST(GrowingRing, ReadsTheCopyOfASlotThatIsOverwrittenMeanwhile) {
  test::TemporaryFolder folder;
  const fs::path path = recording_of(folder / "a.hrec", small_options(true), kSlots);
  const std::vector<MemoryEvent> before = read_events(path).events;
  Recording recording = Recording::open(path).value();
  Process process(path);
  std::vector<MemoryEvent> events;
  recording.for_each_event([&](const MemoryEvent& event) {
    if (events.empty()) process.overwrite_oldest();
    events.push_back(event);
  });
  EXPECT_THAT(recording.problems(), IsEmpty());
  ASSERT_EQ(events.size(), before.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].time, before[i].time);
    EXPECT_EQ(events[i].size, before[i].size);
    EXPECT_EQ(events[i].address, before[i].address);
  }
}

// A file that was copied during writing can have parts of two segments in one slot.
TEST(GrowingRing, NamesACopyDuringWritingAsPossibleCause) {
  test::TemporaryFolder folder;
  const fs::path path = recording_of(folder / "a.hrec", small_options(true), kSlots);
  std::string copy = test::read_text(path);
  Process(path).overwrite_oldest();
  const std::string later = test::read_text(path);
  const std::size_t half = kFirstSlot + kSegmentBytes + kSegmentBytes / 2;
  copy.replace(half, kSegmentBytes / 2, later, half, kSegmentBytes / 2);
  test::write_text(folder / "b.hrec", copy);
  const Seen seen = read_events(folder / "b.hrec");
  EXPECT_THAT(seen.problems, Not(IsEmpty()));
  EXPECT_THAT(seen.problems, Each(HasSubstr("or the file was copied while its program wrote to it")));
}

// The thread passed the file's length after the reader read that length, but before it read the segment
// headers.
TEST(GrowingRecording, AcceptsRecordsWrittenAfterOpening) {
  test::TemporaryFolder folder;
  const fs::path path = recording_of(folder / "a.hrec", small_options(false), 2);
  const std::vector<MemoryEvent> whole = read_events(path).events;
  // The second segment's records are complete, but the file ends within them, at the length in its header.
  for (std::uint64_t length = kFirstSlot + kSegmentBytes + 600; length < kFirstSlot + kSegmentBytes + 640;
       ++length) {
    fs::copy_file(path, folder / "b.hrec", fs::copy_options::overwrite_existing);
    Process(folder / "b.hrec").header().file_bytes = length;
    fs::resize_file(folder / "b.hrec", length);
    const Seen seen = read_events(folder / "b.hrec");
    EXPECT_THAT(seen.problems, IsEmpty()) << length;
    EXPECT_LT(seen.events.size(), whole.size());
    EXPECT_GT(seen.events.size(), whole.size() / 2);
  }
}

}  // namespace
}  // namespace headroom::recording
