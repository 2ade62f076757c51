#include "bench/worker/events.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

#include "base/json.h"
#include "base/subprocess.h"
#include "bench/annotated_samples.h"
#include "bench/conductor/child_process.h"
#include "bench/worker/frames.h"

namespace {
std::atomic<std::int64_t> allocations{0};
}

// Counts every allocation of this test program. (With inlining, g++ 12 takes the pair for a mismatched one.)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace headroom::bench {
namespace {

class WorkerEventsTest : public testing::Test {
 protected:
  std::vector<Json> sent() {
    pipe_.write_end.reset();
    LineReader reader(std::move(pipe_.read_end));
    std::vector<Json> events;
    while (reader.open())
      reader.read_available([&](std::string_view line) { events.push_back(*parse_json(line)); });
    return events;
  }
  Pipe pipe_ = std::move(*Pipe::create());
};

TEST_F(WorkerEventsTest, AllocatesNothingInTheMeasuredLoop) {
  {
    WorkerEvents events(pipe_.write_end.get());
    constexpr Nanoseconds kLongest{std::numeric_limits<std::int64_t>::max()};
    const FrameTimes longest{kLongest, kLongest, kLongest, kLongest, kLongest.count};
    const std::int64_t before = allocations;
    for (int i = 0; i < 500; ++i) events.record(0, longest);
    events.flush();
    for (int i = 0; i < 10; ++i) {
      events.waits_for_decoder(true);
      events.held(4096, 17);
    }
    events.send_out_of_memory("a thread could not be created");
    EXPECT_EQ(allocations - before, 0);
  }
  const auto all = sent();
  ASSERT_EQ(all.size(), 22U);
  EXPECT_EQ(get_member(all[0], "times").size(), 500U);
  EXPECT_EQ(get_bool(all[1], "awaited"), true);
  EXPECT_EQ(get_integer(all[2], "frames"), 4096);
  EXPECT_EQ(get_integer(all[2], "skipped"), 17);
  EXPECT_EQ(get_text(all[21], "kind"), "oom");
  EXPECT_EQ(get_text(all[21], "message"), "a thread could not be created");
}

// Windows of one frame: each is requested, read and reported.
TEST_F(WorkerEventsTest, AllocatesNothingForAWindow) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
  const UniqueFd peer(sockets[0]);
  const int saved = ::fcntl(kDecoderFd, F_DUPFD_CLOEXEC, 10);  // -1 if the descriptor is unused
  ASSERT_EQ(::dup2(sockets[1], kDecoderFd), kDecoderFd);
  if (sockets[1] != kDecoderFd) ::close(sockets[1]);
  auto ring = media::FrameRing::create(Bytes{4096});
  ASSERT_TRUE(ring);
  ring->header().slot_count = 1;
  ring->header().slots[0].width = ring->header().slots[0].height = 2;
  const media::DecoderAnswer answer{1, 1, 0, {}};
  const auto answer_beforehand = [&] {
    return ::send(peer.get(), &answer, sizeof answer, 0) == sizeof answer;
  };

  const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  WorkerEvents events(nowhere.get());
  FrameWalk walk(*ring, events, 100, 1);
  ASSERT_TRUE(answer_beforehand());
  ASSERT_TRUE(walk.next_window());  // allocates the list of slots
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(answer_beforehand());
  bool went_well = true;
  const std::int64_t before = allocations;
  for (int i = 0; i < 5; ++i) {
    went_well = went_well && walk.next_window() && walk.slots().size() == 1;
    events.held(walk.slots().size(), walk.take_skipped());
  }
  EXPECT_EQ(allocations - before, 0);
  EXPECT_TRUE(went_well);
  ::close(kDecoderFd);
  if (saved >= 0) {
    ::dup2(saved, kDecoderFd);
    ::close(saved);
  }
}

// The findings allocate nothing; the head of each mask and of the sample does, as a separate line.
TEST_F(WorkerEventsTest, AllocatesNothingForASamplesFindings) {
  const auto allocations_for = [](int side) {
    FrameFindings findings;
    findings.detections.resize(static_cast<std::size_t>(side));
    Mask mask;
    mask.width = mask.height = side;
    for (int i = 0; i < side * side; ++i) mask.values.push_back(i % 2 == 0 ? 255 : 0);
    findings.masks = {mask};
    const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    const std::int64_t before = allocations;
    write_sample(nowhere.get(), 0, 0, "a.jpg", findings);
    return allocations - before;
  };
  EXPECT_EQ(allocations_for(2), allocations_for(1000));
}

TEST_F(WorkerEventsTest, SendsEveryFrameOfEveryModelInBatches) {
  {
    WorkerEvents events(pipe_.write_end.get());
    for (int i = 0; i < 300; ++i) {
      events.record(0, {{1}, {2}, {i}, {4}, 5});
      events.record(1, {{1}, {2}, {3}, {4}, 6});
    }
    events.flush();
  }
  std::vector<std::int64_t> inference;
  std::size_t others = 0;
  for (const Json& event : sent()) {
    EXPECT_EQ(get_text(event, "event"), "frames");
    for (const Json& times : get_member(event, "times")) {
      if (get_integer(event, "model") == 0)
        inference.push_back(times[2].get<std::int64_t>());
      else
        ++others;
    }
  }
  ASSERT_EQ(inference.size(), 300U);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(inference[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(others, 300U);
}

TEST_F(WorkerEventsTest, MarksAPhaseWithItsMemory) {
  WorkerEvents events(pipe_.write_end.get());
  const ProcessMemory memory = events.mark(Phase::model_loaded);
  const auto all = sent();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(get_text(all[0], "phase"), "model_loaded");
  EXPECT_EQ(get_bytes(all[0], "resident_bytes"), memory.rss);
}

}  // namespace
}  // namespace headroom::bench
