// Compares the tracer's unwinder with the compiler's, which is slow and correct, from many kinds of code.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "preload/stack_walk.h"
#include "recording/format.h"

namespace headroom::preload {
namespace {

// A walk, stored without allocating, because it may be taken in a signal handler.
struct Frames {
  std::array<std::uint64_t, recording::kMaxFrames> pcs{};
  std::size_t count = 0;
  void add(std::uint64_t pc) {
    if (count < pcs.size()) pcs[count++] = pc;
  }
  // Allocates nothing: signal handlers compare walks.
  bool equals(const Frames& other) const {
    return std::equal(pcs.begin(), pcs.begin() + static_cast<std::ptrdiff_t>(count), other.pcs.begin(),
                      other.pcs.begin() + static_cast<std::ptrdiff_t>(other.count));
  }
  std::vector<std::uint64_t> list() const {
    return {pcs.begin(), pcs.begin() + static_cast<std::ptrdiff_t>(count)};
  }
};

struct Walks {
  Frames truth, rules, frame_pointers;
  Frames frequent;  // by rules, where each allocation walks the stack
  Frames known;     // the walk from the cache; empty if there was none
  Frames often;     // the same, where each allocation walks the stack
};

struct TruthSoFar {
  Frames* frames;
  std::size_t to_skip;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* data) {
  auto& truth = *static_cast<TruthSoFar*>(data);
  int is_exact = 0;
  const auto pc = static_cast<std::uint64_t>(_Unwind_GetIPInfo(context, &is_exact));
  if (truth.to_skip > 0) {
    --truth.to_skip;
  } else if (pc != 0) {
    // The interrupted instruction is not a return address; the tracer records the next byte.
    truth.frames->add(is_exact != 0 ? pc + 1 : pc);
  }
  return _URC_NO_REASON;
}

thread_local WalkHistory history, frequent_history;
thread_local KnownWalks known_walks, often_known_walks;

#ifdef __clang__  // Only needed in builds with sanitizers, where every function keeps its frame pointer.
#define HEADROOM_KEEP_FRAME_POINTER
#else
#define HEADROOM_KEEP_FRAME_POINTER [[gnu::optimize("no-omit-frame-pointer")]]
#endif

[[gnu::noinline]] HEADROOM_KEEP_FRAME_POINTER void take(Walks& walks) {
  const CallFrame caller = caller_of_this_function();
  walks.truth.count = 0;
  TruthSoFar truth{&walks.truth, 1};  // without this function itself
  _Unwind_Backtrace(add_frame, &truth);
  const StackBounds bounds = stack_bounds_of_this_thread();
  walks.known.count = 0;
  const KnownWalks::Walk* const known = known_walks.find(caller);
  if (known != nullptr) {
    const StackTrace trace = known->trace(walks.known.pcs.data());
    walks.known.count = trace.count;
  }
  walks.often.count = 0;
  const KnownWalks::Walk* const often = often_known_walks.find_often(caller);
  if (often != nullptr) walks.often.count = often->trace(walks.often.pcs.data()).count;
  StackTrace by_rules{walks.rules.pcs.data()};
  walk_unwind_rules(caller, bounds, history, by_rules, true);
  by_rules.complete();
  walks.rules.count = by_rules.count;
  StackTrace frequent{walks.frequent.pcs.data()};
  walk_unwind_rules(caller, bounds, frequent_history, frequent);
  const std::uint32_t depth = frequent.depth();
  frequent.complete();
  walks.frequent.count = frequent.count;
  EXPECT_EQ(frequent.count, depth);
  EXPECT_EQ(frequent.hash == by_rules.hash, walks.frequent.equals(walks.rules));
  if (known == nullptr) known_walks.keep(caller, history, by_rules);
  if (often == nullptr && often_known_walks.is_worth_keeping(caller))
    often_known_walks.keep(caller, history, by_rules);
  StackTrace by_frame_pointers{walks.frame_pointers.pcs.data()};
  walk_frame_pointers(caller, bounds, by_frame_pointers);
  walks.frame_pointers.count = by_frame_pointers.count;
}

void expect_same(const Walks& walks, const char* where) {
  EXPECT_GT(walks.truth.count, 3u) << where;
  EXPECT_EQ(walks.rules.list(), walks.truth.list()) << where;
  EXPECT_EQ(walks.frequent.list(), walks.truth.list()) << where;
  if (walks.known.count > 0) {
    EXPECT_EQ(walks.known.list(), walks.truth.list()) << where;
  }
  if (walks.often.count > 0) {
    EXPECT_EQ(walks.often.list(), walks.truth.list()) << where;
  }
}

// Makes the compiler assume that the memory is used.
void keep(void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

TEST(TracerStackWalk, MatchesFromAPlainCall) {
  Walks walks;
  for (int twice = 0; twice < 2; ++twice) {  // the second time with the rules learned in the first
    take(walks);
    expect_same(walks, "plain");
  }
  forget_frame_rules();
  take(walks);
  expect_same(walks, "forgotten");
  std::thread([&walks] { take(walks); }).join();
  expect_same(walks, "thread");
}

// The same addresses may later belong to other code with larger frames.
TEST(TracerStackWalk, ForgetsWalksWhenAModuleIsUnloaded) {
  Walks walks;
  for (int twice = 0; twice < 2; ++twice) {
    take(walks);
    for (std::uint32_t i = 0; i < history.count; ++i) ++history.frames[i].pc;
    forget_stacks();
  }
  expect_same(walks, "forgotten");
}

// From the second walk on, until a module is unloaded or the stack belongs to another thread.
TEST(TracerStackWalk, KeepsAWalkFromItsSecondTime) {
  Walks walks;
  const auto take_often = [&] {
    std::string known;
    for (int i = 0; i < 4; ++i) {
      take(walks);
      expect_same(walks, "often");
      known += walks.known.count > 0 ? 'k' : '-';
    }
    return known;
  };
  std::string found;
  for (int i = 0; i < 3; ++i) {
    found += take_often() + " ";
    if (i == 0) forget_stacks();
    if (i == 1) known_walks.forget();
  }
  EXPECT_EQ(found, "--kk --kk --kk ");
}

[[gnu::noinline]] void with_a_frame_of(Walks& walks, std::size_t size) {
  void* memory = __builtin_alloca(size);
  keep(memory);
  take(walks);
  keep(memory);
}

// The same start on the stack, but other callers.
TEST(TracerStackWalk, RepeatsAWalkWithOtherCallers) {
  Walks walks;
  int known = 0, often = 0, others = 0;
  const std::function<void(std::size_t)> by_one = [&](std::size_t size) { with_a_frame_of(walks, size); };
  const std::function<void(std::size_t)> by_another = [&](std::size_t size) {
    with_a_frame_of(walks, size);
    keep(&known);
  };
  std::vector<std::uint64_t> last;
  for (std::size_t i = 0; i < 64; ++i) {
    (i / 4 % 2 == 0 ? by_one : by_another)(i / 8 % 4 * 16);
    expect_same(walks, "by turns");
    known += walks.known.count > 0;
    often += walks.often.count > 0;
    others += walks.truth.list() != last;
    last = walks.truth.list();
  }
  EXPECT_GT(known, 0);
  EXPECT_GT(often, 0);
  EXPECT_GE(others, 16);
}

[[gnu::noinline]] void by_a_small_frame(Walks& walks) { take(walks); }

// Its frame contains stale data from a larger caller: pairs of a frame pointer and a return address.
[[gnu::noinline]] void with_a_frame_above(Walks& walks, std::size_t size, bool is_direct) {
  static std::uint64_t stale[2] = {};
  auto* const memory = static_cast<std::uint64_t*>(__builtin_alloca(size));
  if (size == 128) {
    stale[0] = *static_cast<const std::uint64_t*>(__builtin_frame_address(0));
    stale[1] = reinterpret_cast<std::uint64_t>(__builtin_return_address(0));
  }
  for (std::size_t i = 0; i < size / sizeof(std::uint64_t); ++i) memory[i] = stale[i % 2];
  if (is_direct)
    take(walks);
  else
    by_a_small_frame(walks);
  keep(memory);
}

[[gnu::noinline]] void with_two_frames(Walks& walks, std::size_t size, bool is_direct) {
  void* memory = __builtin_alloca(1280 - size);
  keep(memory);
  if (size == 128) {
    with_a_frame_above(walks, size, is_direct);
    asm volatile("# one place");
  } else {
    with_a_frame_above(walks, size, is_direct);
    asm volatile("# another");
  }
  keep(memory);
}

// A frame located by a frame pointer is elsewhere than before, although the function was entered at the same
// stack address. Its old return address still lies on the stack. The frame pointer is the start's, or is read
// from the stack.
TEST(TracerStackWalk, RepeatsAWalkWithAnotherFramePointer) {
  for (const bool is_direct : {true, false}) {
    Walks walks[4];
    for (int i = 0; i < 4; ++i) with_two_frames(walks[i], i < 3 ? 128 : 1152, is_direct);
    const Walks &before = walks[2], &then = walks[3];
    EXPECT_GT(before.known.count, 0u);
    EXPECT_EQ(before.truth.pcs[0], then.truth.pcs[0]);
    EXPECT_NE(before.truth.list()[is_direct ? 1 : 2], then.truth.list()[is_direct ? 1 : 2]);
    expect_same(before, "before");
    expect_same(then, "then");
  }
}

// A signal stack may be released and its memory reused, so no walk on it is kept.
TEST(TracerStackWalk, KeepsNoWalkOfASignalStack) {
  static Walks walks[4];
  static int taken = 0;
  std::vector<char> memory(256 << 10);
  stack_t other{}, before{};
  other.ss_sp = memory.data();
  other.ss_size = memory.size();
  ASSERT_EQ(::sigaltstack(&other, &before), 0);
  struct sigaction action {};
  action.sa_handler = [](int) { take(walks[taken++]); };
  action.sa_flags = SA_ONSTACK;
  ASSERT_EQ(::sigaction(SIGUSR2, &action, nullptr), 0);
  for (int i = 0; i < 4; ++i) ::raise(SIGUSR2);
  ASSERT_EQ(taken, 4);
  for (const Walks& one : walks) {
    EXPECT_EQ(one.known.count, 0u);
    EXPECT_GT(one.rules.count, 0u);
  }
  ::signal(SIGUSR2, SIG_DFL);
  ASSERT_EQ(::sigaltstack(&before, nullptr), 0);
}

// Each frame of a function with a frame pointer needs two words of the stack.
TEST(TracerStackWalk, KeepsAWalkOfTheMaximumLength) {
  Walks walks;
  std::string found;
  const auto deeper = [&](const auto& self, int depth) __attribute__((noinline))->void {
    if (depth > 0) return self(self, depth - 1);
    for (int left = 3; left > 0; --left) {
      asm volatile("" : "+r"(left));  // not unrolled: from one place
      take(walks);
    }
    found += walks.known.count > 0 ? 'k' : '-';
    asm volatile("");
  };
  take(walks);
  const int outer = static_cast<int>(walks.rules.count);
  deeper(deeper, static_cast<int>(KnownWalks::kMostFrames) - outer - 4);
  EXPECT_GT(walks.rules.count, KnownWalks::kMostFrames - 6);
  expect_same(walks, "deep");
  deeper(deeper, static_cast<int>(KnownWalks::kMostFrames));
  expect_same(walks, "too deep");
  EXPECT_EQ(found, "k-");
}

TEST(TracerStackWalk, MatchesFromInsideTheCLibrary) {
  // The C library's qsort keeps no frame pointers.
  static Walks walks;
  int numbers[] = {3, 1, 2};
  std::qsort(numbers, 3, sizeof(int), [](const void* a, const void* b) {
    take(walks);
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
  expect_same(walks, "qsort");
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

TEST(TracerStackWalk, MatchesFromLargeAndAlignedFrames) {
  Walks walks;
  with_a_large_frame(walks);
  expect_same(walks, "large");
  with_an_aligned_frame(walks, 100);
  expect_same(walks, "aligned");
}

Walks walks_of_handler;
void on_signal(int) { take(walks_of_handler); }

TEST(TracerStackWalk, MatchesFromASignalHandler) {
  ASSERT_NE(::signal(SIGUSR1, on_signal), SIG_ERR);
  raise(SIGUSR1);
#if defined(__aarch64__)
  // Without unwind information for the kernel's trampoline (as in an emulator), the walk follows its frame
  // record. That leads to the caller of the interrupted function, or to the function's own address.
  ASSERT_GT(walks_of_handler.truth.count, 4u);
  walks_of_handler.rules.pcs[2] = walks_of_handler.frequent.pcs[2] = walks_of_handler.truth.pcs[2];
#endif
  expect_same(walks_of_handler, "handler");
}

// Ten thousand walks along random paths, so that each meets the history of another one: deeper, shallower,
// diverging and converging, with other frame sizes, and beyond the depth limit and back.
struct RandomPath {
  std::uint64_t random = 1;
  std::size_t wrong = 0, known = 0, deepest = 0;
  std::uint64_t next() { return random = random * 6364136223846793005 + 1442695040888963407; }
};

template <unsigned Kind>
[[gnu::noinline]] void wander(RandomPath& path, unsigned depth) {
  void* memory = nullptr;
  if constexpr (Kind == 1) memory = __builtin_alloca(64 * (path.next() >> 62));
  char fixed[Kind * 48 + 8];
  keep(memory);
  keep(fixed);
  if (depth == 0) {
    Walks walks;
    for (int i = 0; i < 3; ++i) {
      take(walks);
      path.wrong += walks.rules.list() == walks.truth.list() ? 0 : 1;
      path.wrong += walks.frequent.list() == walks.truth.list() ? 0 : 1;
      path.deepest = std::max(path.deepest, walks.rules.count);
      path.wrong += walks.often.count == 0 || walks.often.list() == walks.truth.list() ? 0 : 1;
      if (walks.known.count == 0) continue;
      ++path.known;
      path.wrong += walks.known.list() == walks.truth.list() ? 0 : 1;
    }
  } else {
    constexpr void (*kNext[])(RandomPath&, unsigned) = {wander<0>, wander<1>, wander<2>, wander<3>};
    kNext[path.next() >> 62](path, depth - 1);
    // Walk once more from the same frame, so that the next walk shares its outer frames.
    if (path.next() >> 62 == 0) wander<2>(path, depth / 2);
  }
  keep(fixed);
}

TEST(TracerStackWalk, MatchesAlongRandomPaths) {
  RandomPath path;
  for (int i = 0; i < 300; ++i) wander<0>(path, static_cast<unsigned>(path.next() >> 59));
  for (int i = 0; i < 20; ++i) wander<0>(path, 40 + static_cast<unsigned>(path.next() >> 59));
  EXPECT_EQ(path.wrong, 0u);
  EXPECT_GT(path.known, 0u);
  EXPECT_EQ(path.deepest, recording::kMaxFrames);
}

TEST(TracerStackWalk, FollowsFramePointersThatAreKept) {
  Walks walks;
  take(walks);
  // This test's own frame may keep no frame pointer; the frames found must be a prefix of the true stack.
  ASSERT_GT(walks.frame_pointers.count, 0u);
  EXPECT_EQ(walks.frame_pointers.pcs[0], walks.truth.pcs[0]);
}

// Invalid registers end the walk and never cause a fault.
TEST(TracerStackWalk, InvalidRegistersEndTheWalk) {
  std::uint64_t frames[recording::kMaxFrames];
  const StackBounds bounds = stack_bounds_of_this_thread();
  const CallFrame here{reinterpret_cast<std::uint64_t>(__builtin_return_address(0)),
                       reinterpret_cast<std::uint64_t>(__builtin_frame_address(0)), 0};
  std::uint64_t random = 1;
  for (int i = 0; i < 10'000; ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    CallFrame frame = here;
    // First close enough to be plausible, then arbitrary.
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
    StackTrace by_rules{frames}, by_frame_pointers{frames};
    walk_unwind_rules(frame, bounds, history, by_rules);
    by_rules.complete();
    walk_frame_pointers(frame, bounds, by_frame_pointers);
    ASSERT_LE(by_rules.count, recording::kMaxFrames);
    ASSERT_LE(by_frame_pointers.count, recording::kMaxFrames);
  }
}

}  // namespace
}  // namespace headroom::preload
