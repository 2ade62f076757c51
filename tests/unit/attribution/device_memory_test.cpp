// GPU memory: the peak, its owners, refused requests, and the owners of the remaining memory.

#include "unit/attribution/analyze.h"

namespace headroom::attribution {
namespace {

using test::RecordingBuilder;
using Memory = DeviceMemoryKind;

class DeviceMemory : public testing::Test {
 protected:
  const DeviceKindFigures& kind(const DeviceFigures& figures, Memory memory) {
    for (const DeviceKindFigures& one : figures.kinds)
      if (one.kind == memory) return one;
    ADD_FAILURE() << "no such kind";
    return figures.kinds.front();
  }
  test::TemporaryFolder folder_;
  RecordingBuilder builder_{folder_ / "a.hrec"};
};

TEST_F(DeviceMemory, AttributesPeakToStacksAndLayers) {
  const auto conv = builder_.scope("conv"), head = builder_.scope("head");
  builder_.enter_scope(0, 1, conv);
  builder_.device_allocate(0, 10, 0, Memory::device, 0x1000, 600, {0x10});
  builder_.enter_scope(0, 11, head);
  builder_.device_allocate(0, 20, 0, Memory::pool, 0x2000, 400, {0x20});
  builder_.device_release(0, 30, 0, Memory::device, 0x1000);
  builder_.device_allocate(0, 40, 0, Memory::device, 0x3000, 100, {0x10});
  const RecordingAnalysis analysis = analyze(builder_);
  ASSERT_EQ(analysis.devices.size(), 1u);
  const DeviceFigures& device = analysis.devices[0];
  EXPECT_EQ(device.peak_bytes, 1000);
  EXPECT_EQ(device.peak_time.count, 20);
  EXPECT_EQ(device.end_bytes, 500);
  EXPECT_EQ(kind(device, Memory::device).at_peak_bytes, 600);
  EXPECT_EQ(kind(device, Memory::device).end_bytes, 100);
  EXPECT_EQ(kind(device, Memory::device).allocations, 2);
  EXPECT_EQ(kind(device, Memory::device).releases, 1);
  ASSERT_EQ(device.layers.size(), 2u);
  EXPECT_EQ(analysis.layers[device.layers[0].index].path, "conv");
  EXPECT_EQ(device.layers[0].at_peak_bytes, 600);
  EXPECT_EQ(device.layers[1].at_peak_bytes, 400);
  EXPECT_EQ(device.layers[1].end_bytes, 500);
  EXPECT_EQ(device.stacks[0].at_peak_bytes, 600);
  // GPU memory does not count as heap.
  EXPECT_EQ(analysis.peak_bytes.value, 0);
  EXPECT_EQ(analysis.allocations, 0);
}

TEST_F(DeviceMemory, CurveKeepsEveryPeakInFewPoints) {
  std::uint64_t time = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    builder_.device_allocate(0, time += 10, 0, Memory::device, 0x1000, i == 500 ? 9000 : 100);
    builder_.device_release(0, time += 10, 0, Memory::device, 0x1000);
  }
  builder_.device_allocate(0, time += 100'000, 0, Memory::pinned_host, 0x1000, 5);  // not GPU memory
  builder_.device_allocate(0, time += 100'000, 0, Memory::device, 0x1000, 70);
  const RecordingAnalysis analysis = analyze(builder_, {.timeline_points = 50});
  const DeviceCurve& curve = analysis.devices[0].curve;
  ASSERT_FALSE(curve.points.empty());
  EXPECT_LE(curve.points.size(), 50u);
  std::int64_t highest = 0, before = -1;
  for (const DeviceCurvePoint& point : curve.points) {
    EXPECT_GT(point.start.count, before);
    EXPECT_LE(point.lowest, point.last);
    EXPECT_LE(point.last, point.highest);
    EXPECT_EQ(point.lowest, 0);
    before = point.start.count;
    highest = std::max(highest, point.highest);
  }
  EXPECT_EQ(highest, 9000);
  EXPECT_EQ(curve.points.back().last, 70);
  EXPECT_LE(curve.points.back().start.count, static_cast<std::int64_t>(time));
  EXPECT_GT((curve.points.back().start + curve.width).count, static_cast<std::int64_t>(time));
}

// The recorded duration of a killed process is too short. The builder then merges points and keeps every
// peak.
TEST(DeviceCurve, MergesPointsWhenRecordingIsLonger) {
  DeviceCurveBuilder builder(4, {40});
  for (std::int64_t time = 0; time < 1000; ++time) builder.changed(time, time, time == 700 ? 5000 : time + 1);
  const DeviceCurve curve = builder.curve();
  EXPECT_LE(curve.points.size(), 4u);
  std::int64_t highest = 0;
  for (const DeviceCurvePoint& point : curve.points) {
    EXPECT_EQ(point.start.count % curve.width.count, 0);
    highest = std::max(highest, point.highest);
  }
  EXPECT_EQ(highest, 5000);
  EXPECT_EQ(curve.points.front().lowest, 0);
  EXPECT_EQ(curve.points.back().last, 1000);
}

TEST_F(DeviceMemory, ReservationsImportsAndPinnedMemoryAreSeparate) {
  builder_.device_allocate(0, 10, 0, Memory::physical, 1, 100);
  builder_.device_allocate(0, 11, 0, Memory::mapping, 0x1000, 100);
  builder_.device_allocate(0, 12, 0, Memory::reservation, 0x1000, 10'000);
  builder_.device_allocate(0, 13, 0, Memory::imported, 0x5000, 1000);
  builder_.device_allocate(0, 14, 0, Memory::pinned_host, 0x6000, 70);
  builder_.device_figure(0, 15, 0, Memory::pool_reserved, 32);
  builder_.device_figure(0, 16, 0, Memory::pool_reserved, 8);
  const RecordingAnalysis analysis = analyze(builder_);
  const DeviceFigures& device = analysis.devices[0];
  EXPECT_EQ(device.peak_bytes, 100);
  EXPECT_FALSE(kind(device, Memory::mapping).in_total);
  EXPECT_FALSE(kind(device, Memory::pinned_host).in_total);
  EXPECT_EQ(kind(device, Memory::reservation).peak_bytes, 10'000);
  EXPECT_EQ(device.pool_reserved_peak_bytes, 32);
  EXPECT_EQ(device.pool_reserved_end_bytes, 8);
  EXPECT_FALSE(device.overhead_bytes.has_value());
}

TEST_F(DeviceMemory, MeasuredFiguresAreTheirMaximum) {
  builder_.device_figure(0, 8, 0, Memory::overhead, 300);
  builder_.device_figure(0, 9, 0, Memory::overhead, 0);  // the context ended
  builder_.device_figure(0, 10, 0, Memory::context, 500);
  builder_.device_figure(0, 11, 0, Memory::driver_growth, 0);
  builder_.device_figure(0, 12, 1, Memory::driver_growth, 7);
  builder_.device_figure(0, 13, 1, Memory::driver_growth, 0);
  const RecordingAnalysis analysis = analyze(builder_);
  EXPECT_EQ(analysis.devices[0].overhead_bytes, 300);
  EXPECT_EQ(analysis.devices[0].context_bytes, 500);
  EXPECT_FALSE(analysis.devices[0].driver_growth_bytes.has_value()) << "nothing";
  EXPECT_EQ(analysis.devices[1].driver_growth_bytes, 7);
}

TEST_F(DeviceMemory, IntegratedDeviceCountsPinnedMemory) {
  recording::DeviceRecord record{};
  record.flags = recording::kDeviceIntegrated;
  builder_.device(0, record, "Orin");
  builder_.device_allocate(0, 14, 0, Memory::pinned_host, 0x6000, 70);
  // Registered memory existed before, e.g. a model's weights in a mapped file. Registering it does not add
  // to the device's bytes.
  builder_.device_allocate(0, 15, 0, Memory::registered_host, 0x9000, 4000);
  const RecordingAnalysis analysis = analyze(builder_);
  EXPECT_EQ(analysis.devices[0].peak_bytes, 70);
  EXPECT_FALSE(kind(analysis.devices[0], Memory::registered_host).in_total);
  EXPECT_EQ(kind(analysis.devices[0], Memory::registered_host).peak_bytes, 4000);
}

TEST_F(DeviceMemory, RefusalReportsBytesLostToGranules) {
  constexpr std::uint64_t kMiB = 1 << 20;
  builder_.device_allocate(0, 10, 0, Memory::device, 0x1000, 7 * kMiB, {0x10});
  builder_.device_allocate(0, 11, 0, Memory::device, 0x2000, 7 * kMiB, {0x10});
  builder_.device_refused(0, 12, 0, Memory::device, 7 * kMiB, 16 * kMiB, 20 * kMiB, {0x10});
  const RecordingAnalysis analysis = analyze(builder_);
  const DeviceRefusal& refusal = analysis.devices[0].refusals.at(0);
  EXPECT_EQ(refusal.own_bytes, 14 << 20);
  EXPECT_EQ(refusal.rounding_bytes, 2 << 20) << "no other process has memory";
}

TEST_F(DeviceMemory, RefusalListsOwnersOfRemainingMemory) {
  builder_.device_allocate(0, 10, 0, Memory::device, 0x1000, 600, {0x10});
  builder_.device_allocate(0, 11, 0, Memory::device, 0x2000, 300, {0x20});
  builder_.device_refused(0, 12, 0, Memory::managed, 200, 950, 1000, {0x30});
  const RecordingAnalysis analysis = analyze(builder_);
  const DeviceFigures& device = analysis.devices[0];
  EXPECT_EQ(device.refused_count, 1);
  EXPECT_EQ(device.refused_bytes, 200);
  ASSERT_EQ(device.refusals.size(), 1u);
  const DeviceRefusal& refusal = device.refusals[0];
  EXPECT_EQ(refusal.kind, Memory::managed);
  EXPECT_EQ(refusal.charged, 950);
  EXPECT_EQ(refusal.own_bytes, 900) << "the rest is another process'";
  EXPECT_EQ(refusal.limit, 1000);
  ASSERT_EQ(refusal.holders.size(), 2u);
  EXPECT_EQ(refusal.holders[0].bytes, 600);
}

// Two threads are refused at the same time. Each refusal lists the processes that its own thread recorded.
TEST_F(DeviceMemory, RefusalListsProcesses) {
  builder_.process_name(300, "detector");
  builder_.device_allocate(0, 10, 0, Memory::device, 0x1000, 500);
  builder_.device_holder(0, 11, 0, 7, 7);  // belongs to no refusal
  builder_.device_refused(0, 12, 0, Memory::device, 200, 950, 1000);
  builder_.device_refused(1, 13, 0, Memory::device, 201, 900, 1000);
  builder_.device_holder(0, 14, 0, 0, 550);
  builder_.device_holder(1, 15, 0, 300, 900, true);  // process 300 of another container
  builder_.device_holder(0, 16, 0, 300, 330);
  const RecordingAnalysis analysis = analyze(builder_);
  const DeviceRefusal& refusal = analysis.devices[0].refusals.at(0);
  ASSERT_EQ(refusal.processes.size(), 2u);
  EXPECT_EQ(refusal.processes[1].name, "detector");
  const DeviceRest rest = rest_of(refusal);
  EXPECT_EQ(rest.kept, 50) << "charged, and not allocated";
  ASSERT_EQ(rest.others.size(), 1u);
  EXPECT_EQ(rest.others[0].pid, 300);
  EXPECT_EQ(rest.others[0].bytes, 330);
  EXPECT_EQ(rest.unknown, 950 - 550 - 330);
  EXPECT_FALSE(rest.names_none);
  EXPECT_FALSE(rest.has_more_processes) << "no other process: one released it meanwhile";
  ASSERT_EQ(analysis.devices[0].refusals.at(1).processes.size(), 1u);
  EXPECT_TRUE(analysis.devices[0].refusals[1].processes[0].is_elsewhere);
  EXPECT_EQ(analysis.devices[0].refusals[1].processes[0].name, "");
}

TEST_F(DeviceMemory, RefusalKeepsFourProcessesAndCountsTheRest) {
  builder_.device_refused(0, 12, 0, Memory::device, 200, 950, 1000);
  for (const std::uint32_t process : {0u, 301u, 302u, 303u, 304u})
    builder_.device_holder(0, 13, 0, process, 200);
  const DeviceRefusal refusal = analyze(builder_).devices[0].refusals.at(0);
  EXPECT_EQ(refusal.processes.size(), 4u) << "a recording keeps four";
  const DeviceRest rest = rest_of(refusal);
  EXPECT_TRUE(rest.has_more_processes);
  EXPECT_EQ(rest.kept, 200);
  EXPECT_EQ(rest.unknown, 950 - 4 * 200);
  EXPECT_TRUE(rest_of({}).names_none);
}

// As RefusalReportsBytesLostToGranules, on a device with another granule size.
TEST_F(DeviceMemory, UsesGranuleSizeOfDevice) {
  constexpr std::uint64_t kKiB = 1 << 10;
  recording::DeviceRecord record{};
  record.granule_bytes = 64 << 10;
  builder_.device(0, record, "");
  builder_.device_allocate(0, 10, 0, Memory::device, 0x1000, 33 * kKiB);
  builder_.device_allocate(0, 11, 0, Memory::device, 0x2000, 32 * kKiB);  // shares a granule
  builder_.device_allocate(0, 12, 0, Memory::array, 0x3000, 65 * kKiB);
  EXPECT_EQ(analyze(builder_).devices[0].rounding_at_peak_bytes, (31 + 63) << 10);
}

}  // namespace
}  // namespace headroom::attribution
