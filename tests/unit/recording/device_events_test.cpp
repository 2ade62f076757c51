// GPU memory in a recording: events round-trip, older readers skip them, damage is reported.
#include "unit/recording/events.h"

namespace headroom::recording {
namespace {

using test::OwnRecording;
using Kind = MemoryEventKind;
using Memory = DeviceMemoryKind;

TEST(DeviceEvents, RoundTrip) {
  OwnRecording builder;
  const auto layer = builder.scope("conv1");
  builder.enter_scope(0, 5, layer);
  builder.device_allocate(0, 10, 3, Memory::physical, ~std::uint64_t{0}, std::uint64_t{1} << 40,
                          {0x10, 0x20});
  builder.device_figure(0, 11, 3, Memory::pool_reserved, 32 << 20);
  builder.device_refused(0, 12, 3, Memory::graph, 7, 8, 9, {0x10, 0x20});
  builder.device_release(0, 13, 3, Memory::physical, ~std::uint64_t{0});
  builder.device_holder(0, 14, 3, 4711, std::uint64_t{3} << 30, true);
  builder.process_name(4711, "detector\x1b");
  Recording recording = builder.open();
  const Seen seen = read_events(recording);
  EXPECT_TRUE(seen.problems.empty());
  ASSERT_EQ(seen.events.size(), 6u);
  const MemoryEvent& made = seen.events[1];
  EXPECT_EQ(made.kind, Kind::device_allocate);
  EXPECT_EQ(made.device, 3);
  EXPECT_EQ(made.device_kind, Memory::physical);
  EXPECT_EQ(made.address, ~std::uint64_t{0});
  EXPECT_EQ(made.size, std::uint64_t{1} << 40);
  EXPECT_EQ(made.scope, ScopeId{layer});
  EXPECT_EQ(recording.stacks().frames(made.stack).size(), 2u);
  EXPECT_EQ(seen.events[2].size, std::uint64_t{32} << 20);
  const MemoryEvent& refused = seen.events[3];
  EXPECT_EQ(refused.size, 7u);
  EXPECT_EQ(refused.count, 8u);
  EXPECT_EQ(refused.address, 9u);
  EXPECT_EQ(refused.stack, made.stack);
  EXPECT_EQ(seen.events[4].kind, Kind::device_release);
  const MemoryEvent& holder = seen.events[5];
  EXPECT_EQ(holder.kind, Kind::device_holder);
  EXPECT_EQ(holder.device, 3);
  EXPECT_EQ(holder.count, 4711u);
  EXPECT_EQ(holder.size, std::uint64_t{3} << 30);
  EXPECT_EQ(holder.address, 1u) << "of another PID namespace";
  EXPECT_EQ(holder.stack, StackId{});
  ASSERT_EQ(recording.info().processes.size(), 1u);
  EXPECT_TRUE(recording.info().processes.at(4711).starts_with("detector"));
}

TEST(DeviceEvents, DescribeDevices) {
  OwnRecording builder;
  DeviceRecord record{};
  record.total_bytes = 80;
  record.flags = kDeviceIntegrated;
  record.uuid[0] = 0xab;
  builder.device(2, record, "Orin");
  record.flags = kDeviceLimited | kDeviceLimitHard;
  record.granule_bytes = 2 << 20;
  builder.device(3, record, "");
  record.flags = kDeviceLimited | kDeviceLimitSoft;
  builder.device(4, record, "");
  Recording recording = builder.open();
  ASSERT_EQ(recording.info().devices.size(), 3u);
  EXPECT_EQ(recording.info().devices[1].proved_limit, LimitType::hard);
  EXPECT_EQ(recording.info().devices[1].granule_bytes, 2u << 20);
  EXPECT_EQ(recording.info().devices[2].proved_limit, LimitType::soft);
  const Device& device = recording.info().devices[0];
  EXPECT_EQ(device.ordinal, 2u);
  EXPECT_EQ(device.name, "Orin");
  EXPECT_EQ(device.uuid, "GPU-ab000000-0000-0000-0000-000000000000");
  EXPECT_EQ(device.total_bytes, 80u);
  EXPECT_TRUE(device.integrated);
  EXPECT_FALSE(device.limit_bytes.has_value());
  EXPECT_FALSE(device.proved_limit.has_value());
  EXPECT_EQ(device.granule_bytes, 0u);
}

TEST(DeviceEvents, SkipUnknownKindsAndDevices) {
  OwnRecording builder;
  // An unknown kind of memory, an unknown ordinal, and an unknown kind of extension.
  builder.device_allocate(0, 10, 0, static_cast<Memory>(99), 0x1000, 1);
  builder.device_allocate(0, 11, 1000, Memory::device, 0x1000, 1);
  builder.writer(0, 12)->device_figure(12, 0, 0, 5);
  builder.allocate(0, 13, 0x1000, 64);
  const Seen seen = read_events(builder.finish());
  EXPECT_TRUE(seen.problems.empty());
  ASSERT_EQ(seen.events.size(), 1u);
  EXPECT_EQ(seen.events[0].kind, Kind::allocate);
}

}  // namespace
}  // namespace headroom::recording
