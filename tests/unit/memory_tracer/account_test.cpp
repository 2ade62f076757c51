// Compares the accounts with slow ones that store everything.
#include "memory_tracer/account.h"

#include <gmock/gmock.h>

#include <map>
#include <numeric>
#include <random>

namespace headroom::memory_tracer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ThreadId kThread = 0, kOther = 1;

std::int64_t sum_of_account(const BytesByUse& use) {
  return std::accumulate(use.begin(), use.end(), std::int64_t{0});
}

std::vector<std::int64_t> at_peak(const DeviceAccount& account) {
  std::vector<std::int64_t> bytes;
  for (const LayerFigures& layer : account.layers) bytes.push_back(layer.at(account.latest_peak));
  return bytes;
}

// Random layers and blocks in two threads; the reference copies all layers' bytes at every new peak.
TEST(MemoryAccount, LayersAddUpToThePeakLikeFullCopies) {
  Account account(100, kCpu, true);
  std::vector<LayerId> layers;
  for (const char* name : {"a", "b", "c", "d"})
    layers.push_back(account.add_layer(name, kOutside, LayerKind::module));
  account.begin(1);
  account.set_weights({{8, 1000, kCpu}, {16, 500, kCpu}});
  std::mt19937 random(7);
  std::vector<std::uint64_t> live;
  std::vector<std::int64_t> held(layers.back() + 1), held_at_peak;
  std::map<std::uint64_t, std::pair<LayerId, std::int64_t>> blocks;
  held[kBefore] = 1500;
  std::int64_t total = 1500, peak = 1500;
  held_at_peak = held;
  std::uint64_t next_address = 64;
  std::int64_t time = 2;
  for (int i = 0; i < 20'000; ++i, ++time) {
    const ThreadId thread = random() % 2;
    switch (random() % 5) {
      case 0:
        account.enter(thread, layers[random() % layers.size()], time);
        break;
      case 1:
        account.leave(thread, time);
        break;
      case 2:
      case 3: {
        const std::int64_t bytes = 1 + static_cast<std::int64_t>(random() % 5000);
        const LayerId layer = account.current_layer(thread);
        account.allocated(thread, kCpu, next_address, static_cast<std::uint64_t>(bytes), time);
        blocks[next_address] = {layer, bytes};
        live.push_back(next_address);
        next_address += 64;
        held[layer] += bytes;
        total += bytes;
        if (total > peak) {
          peak = total;
          held_at_peak = held;
        }
        break;
      }
      default: {
        if (live.empty()) break;
        std::swap(live[random() % live.size()], live.back());
        const auto [layer, bytes] = blocks[live.back()];
        account.released(thread, kCpu, live.back(), time, true);
        live.pop_back();
        held[layer] -= bytes;
        total -= bytes;
      }
    }
    const DeviceAccount& cpu = *account.find(kCpu);
    ASSERT_EQ(cpu.allocated, total);
    ASSERT_EQ(sum_of_account(cpu.by_use), total);
    ASSERT_EQ(sum_of_account(cpu.by_use_at_peak), peak);
  }
  const DeviceAccount& cpu = *account.find(kCpu);
  EXPECT_EQ(cpu.peak, peak);
  EXPECT_EQ(at_peak(cpu), held_at_peak);
}

TEST(MemoryAccount, PeakOfALayerIsTheDevicesPeakWhileItRan) {
  Account account(0, kCpu, true);
  const LayerId outer = account.add_layer("outer", kOutside, LayerKind::module);
  const LayerId inner = account.add_layer("inner", outer, LayerKind::module);
  account.begin(1);
  account.allocated(kThread, kCpu, 8, 100, 1);  // before both layers
  account.enter(kThread, outer, 2);
  account.enter(kThread, inner, 3);
  account.allocated(kThread, kCpu, 16, 50, 4);
  account.released(kThread, kCpu, 16, 5, true);
  account.leave(kThread, 6);
  account.released(kThread, kCpu, 8, 7, true);
  account.allocated(kOther, kCpu, 24, 120, 8);  // in another thread, while `outer` runs
  account.leave(kThread, 9);
  account.allocated(kThread, kCpu, 32, 1000, 10);
  const DeviceAccount& cpu = *account.find(kCpu);
  EXPECT_EQ(cpu.layers[inner].peak_allocated, 150);
  EXPECT_EQ(cpu.layers[outer].peak_allocated, 150);
  EXPECT_EQ(cpu.peak, 1120);
  EXPECT_EQ(account.time_of(outer), 7);
  account.enter(kThread, inner, 11);
  account.leave(kThread, 12);
  EXPECT_EQ(cpu.layers[inner].peak_allocated, 1120);
}

