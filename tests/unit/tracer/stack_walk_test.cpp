// The tracer's own unwinder against the compiler's, which is slow and right, from many kinds of places.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unwind.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "recording/format.h"
#include "tracer/call_frame.h"
#include "tracer/frame_rules.h"

namespace headroom::tracer {
namespace {

struct Walks {
  std::vector<std::uint64_t> truth, rules, frame_pointers;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* data) {
  int is_exact = 0;
  const auto pc = static_cast<std::uint64_t>(_Unwind_GetIPInfo(context, &is_exact));
  // The place where a signal struck is no return address; the tracer writes such places as the next byte.
  static_cast<std::vector<std::uint64_t>*>(data)->push_back(is_exact != 0 ? pc + 1 : pc);
  return _URC_NO_REASON;
}

[[gnu::noinline, gnu::optimize("no-omit-frame-pointer")]] void take(Walks& walks) {
  const CallFrame caller = caller_of_this_function();
  walks = {};
  _Unwind_Backtrace(add_frame, &walks.truth);
  // The first is this function itself.
  if (!walks.truth.empty()) walks.truth.erase(walks.truth.begin());
  if (!walks.truth.empty() && walks.truth.back() == 0) walks.truth.pop_back();
  if (walks.truth.size() > recording::kMaxFrames) walks.truth.resize(recording::kMaxFrames);
  std::uint64_t frames[recording::kMaxFrames];
  const StackBounds bounds = stack_bounds_of_this_thread();
  for (const bool use_rules : {true, false}) {
    StackTrace trace{frames};
    (use_rules ? walk_unwind_rules : walk_frame_pointers)(caller, bounds, trace);
    (use_rules ? walks.rules : walks.frame_pointers).assign(frames, frames + trace.count);
  }
}

void expect_same(const Walks& walks, const char* where) {
  EXPECT_GT(walks.truth.size(), 3u) << where;
  EXPECT_EQ(walks.rules, walks.truth) << where;
}

// Makes the compiler believe that the memory is used.
void keep(void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

TEST(TracerStackWalk, AgreesFromAPlainCall) {
  Walks walks;
  for (int twice = 0; twice < 2; ++twice) {  // the second time by the rules that the first has learned
    take(walks);
    expect_same(walks, "plain");
  }
  forget_frame_rules();
  take(walks);
  expect_same(walks, "forgotten");
}

TEST(TracerStackWalk, AgreesFromInsideTheCLibrary) {
  // qsort of the C library keeps no frame pointers.
  static Walks walks;
  int numbers[] = {3, 1, 2};
  std::qsort(numbers, 3, sizeof(int), [](const void* a, const void* b) {
    take(walks);
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
  expect_same(walks, "qsort");
}

TEST(TracerStackWalk, AgreesFromFramesOfVaryingSize) {
  Walks walks;
  const std::function<void(int)> deeper = [&](int depth) {
    void* memory = __builtin_alloca(static_cast<std::size_t>(depth) * 100 + 1);
    keep(memory);
    if (depth == 0)
      take(walks);
    else
      deeper(depth - 1);
    keep(memory);
  };
  deeper(6);
  expect_same(walks, "alloca");
}

[[gnu::noinline]] void with_a_large_frame(Walks& walks) {
  char memory[1'000'000];
  keep(memory);
  take(walks);
  keep(memory);
}

[[gnu::noinline]] void with_an_aligned_frame(Walks& walks, std::size_t size) {
  alignas(64) char memory[64];
  void* more = __builtin_alloca(size);
  keep(memory);
  keep(more);
  take(walks);
  keep(memory);
}

TEST(TracerStackWalk, AgreesFromLargeAndAlignedFrames) {
  Walks walks;
  with_a_large_frame(walks);
  expect_same(walks, "large");
  with_an_aligned_frame(walks, 100);
  expect_same(walks, "aligned");
}

Walks walks_of_handler;
void on_signal(int) { take(walks_of_handler); }

TEST(TracerStackWalk, AgreesFromASignalHandler) {
  ASSERT_NE(::signal(SIGUSR1, on_signal), SIG_ERR);
  raise(SIGUSR1);
  expect_same(walks_of_handler, "handler");
}

TEST(TracerStackWalk, AgreesFromAThread) {
  Walks walks;
  std::thread([&walks] { take(walks); }).join();
  expect_same(walks, "thread");
}

TEST(TracerStackWalk, ADeepStackIsCutAtTheLimit) {
  Walks walks;
  const std::function<void(int)> deeper = [&](int depth) {
    if (depth == 0)
      take(walks);
    else
      deeper(depth - 1);
    asm volatile("");
  };
  deeper(200);
  EXPECT_EQ(walks.rules.size(), recording::kMaxFrames);
  EXPECT_EQ(walks.rules, walks.truth);
}

TEST(TracerStackWalk, FramePointersAreFollowedWhereTheyAreKept) {
  Walks walks;
  take(walks);
  // This test's own frame may keep none; whatever is found is a piece of the truth, from the leaf on.
  ASSERT_FALSE(walks.frame_pointers.empty());
  EXPECT_EQ(walks.frame_pointers[0], walks.truth[0]);
}

// Registers that lead nowhere end the walk and never fault.
TEST(TracerStackWalk, NonsenseEndsTheWalk) {
  std::uint64_t frames[recording::kMaxFrames];
  const StackBounds bounds = stack_bounds_of_this_thread();
  const CallFrame here{reinterpret_cast<std::uint64_t>(__builtin_return_address(0)),
                       reinterpret_cast<std::uint64_t>(__builtin_frame_address(0)), 0};
  std::uint64_t random = 1;
  for (int i = 0; i < 10'000; ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    CallFrame frame = here;
    // Near enough to the truth to be taken for it, and then wild.
    switch (random >> 62) {
      case 0:
        frame.fp = frame.sp + (random >> 40) % 4096;
        break;
      case 1:
        frame.fp = random;
        break;
      case 2:
        frame.sp += (random >> 40) % 2048;
        break;
      default:
        frame.pc = here.pc + (random >> 40) % 65536;
        break;
    }
    for (const bool use_rules : {true, false}) {
      StackTrace trace{frames};
      (use_rules ? walk_unwind_rules : walk_frame_pointers)(frame, bounds, trace);
      ASSERT_LE(trace.count, recording::kMaxFrames);
    }
  }
}

}  // namespace
}  // namespace headroom::tracer
