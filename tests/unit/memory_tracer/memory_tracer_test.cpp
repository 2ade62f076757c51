// Tests the tracer with LibTorch tensors, against a counting allocator beneath it.
#include "headroom/memory_tracer.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <torch/script.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "support/test_support.h"

namespace headroom {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;

// A plain allocator with its own counts: each block stores its size in the 64 bytes before it.
struct Counted {
  std::atomic<std::int64_t> live{0}, peak{0};
};
Counted counted;

void release_counted(void* memory) {
  auto* const block = static_cast<char*>(memory) - 64;
  std::int64_t bytes = 0;
  std::memcpy(&bytes, block, sizeof bytes);
  counted.live -= bytes;
  std::free(block);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const {  // NOLINT(modernize-use-override)
    const auto size = static_cast<std::int64_t>(bytes);
    if (bytes == 0) return {nullptr, nullptr, &release_counted, c10::Device(c10::kCPU)};
    auto* const block = static_cast<char*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
    std::memcpy(block, &size, sizeof size);
    const std::int64_t live = counted.live += size;
    std::int64_t peak = counted.peak;
    while (live > peak && !counted.peak.compare_exchange_weak(peak, live)) {
    }
    return {block + 64, block + 64, &release_counted, c10::Device(c10::kCPU)};
  }
  c10::DataPtr allocate(std::size_t bytes) {
    return static_cast<const CountingAllocator&>(*this).allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const {  // NOLINT(modernize-use-override)
    return &release_counted;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
};

CountingAllocator& counting() {
  static auto* const allocator = new CountingAllocator;
  return *allocator;
}
// Before this program creates any tensor.
const bool is_counting = (c10::SetCPUAllocator(&counting(), 100), true);

MemoryTracerOptions on_cpu() {
  MemoryTracerOptions options;
  options.device = "cpu";
  return options;
}

at::Tensor linear(const at::Tensor& input, std::int64_t width) {
  return at::matmul(input, at::ones({input.size(1), width}));
}

std::int64_t sum(const std::map<std::string, std::int64_t>& bytes) {
  std::int64_t total = 0;
  for (const auto& [name, held] : bytes) total += held;
  return total;
}
std::int64_t sum(const MemoryByUse& use) {
  return use.weights + use.activations + use.gradients + use.optimizer_state + use.workspace + use.other;
}

TEST(MemoryTracer, LayersAddUpToTheAllocatorsPeak) {
  const at::Tensor input = at::ones({64, 100});
  const std::int64_t before = counted.live;
  counted.peak = before;
  MemoryTracer tracer(on_cpu());
  {
    const auto trace = tracer.trace();
    at::Tensor x = input;
    for (int round = 0; round < 3; ++round) {
      const auto outer = tracer.layer("net");
      for (const std::int64_t width : {200, 50, 700, 100}) {
        const auto layer = tracer.layer("net.linear" + std::to_string(width));
        x = linear(x, width).relu();
      }
    }
    const at::Tensor outside = at::ones({1000});
  }
  EXPECT_EQ(tracer.peak_allocated(), counted.peak - before);
  EXPECT_EQ(sum(tracer.get_memory_at_peak()), counted.peak - before);
  EXPECT_EQ(sum(tracer.get_memory_by_use()), counted.peak - before);
  EXPECT_EQ(tracer.allocated(), counted.live - before);
}

TEST(MemoryTracer, LayerPeaksMatchStepByStepRuns) {
  const at::Tensor input = at::ones({64, 100});
  const std::vector<std::int64_t> widths{300, 20, 900, 100, 400};
  // Step by step, with the counting allocator only.
  std::map<std::string, std::int64_t> stepped;
  {
    const std::int64_t before = counted.live;
    at::Tensor x = input;
    for (const std::int64_t width : widths) {
      counted.peak = counted.live.load();
      x = linear(x, width).relu();
      stepped["linear" + std::to_string(width)] = counted.peak - before;
    }
  }
  MemoryTracer tracer(on_cpu());
  {
    const auto trace = tracer.trace();
    at::Tensor x = input;
    for (const std::int64_t width : widths) {
      const auto layer = tracer.layer("linear" + std::to_string(width));
      x = linear(x, width).relu();
    }
  }
  EXPECT_EQ(tracer.get_peak_memory_per_layer(), stepped);
}

TEST(MemoryTracer, RestoresTheAllocatorAndStillSeesReleases) {
  ASSERT_EQ(c10::GetCPUAllocator(), &counting());
  at::Tensor kept;
  MemoryTracer tracer(on_cpu());
  {
    const auto trace = tracer.trace();
    EXPECT_NE(c10::GetCPUAllocator(), &counting());
    const auto inner = tracer.trace();
    kept = at::ones({1000});
  }
  EXPECT_EQ(c10::GetCPUAllocator(), &counting());
  EXPECT_EQ(tracer.allocated(), 4000);
  const at::Tensor unseen = at::ones({500});
  EXPECT_EQ(tracer.allocated(), 4000);
  kept.reset();
  EXPECT_EQ(tracer.allocated(), 0);
  try {
    const auto trace = tracer.trace();
    const auto layer = tracer.layer("fails");
    throw std::runtime_error("out of memory");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(c10::GetCPUAllocator(), &counting());
  EXPECT_THAT(tracer.get_layer_stats(), Contains(Key("fails")));
}

TEST(MemoryTracer, ReleasesBlocksResizedAfterTheTrace) {
  const std::int64_t before = counted.live;
  {
    at::Tensor kept;
    {
      MemoryTracer tracer(on_cpu());
      const auto trace = tracer.trace();
      kept = at::ones({10});
    }
    kept.resize_({100'000});
    EXPECT_EQ(counted.live - before, 400'000);
  }
  EXPECT_EQ(counted.live, before);
}

// Threads that free each other's blocks, layers that open and close, and a reader, all at the same time.
TEST(MemoryTracer, LosesNothingWhenThreadsInteract) {
  const std::int64_t before = counted.live;
  counted.peak = before;
  MemoryTracer tracer(on_cpu()), other(on_cpu());
  constexpr int kThreads = 4, kRounds = 400;
  std::mutex lock;
  std::vector<at::Tensor> shared;
  std::atomic<int> running{kThreads};
  const auto work = [&](int number) {
    std::mt19937 random(static_cast<unsigned>(number));
    const std::string name = "thread" + std::to_string(number);
    for (int i = 0; i < kRounds; ++i) {
      const auto outer = tracer.layer(name);
      at::Tensor block = at::empty({static_cast<std::int64_t>(1 + random() % 1000)});
      const auto inner = tracer.layer(name + ".inner");
      const at::Tensor scratch = at::empty({100});
      const std::lock_guard held(lock);
      if (shared.size() < 50)
        shared.push_back(std::move(block));
      else
        std::swap(shared[random() % shared.size()], block);
    }
    --running;
  };
  {
    const auto trace = tracer.trace();
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
    while (running > 0) {
      const auto also = other.trace();
      // The peak never decreases, and each result is consistent.
      const std::int64_t by_use = sum(tracer.get_memory_by_use());
      EXPECT_LE(by_use, tracer.peak_allocated());
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(tracer.allocated(), counted.live - before);
  EXPECT_EQ(sum(tracer.get_memory_at_peak()), tracer.peak_allocated());
  EXPECT_EQ(sum(tracer.get_memory_by_use()), tracer.peak_allocated());
  std::int64_t allocations = 0, releases = 0;
  for (const auto& [name, layer] : tracer.get_layer_stats()) {
    EXPECT_EQ(layer.calls, kRounds) << name;
    allocations += layer.total_allocations;
    releases += layer.total_deallocations;
  }
  EXPECT_EQ(allocations, 2 * kThreads * kRounds);
  EXPECT_EQ(allocations - releases, static_cast<std::int64_t>(shared.size()));
  shared.clear();
  EXPECT_EQ(tracer.allocated(), 0);
  EXPECT_EQ(counted.live, before);
}

TEST(MemoryTracer, TorchScriptModulesAreLayersAndHaveWeights) {
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  torch::jit::Module inner("__torch__.Inner", unit);
  inner.define("def forward(self, x):\n  return torch.relu(x)\n");
  torch::jit::Module outer("__torch__.Outer", unit);
  outer.register_module("act", inner);
  outer.register_parameter("weight", at::ones({100, 10}), false);
  outer.register_buffer("mean", at::zeros({10}));
  outer.define("def forward(self, x):\n  return self.act.forward(x) + self.act.forward(x * x)\n");
  MemoryTracer tracer(on_cpu());
  const at::Tensor input = at::ones({100});
  {
    const auto trace = tracer.trace(outer);
    const at::NoGradGuard inference;
    for (int i = 0; i < 5; ++i) outer.forward({input});
  }
  const auto stats = tracer.get_layer_stats();
  EXPECT_EQ(stats.at("act").allocated_bytes, 5 * 2 * 400);
  EXPECT_EQ(stats.at("Outer").allocated_bytes, 5 * 2 * 400);
  EXPECT_EQ(tracer.get_memory_by_use().weights, 4040);
  EXPECT_EQ(tracer.get_memory_at_peak().at("(before the trace)"), 4040);
}

TEST(MemoryTracer, ExportsAreValidForTheirReaders) {
  const test::TemporaryFolder folder;
  MemoryTracer tracer(on_cpu());
  {
    const auto trace = tracer.trace();
    const auto layer = tracer.layer("quoted \" and \xff");
    const at::Tensor block = at::ones({100});
  }
  const auto read = [&](const char* name) {
    std::ifstream file(folder / name);
    return nlohmann::json::parse(file);
  };
  tracer.export_timeline((folder / "timeline.json").string());
  const auto timeline = read("timeline.json");
  EXPECT_EQ(timeline["events"].size(), tracer.get_events().size());
  EXPECT_EQ(timeline["layer_stats"].size(), 1);
  EXPECT_EQ(timeline["summary"]["peak_allocated"], 400);
  tracer.export_flame_graph((folder / "flame.json").string());
  const auto flame = read("flame.json");
  EXPECT_EQ(flame["profiles"][0]["unit"], "bytes");
  EXPECT_EQ(flame["profiles"][0]["weights"], nlohmann::json::array({400}));
  EXPECT_EQ(flame["profiles"][2]["events"].size(), 2);
  EXPECT_THAT(tracer.summary(), HasSubstr("peak 0.00 MiB"));
  EXPECT_THROW(tracer.export_timeline((folder / "no" / "file").string()), std::runtime_error);
}

TEST(MemoryTracer, RejectsInvalidOptionsWithAMessage) {
  MemoryTracerOptions options;
  options.device = "gpu";
  EXPECT_THROW(MemoryTracer{options}, std::invalid_argument);
  options = on_cpu();
  options.record_to = "/no/such/folder/a.hrec";
  try {
    const MemoryTracer tracer(options);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/no/such/folder/a.hrec"));
  }
}

}  // namespace
}  // namespace headroom
