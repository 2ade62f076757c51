#include "samples.h"

#include "page_text.h"
#include "unit/snapshot/caching_allocator_model.h"

namespace headroom::test {
namespace {

constexpr std::int64_t kMiB = 1 << 20, kKiB = 1 << 10;
// A file name with markup. It has no slash, because only the part after the last slash is shown.
constexpr const char* kHostileFile = "<!--<script>alert(2)";

// Stacks of the sample; 0 means no stack.
enum : std::uint32_t { kWeights = 1, kActivation, kGradient, kKept, kHostile, kWorkspace, kLarge, kStacks };

// Stacks of several frames, as in Python and PyTorch.
void name_stacks(snapshot::Snapshot& snapshot) {
  const auto frame = [&](const std::string& function, const char* file, std::int64_t line) {
    snapshot.frames.push_back({snapshot.strings.intern(function), snapshot.strings.intern(file), line});
    return static_cast<std::uint32_t>(snapshot.frames.size() - 1);
  };
  snapshot.frames.clear();
  const auto main = frame("main", "/app/train.py", 80), train = frame("train", "/app/train.py", 41);
  const auto forward = frame("forward", "/app/model.py", 17);
  const auto call = frame("_call_impl", "/srv/torch/nn/modules/module.py", 1700);
  const std::vector<std::vector<std::uint32_t>> stacks = {
      {},
      {frame("to", "/srv/torch/nn/modules/module.py", 1300), frame("load", "/app/model.py", 9), main},
      {frame("relu", "/srv/torch/nn/functional.py", 1500), call, forward, call, train, main},
      {frame("backward", "/srv/torch/_tensor.py", 600), train, main},
      {frame("keep_history", "/app/history.py", 12), train, main},
      {frame(kHostileName, kHostileFile, 3), train, main},
      {frame("conv2d", "/srv/torch/nn/functional.py", 500), call, forward, call, train, main},
      {frame("attention", "/app/model.py", 33), call, forward, call, train, main},
  };
  snapshot.stack_frames.clear();
  snapshot.stack_begin.assign(1, 0);
  for (const auto& frames : stacks) {
    snapshot.stack_frames.insert(snapshot.stack_frames.end(), frames.begin(), frames.end());
    snapshot.stack_begin.push_back(snapshot.stack_frames.size());
  }
}

snapshot::Snapshot training() {
  CachingAllocatorModel model({.device_bytes = 256 * kMiB});
  for (int i = 0; i < 6; ++i) (void)model.allocate(4 * kMiB, kWeights);
  for (int step = 0; step < 24; ++step) {
    std::vector<std::uint64_t> activations;
    for (int layer = 0; layer < 8; ++layer) {
      activations.push_back(*model.allocate((2 + layer % 3) * kMiB, kActivation));
      const auto workspace = *model.allocate(6 * kMiB, kWorkspace, layer % 2);
      model.release(workspace);
    }
    const auto gradient = *model.allocate(12 * kMiB, kGradient);
    (void)model.allocate(700 * kKiB, kKept);
    (void)model.allocate(40 * kKiB, kHostile);
    for (const std::uint64_t activation : activations) model.release(activation);
    model.release(gradient);
    if (step % 8 == 7) (void)model.allocate(230 * kMiB, kLarge);
  }
  const auto waiting = *model.allocate(3 * kMiB, kActivation);
  model.release(waiting, true);
  snapshot::Snapshot snapshot = model.take();
  name_stacks(snapshot);
  snapshot.settings.text = std::string("garbage_collection_threshold:0.8,") + kHostileName;
  snapshot.problems.push_back(std::string("2 entries could not be read: ") + kHostileName);
  return snapshot;
}

snapshot::Snapshot state() {
  CachingAllocatorModel model;
  for (int i = 0; i < 20; ++i) {
    const auto block = *model.allocate((i % 4 + 1) * 800 * kKiB);
    if (i % 3 == 0) model.release(block);
  }
  snapshot::Snapshot snapshot = model.take(0);
  const std::size_t segments = snapshot.segments.size();
  for (std::size_t i = 0; i < segments; ++i) {
    snapshot::Segment segment = snapshot.segments[i];
    segment.device = 1;
    snapshot.segments.push_back(segment);
  }
  return snapshot;
}

}  // namespace

snapshot::Snapshot sample_snapshot(SampleSnapshot kind) {
  if (kind == SampleSnapshot::training) return training();
  return kind == SampleSnapshot::state ? state() : CachingAllocatorModel().take();
}

std::string page_of(const snapshot::Snapshot& snapshot) {
  report::SnapshotLive live;
  const auto devices = snapshot::analyze_snapshot(snapshot, live.options());
  return report::snapshot_to_html({"/data/train step 24.pickle", snapshot, devices}, live);
}

}  // namespace headroom::test
