// Tests the views of memory snapshots with known allocations.
#include "report/snapshot/snapshot_views.h"

#include "base/text.h"
#include "base/utf8.h"
#include "report/snapshot/snapshot_words.h"
#include "support/test_support.h"
#include "unit/snapshot/caching_allocator_model.h"

namespace headroom::report {
namespace {

using test::CachingAllocatorModel;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kMiB = 1 << 20;

struct Views {
  std::string text;
  Json json;
};

Views views_of(const snapshot::Snapshot& snapshot, int width = 100) {
  const auto devices = snapshot::analyze_snapshot(snapshot, {});
  const SnapshotReport report{"snap shot.pickle", snapshot, devices};
  return {snapshot_to_terminal(report, false, width), snapshot_to_json(report)};
}

snapshot::Snapshot out_of_memory() {
  CachingAllocatorModel model({.device_bytes = 64 * kMiB});
  std::vector<std::uint64_t> blocks;
  for (std::uint32_t i = 0; i < 9; ++i) blocks.push_back(*model.allocate(6 * kMiB, i % 3 + 1));
  for (const std::size_t i : {0, 2, 3, 5, 6, 8}) model.release(blocks[i]);
  (void)model.allocate(16 * kMiB, 9);
  return model.take();
}

TEST(SnapshotViews, ShowWhatHeldTheMemoryAtAnOutOfMemoryFailure) {
  const Views views = views_of(out_of_memory(), 300);
  EXPECT_THAT(views.text,
              AllOf(HasSubstr("Out of memory once"), HasSubstr("16.0 MiB requested "),
                    HasSubstr("18.0 MiB allocated, 60.0 MiB reserved and 4.0 MiB free on the device"),
                    HasSubstr("request: f8 (f.py:8)"), HasSubstr("18.0 MiB in 3 blocks"),
                    HasSubstr("expandable_segments:True"), HasSubstr("6.0 MiB in 1 block")));
  const Json& oom = views.json["devices"][0]["ooms"][0];
  EXPECT_EQ(oom["requested_bytes"], 16 * kMiB);
  EXPECT_EQ(oom["device_free_bytes"], 4 * kMiB);
  EXPECT_EQ(oom["holders"][0]["bytes"], 18 * kMiB);
  EXPECT_EQ(oom["holders"][0]["frames"][0]["name"], "f1");
  EXPECT_EQ(oom["room"][0]["by"], "defragmenting");
  EXPECT_EQ(oom["room"][1]["by"], "fewest_bytes");
  EXPECT_EQ(oom["room"][1]["bytes"], 6 * kMiB);
  EXPECT_EQ(oom["room"][1]["in_segment"], true);
}

TEST(SnapshotViews, DoNotSuggestExpandableSegmentsIfEnabled) {
  snapshot::Snapshot snapshot = out_of_memory();
  snapshot.settings.expandable_segments = true;
  EXPECT_THAT(views_of(snapshot).text, Not(HasSubstr("expandable_segments:True")));
}

TEST(SnapshotViews, DrawSegmentsToScale) {
  CachingAllocatorModel model;
  const auto a = model.allocate(5 * kMiB, 1);
  (void)model.allocate(10 * kMiB - 600'000, 2);
  model.release(*a);
  const std::string text = views_of(model.take()).text;
  EXPECT_THAT(text, HasSubstr("20.0 MiB [..........##################+...........] 9.4 MiB live"));
}

TEST(SnapshotViews, FitTheTerminal) {
  for (const int width : {60, 80, 120})
    for (const auto& snapshot : {out_of_memory(), CachingAllocatorModel().take()}) {
      const std::string text = views_of(snapshot, width).text;
      for (const std::string_view line : split(text, '\n'))
        if (!line.starts_with("  headroom")) {  // commands are not wrapped, so that they can be copied
          EXPECT_LE(display_width(line), width) << line;
        }
    }
}

TEST(SnapshotViews, GiveNoLeakVerdictWithoutATrace) {
  CachingAllocatorModel model;
  (void)model.allocate(5 * kMiB, 1);
  const Views views = views_of(model.take(0));
  EXPECT_THAT(views.text, AllOf(HasSubstr("no allocation history"), Not(HasSubstr("Leaks"))));
  EXPECT_EQ(views.json["devices"][0]["leaks"]["verdict"], "unknown");
  EXPECT_EQ(views.json["devices"][0]["peak_allocated_bytes"], views.json["devices"][0]["live_bytes"]);
}

// A frame name from an untrusted file can neither control the terminal nor fill the screen.
TEST(SnapshotViews, ShortenNamesAndRemoveControlCharacters) {
  CachingAllocatorModel model;
  (void)model.allocate(5 * kMiB, 1);
  snapshot::Snapshot snapshot = model.take();
  snapshot.frames[0].function = snapshot.strings.intern("\x1b[31mred" + std::string(10'000, 'x'));
  EXPECT_THAT(views_of(snapshot).text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr(std::string(200, 'x')))));
}

TEST(SnapshotWords, OmitFramesThatOnlyForwardCalls) {
  snapshot::Snapshot snapshot;
  const auto frame = [&](const char* function, const char* file) {
    snapshot.stack_frames.push_back(static_cast<std::uint32_t>(snapshot.frames.size()));
    snapshot.frames.push_back({snapshot.strings.intern(function), snapshot.strings.intern(file), 3});
  };
  frame("c10::cuda::CUDACachingAllocator::malloc(unsigned long)", "??");
  frame("forward", "/srv/torch/nn/modules/conv.py");
  frame("_call_impl", "/srv/torch/nn/modules/module.py");
  frame("_PyEval_EvalFrameDefault", "ceval.c");
  frame("train", "/app/train.py");
  snapshot.stack_begin.push_back(snapshot.stack_frames.size());
  EXPECT_THAT(telling_frames(snapshot, {1}),
              testing::ElementsAre("forward (conv.py:3)", "train (train.py:3)"));
  EXPECT_EQ(one_line_place(snapshot, {{1}, {}}, 80), "forward (conv.py:3) ← train (train.py:3)");
  EXPECT_EQ(one_line_place(snapshot, {{1}, {}}, 24), "forward (conv.py:3)");
  EXPECT_EQ(one_line_place(snapshot, {{}, 3 * kMiB}, 80), "(no stack) blocks of 3.0 MiB");
}

}  // namespace
}  // namespace headroom::report