TEST(MemoryAccount, AssignsUseByPhaseAndLifetime) {
  Account account(0, kCpu, true);
  const LayerId conv = account.add_layer("conv", kOutside, LayerKind::module);
  const LayerId backward = account.add_layer("backward", kOutside, LayerKind::backward);
  const LayerId step = account.add_layer("optimizer.step", kOutside, LayerKind::optimizer);
  account.begin(1);
  account.set_weights({{8, 1, kCpu}});
  account.allocated(kThread, kCpu, 16, 10, 1);  // outside all layers
  account.enter(kThread, conv, 1);
  account.allocated(kThread, kCpu, 24, 100, 1);
  account.allocated(kThread, kCpu, 32, 1000, 1);
  account.released(kThread, kCpu, 32, 1, true);  // workspace, although this is known only after the peak
  account.leave(kThread, 1);
  EXPECT_THAT(account.find(kCpu)->by_use_at_peak, ElementsAre(1, 100, 0, 0, 1000, 10));
  account.enter(kThread, backward, 1);
  account.allocated(kThread, kCpu, 40, 10'000, 1);
  account.leave(kThread, 1);
  account.enter(kThread, step, 1);
  account.allocated(kThread, kCpu, 48, 100'000, 1);
  account.leave(kThread, 1);
  account.released(kThread, kCpu, 24, 1, true);
  EXPECT_THAT(account.find(kCpu)->by_use_at_peak, ElementsAre(1, 100, 10'000, 100'000, 0, 10));
  // A model created inside a trace: blocks outside layers turn out to be weights.
  account.set_weights({{16, 10, kCpu}});
  EXPECT_THAT(account.find(kCpu)->by_use, ElementsAre(10, 0, 10'000, 100'000, 0, 0));
}

TEST(MemoryAccount, DropsEarlierWeightsWithTheirModel) {
  Account account(0, kCpu, true);
  account.begin(1);
  account.set_weights({{8, 300, kCpu}, {8, 300, kCpu}, {0, 7, kCpu}});
  EXPECT_EQ(account.find(kCpu)->allocated, 300);
  account.set_weights({{16, 40, kCpu}, {24, 2, 3}});
  EXPECT_EQ(account.find(kCpu)->allocated, 40);
  EXPECT_EQ(account.find(3)->allocated, 2);
  // Its address is allocated again: its release was not seen.
  account.allocated(kThread, kCpu, 16, 5, 1);
  EXPECT_EQ(account.find(kCpu)->allocated, 5);
  EXPECT_FALSE(account.released(kThread, kCpu, 99, 1, true));
  EXPECT_EQ(account.find(kCpu)->allocated, 5);
  account.set_weights({{32, 1000, kCpu}}, true);  // the model of a nested trace
  EXPECT_EQ(account.find(kCpu)->allocated, 1005);
  account.set_weights({{40, 20, kCpu}});
  EXPECT_EQ(account.find(kCpu)->allocated, 25);
}

TEST(MemoryAccount, UsesTheAllocatorsReserve) {
  Account account(100, 1, true);
  const LayerId conv = account.add_layer("conv", kOutside, LayerKind::module);
  account.begin(1);
  account.set_reserve(1, 2000, 500);  // 500 bytes of unknown origin
  account.enter(kThread, conv, 1);
  account.allocated(kThread, 1, 512, 500, 1);
  account.change_reserve(1, 1000);
  account.leave(kThread, 2);
  const DeviceAccount& cuda = *account.find(1);
  EXPECT_EQ(cuda.peak, 1000);
  EXPECT_EQ(cuda.layers[conv].peak_reserved, 3000);
  EXPECT_THAT(at_peak(cuda), ElementsAre(0, 500, 500));
  EXPECT_DOUBLE_EQ(cuda.fragmentation(), 2.0 / 3);
  // The next trace sets the totals again.
  account.set_reserve(1, 3000, 1000);
  EXPECT_EQ(cuda.allocated, 1000);
}

// For example, rebinding the input inside a trace, or zero_grad() on gradients of an earlier step.
TEST(MemoryAccount, AcceptsReleasesOfEarlierBlocks) {
  Account account(100, 1, true);
  account.begin(1);
  account.set_reserve(1, 2000, 1000);
  EXPECT_FALSE(account.released(kThread, 1, 512, 1, true, 600));
  account.allocated(kThread, 1, 1024, 500, 1);
  EXPECT_EQ(account.find(1)->peak, 1000);
  EXPECT_EQ(account.find(1)->allocated, 900);
  // Between two traces, releases may be unreported.
  account.set_reserve(1, 2000, 600);
  EXPECT_EQ(account.find(1)->allocated, 600);
  EXPECT_FALSE(account.released(kThread, 1, 2048, 1, false, 700)) << "more than was counted";
  EXPECT_EQ(account.find(1)->allocated, 500);
  // On the CPU, memory from before the trace was not counted.
  account.allocated(kThread, kCpu, 8, 100, 1);
  EXPECT_FALSE(account.released(kThread, kCpu, 16, 1, true, 50));
  EXPECT_EQ(account.find(kCpu)->allocated, 100);
}

TEST(MemoryAccount, ReportsLayersThatGrowWithEveryTrace) {
  Account account(0, kCpu, true);
  const LayerId leaking = account.add_layer("leaking", kOutside, LayerKind::module);
  const LayerId steady = account.add_layer("steady", kOutside, LayerKind::module);
  std::uint64_t address = 8;
  for (int trace = 0; trace < 4; ++trace, address += 64) {
    account.begin(1);
    account.enter(kThread, leaking, 1);
    account.allocated(kThread, kCpu, address, 70, 1);
    account.leave(kThread, 1);
    account.enter(kThread, steady, 1);
    account.allocated(kThread, kCpu, address + 8, 100, 1);
    account.leave(kThread, 1);
    if (trace > 0) account.released(kThread, kCpu, address - 64 + 8, 1, true);
    account.remember_kept();
  }
  EXPECT_THAT(account.growth(kCpu), IsEmpty());  // too few to decide
  account.begin(1);
  account.enter(kThread, leaking, 1);
  account.allocated(kThread, kCpu, address, 70, 1);
  account.leave(kThread, 1);
  account.remember_kept();
  const auto growth = account.growth(kCpu);
  ASSERT_EQ(growth.size(), 1);
  EXPECT_EQ(growth[0].layer, leaking);
  EXPECT_EQ(growth[0].bytes_per_trace, 70);
  EXPECT_EQ(growth[0].live, 350);
  account.released(kThread, kCpu, 8, 1, false);
  account.remember_kept();
  EXPECT_THAT(account.growth(kCpu), IsEmpty());
}

TEST(MemoryAccount, FindsForwardLayersByOperatorNumber) {
  ForwardLayers layers;
  layers.note(7, 10, 2);
  layers.note(7, 10, 3);  // no operator in 2
  layers.note(7, 13, 2);
  layers.note(9, 11, 5);
  EXPECT_EQ(layers.find(7, 9), std::nullopt);
  EXPECT_EQ(layers.find(7, 10), 3);
  EXPECT_EQ(layers.find(7, 12), 3);
  EXPECT_EQ(layers.find(7, 13), 2);
  EXPECT_EQ(layers.find(9, 12), 5);
  EXPECT_EQ(layers.find(8, 12), std::nullopt);
}

TEST(MemoryAccount, ParsesTorchScriptPlaces) {
  const ScriptPlace place =
      parse_script_place({"TOP(Net)::forward", "layer1(Sequential)::forward", "SELF(Net)::own",
                          "0(Block)::forward", "INSTANCE_NAME_UNKNOWN(x)::y", "::relu", ")("});
  EXPECT_TRUE(place.is_in_module);
  EXPECT_EQ(place.root, "Net");
  EXPECT_THAT(place.names, ElementsAre("layer1", "0"));
  EXPECT_FALSE(parse_script_place({"::function"}).is_in_module);
}

TEST(MemoryAccount, NestsTorchScriptLayersInTheirCall) {
  Account account(0, kCpu, true);
  const auto names_of = [&](const std::vector<LayerId>& path) {
    std::vector<std::string> names;
    for (const LayerId layer : path) names.push_back(account.layers()[layer].name);
    return names;
  };
  account.begin(1);
  EXPECT_THAT(names_of(account.script_layers(kThread, "Net", {"a", "b"})), ElementsAre("Net", "a", "a.b"));
  account.enter(kThread, account.add_root("Other", "Other."), 1);
  EXPECT_THAT(names_of(account.script_layers(kThread, "Other", {"a", "b"})),
              ElementsAre("Other.a", "Other.a.b"));
  account.enter(kThread, account.add_layer("backbone", kOutside, LayerKind::module), 1);
  EXPECT_THAT(names_of(account.script_layers(kThread, "Net", {"a"})), ElementsAre("backbone.a"));
  EXPECT_THAT(account.open_script_layers(kThread), IsEmpty());
}

TEST(MemoryAccount, FindsAnUncalledContainerIfItIsUnique) {
  Account account(0, kCpu, true);
  const LayerId net = account.add_root("Net", "");
  for (const char* list : {"blocks", "heads"}) {
    const LayerId container = account.add_layer(list, net, LayerKind::module);
    account.add_layer(std::string(list) + ".0", container, LayerKind::module);
  }
  account.add_layer("blocks.1", account.add_layer("blocks", net, LayerKind::module), LayerKind::module);
  account.begin(1);
  account.enter(kThread, net, 1);
  const auto name_of_layer = [&](const char* name) {
    return account.layers()[account.script_layers(kThread, "Net", {name}).back()].name;
  };
  EXPECT_EQ(name_of_layer("1"), "blocks.1");
  EXPECT_EQ(name_of_layer("0"), "0");  // its list is unknown
  EXPECT_EQ(name_of_layer("blocks"), "blocks");
  EXPECT_EQ(name_of_layer("new"), "new");
}

TEST(MemoryAccount, AddressMapMatchesAStandardMap) {
  AddressMap<Block> blocks;
  std::map<std::uint64_t, std::uint64_t> expected;
  std::mt19937 random(3);
  for (int i = 0; i < 50'000; ++i) {
    // Few addresses, so that they collide and are reused.
    const std::uint64_t address = 64 * (1 + random() % 1500);
    if (random() % 2 == 0 && !expected.contains(address)) {
      blocks.set(address, {static_cast<std::uint64_t>(i), 0, 0, 0, Use::other, false});
      expected[address] = static_cast<std::uint64_t>(i);
    } else {
      blocks.erase(address);
      expected.erase(address);
    }
    const Block* const found = blocks.find(address);
    ASSERT_EQ(found != nullptr, expected.contains(address));
    if (found != nullptr) {
      ASSERT_EQ(found->bytes, expected[address]);
    }
  }
  ASSERT_EQ(blocks.size(), expected.size());
  blocks.for_each(
      [&](std::uint64_t address, const Block& block) { ASSERT_EQ(block.bytes, expected[address]); });
}

TEST(MemoryAccount, ParsesDeviceNames) {
  EXPECT_EQ(device_of("cpu"), kCpu);
  EXPECT_EQ(device_of("cuda"), 1);
  EXPECT_EQ(device_of("cuda:15"), 16);
  EXPECT_EQ(name_of(3), "cuda:2");
  for (const char* name : {"", "cuda:", "cuda:16", "cuda:-1", "cuda:1x", "gpu", "cuda:99999999999"})
    EXPECT_EQ(device_of(name), kDevices) << name;
}

}  // namespace
}  // namespace headroom::memory_tracer
