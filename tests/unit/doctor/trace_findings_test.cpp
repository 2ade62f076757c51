// Findings in recordings and snapshots.
#include <algorithm>
#include <functional>

#include "doctor/recording/recording_findings.h"
#include "doctor/snapshot/snapshot_findings.h"
#include "snapshot/snapshot_reader.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

attribution::RecordingAnalysis healthy() {
  attribution::RecordingAnalysis analysis;
  analysis.complete = true;
  analysis.leaks.growth = monitoring::Growth::none;
  return analysis;
}

std::vector<Finding> findings_of(const attribution::RecordingAnalysis& analysis) {
  return doctor::recording_findings(analysis, {}, "a.hrec");
}

Finding only(const char* id, const std::vector<Finding>& findings) {
  EXPECT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.empty() ? "" : findings[0].id, id);
  return findings.empty() ? Finding() : findings[0];
}

std::string level_of(const Finding& finding) {
  const auto level = std::ranges::find(finding.figures, "level", &Figure::name);
  return level == finding.figures.end() ? "" : std::get<std::string>(level->value);
}

TEST(RecordingFindings, ReportsRefusedGpuRequestsAndOtherOwners) {
  attribution::RecordingAnalysis analysis = healthy();
  attribution::DeviceFigures& device = analysis.devices.emplace_back();
  device.ordinal = 1;
  EXPECT_THAT(findings_of(analysis), IsEmpty()) << "nothing was refused";
  device.refused_count = 3;
  attribution::DeviceRefusal small, large;
  small.bytes = 1 << 20;
  large.bytes = 40 << 20;
  large.charged = 90 << 20;
  large.limit = 100 << 20;
  large.own_bytes = 50 << 20;
  large.rounding_bytes = 10 << 20;
  large.stack = StackId{1};
  large.holders = {{StackId{2}, 30 << 20}, {StackId{3}, 20 << 20}};
  device.refusals = {small, large};
  const auto findings = doctor::recording_findings(
      analysis, {}, "a.hrec", [](StackId stack) { return "place " + std::to_string(stack.index); });
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "gpu-limit-refused");
  EXPECT_EQ(findings[0].title, "The limit of 100.0 MiB refused 3 requests for memory of GPU 1");
  EXPECT_EQ(findings[0].cause,
            "The largest requested 40.0 MiB when 90.0 MiB were charged. Holders of the charged memory: the "
            "program 60.0 MiB, other processes (or pools and graphs) 30.0 MiB.");
  analysis.devices[0].refusals[1].processes = {
      {0, 65 << 20}, {300, 15 << 20, false, "detector"}, {301, 5 << 20, true}};
  EXPECT_THAT(
      findings_of(analysis).at(0).cause,
      HasSubstr(
          "the program 60.0 MiB, its pools, graphs and shared granules 5.0 MiB, process 300 (detector) 15.0 "
          "MiB, process 301 in another container 5.0 MiB, and others released 5.0 MiB in the meantime."));
  ASSERT_EQ(findings[0].evidence.size(), 3U);
  EXPECT_EQ(findings[0].evidence[0].text, "refused: place 1");
  EXPECT_EQ(findings[0].evidence[1].text, "30.0 MiB held by place 2");
  EXPECT_THAT(findings[0].cures.at(1).what, HasSubstr("raise the limit by 30.0 MiB or more"));
}

TEST(RecordingFindings, ReportsThatLeaksWereNotJudged) {
  attribution::RecordingAnalysis analysis = healthy();
  analysis.leaks.growth = monitoring::Growth::unknown;
  EXPECT_EQ(only("leaks-not-judged", findings_of(analysis)).severity, Severity::note);
  // Memory that is live at the end is reported with its place. The user must judge it.
  analysis.leaked_bytes = {57 << 20};
  analysis.leaked_blocks = {200};
  analysis.stacks.resize(2);
  analysis.stacks[1].stack = StackId{1};
  analysis.stacks[1].live.end_bytes = 57 << 20;
  analysis.stacks[1].live.end_blocks = 200;
  const auto told =
      doctor::recording_findings(analysis, {}, "a.hrec", [](StackId) { return std::string("keep"); });
  EXPECT_THAT(told.at(0).title, HasSubstr("57.0 MiB were live at the end; Headroom did not check for leaks"));
  EXPECT_EQ(told[0].evidence.at(0).text, "57.0 MiB in 200 blocks, from keep");
}

// A recording of 12 s with a hundred points. Its memory is `bytes(share of the time)`.
attribution::RecordingAnalysis without_rounds(const std::function<std::int64_t(double)>& bytes) {
  attribution::RecordingAnalysis analysis = healthy();
  analysis.leaks.growth = monitoring::Growth::unknown;
  analysis.duration = Nanoseconds{12'000'000'000};
  analysis.timeline.width = Nanoseconds{120'000'000};
  for (std::int64_t i = 0; i < 100; ++i) {
    attribution::TimelinePoint point;
    point.start = Nanoseconds{analysis.timeline.width.count * i};
    point.lowest = point.last = bytes(static_cast<double>(i) / 100);
    point.highest = point.lowest + (20 << 20);  // temporary memory of a frame
    if (point.highest > analysis.peak_bytes.value) {
      analysis.peak_bytes = {point.highest};
      analysis.peak_time = point.start;
    }
    analysis.timeline.points.push_back(std::move(point));
  }
  return analysis;
}

TEST(RecordingFindings, ReportsSteadyGrowth) {
  const auto of_mebibytes = [](double count) { return static_cast<std::int64_t>(count * (1 << 20)); };
  auto grows = without_rounds([&](double share) { return of_mebibytes(30 + 120 * share); });
  grows.leaked_bytes = {140 << 20};
  const Finding leak = only("leak", doctor::recording_findings(grows, {}, "a b.hrec"));
  EXPECT_EQ(leak.severity, Severity::warning) << "a cache that fills does so, too";
  EXPECT_THAT(leak.title, HasSubstr("memory grew steadily, by 10."));
  EXPECT_NEAR(static_cast<double>(std::get<std::int64_t>(leak.figures.at(2).value)), 10 << 20, 0.3e6);
  EXPECT_EQ(level_of(leak), "process");
  EXPECT_EQ(leak.cures.at(0).command, "headroom report 'a b.hrec'");
  // The program releases its memory when it ends, in the last moments.
  const auto ends = without_rounds(
      [&](double share) { return share < 0.97 ? of_mebibytes(30 + 120 * share) : of_mebibytes(1); });
  EXPECT_THAT(doctor::recording_findings(ends, {}, "").at(0).cause, HasSubstr("released most of it"));

  const std::function<double(double)> kNoGrowth[] = {
      [](double) { return 150; },
      [](double share) { return std::min(150.0, 600 * share); },  // loaded in a quarter of the time
      [](double share) { return share < 0.5 ? 60 : 150; },        // one step
      [](double share) { return 400 + 20 * share; }};             // little of what there is
  for (const auto& mebibytes_at : kNoGrowth)
    only("leaks-not-judged",
         findings_of(without_rounds([&](double share) { return of_mebibytes(mebibytes_at(share)); })));
}

TEST(RecordingFindings, LeakNamesItsCycle) {
  attribution::RecordingAnalysis analysis = healthy();
  analysis.leaks.growth = monitoring::Growth::leak;
  analysis.leaks.cycle = "net/run";
  analysis.leaks.cycles = 40;
  analysis.leaks.bytes_per_cycle = 4096;
  analysis.leaks.late_bytes = 100'000;
  analysis.layers.resize(3);
  analysis.layers[1].path = "net/run";
  analysis.layers[2].path = "net/run/object";
  EXPECT_TRUE(doctor::recording_findings(analysis, {0, 10, 5000}, "a b.hrec")[0].evidence[0].text.empty());
  attribution::StackGrowth place;
  place.stack = StackId{7};
  place.growth = monitoring::Growth::leak;
  place.late_bytes = 3 << 20;
  analysis.leaks.stacks = {place};
  const auto findings = doctor::recording_findings(analysis, {0, 10, 5000}, "a b.hrec", [](StackId stack) {
    return "stack " + std::to_string(stack.index);
  });
  EXPECT_EQ(findings[0].evidence[0].text, "3.0 MiB more kept by stack 7");
  EXPECT_EQ(findings[0].evidence[0].file, "a b.hrec");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "leak");
  EXPECT_EQ(findings[0].severity, Severity::severe);
  EXPECT_THAT(findings[0].title, HasSubstr("net/run leaves 4.0 KiB more memory"));
  EXPECT_EQ(findings[0].cures[0].command, "headroom report 'a b.hrec'");
  EXPECT_THAT(findings[0].cause, HasSubstr("allocated in net/run/object is not released"));
  EXPECT_EQ(std::get<std::string>(findings[0].figures[0].value), "object");
  analysis.leaks.growth = monitoring::Growth::grew_then_stayed;
  EXPECT_THAT(findings_of(analysis), IsEmpty()) << "too little";
  analysis.leaks.live_bytes = {1 << 20, 4 << 20, 4 << 20};
  EXPECT_EQ(findings_of(analysis)[0].severity, Severity::note);
}

TEST(RecordingFindings, ReportsFragmentationAndIncompleteRecording) {
  attribution::RecordingAnalysis analysis = healthy();
  analysis.complete = false;
  analysis.problems = {"killed"};
  attribution::FragmentationMoment moment;
  moment.extent_bytes = 100 << 20;
  moment.free_bytes = 60 << 20;
  moment.largest_free_bytes = 20 << 20;
  analysis.fragmentation = attribution::HeapFragmentation{{moment}, 0, 0};
  const auto told = findings_of(analysis);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].id, "fragmentation");
  EXPECT_EQ(told[0].cures[0].saves, mebibytes(60));
  EXPECT_EQ(told[1].id, "recording-incomplete");
  // The average hole gives the threshold above which blocks should have their own mapping. glibc's threshold
  // is 128 KiB.
  const auto commands = [&](std::int64_t holes) {
    analysis.fragmentation->moments[0].holes = holes;
    std::vector<std::string> found;
    const auto findings = findings_of(analysis);
    for (const Cure& cure : findings.at(0).cures) found.push_back(cure.command);
    return found;
  };
  EXPECT_THAT(commands(900),
              ElementsAre("headroom report a.hrec", "MALLOC_MMAP_THRESHOLD_=65536 MALLOC_TOP_PAD_=32768",
                          "malloc_trim(0);"));
  EXPECT_THAT(commands(3),
              ElementsAre("headroom report a.hrec", "MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TOP_PAD_=65536",
                          "malloc_trim(0);"));
  EXPECT_THAT(commands(60'000), ElementsAre("headroom report a.hrec", "malloc_trim(0);")) << "of 1 KiB each";
  // One large hole can serve any request.
  analysis.fragmentation->moments[0].largest_free_bytes = 60 << 20;
  EXPECT_EQ(findings_of(analysis).size(), 1U);
}

TEST(RecordingFindings, HolesThatAreRefilledAreNotFragmentation) {
  attribution::RecordingAnalysis analysis = healthy();
  attribution::FragmentationMoment between, during;
  between.extent_bytes = during.extent_bytes = 100 << 20;
  between.free_bytes = 60 << 20;
  between.largest_free_bytes = 20 << 20;
  during.free_bytes = 5 << 20;
  during.time = Nanoseconds{1000};
  analysis.fragmentation = attribution::HeapFragmentation{{between, during}, 0, 0};
  EXPECT_THAT(findings_of(analysis), IsEmpty());
  during.free_bytes = 50 << 20;  // and free memory is never much less
  analysis.fragmentation = attribution::HeapFragmentation{{between, during}, 0, 0};
  EXPECT_EQ(findings_of(analysis).size(), 1U);
}

snapshot::DeviceAnalysis in_pieces() {
  snapshot::DeviceAnalysis device;
  snapshot::SnapshotMoment moment;
  moment.totals.reserved = 1000 << 20;
  moment.free_bytes = 500 << 20;
  device.moments = {moment};
  device.peak_reserved_bytes = 1000 << 20;
  return device;
}

TEST(SnapshotFindings, SeverityOfFragmentationDependsOnItsCost) {
  const snapshot::Snapshot snapshot;
  snapshot::DeviceAnalysis device = in_pieces();
  device.peak_allocated_bytes = 900 << 20;  // each step reuses the free memory of the last step
  EXPECT_THAT(doctor::snapshot_findings(snapshot, {device}, ""), IsEmpty());
  device.peak_allocated_bytes = 550 << 20;
  auto findings = doctor::snapshot_findings(snapshot, {device}, "");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::note) << "idle, and not needed";
  // More was reserved although the requests did not grow.
  device.timeline.points = {{0, 0, 500 << 20, 700 << 20}, {1, 0, 500 << 20, 1000 << 20}};
  findings = doctor::snapshot_findings(snapshot, {device}, "");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::warning);
  // The requests grew by the same amount.
  device.timeline.points[1].highest = 800 << 20;
  EXPECT_EQ(doctor::snapshot_findings(snapshot, {device}, "")[0].severity, Severity::note);
}

TEST(SnapshotFindings, LeakNeedsMoreThanSomeMilliseconds) {
  const snapshot::Snapshot snapshot;
  snapshot::DeviceAnalysis device;
  device.leaks.growth = monitoring::Growth::leak;
  device.first_time_us = 5'000'000;
  const auto finding_after = [&](std::int64_t us, std::int64_t allocations) {
    device.last_time_us = device.first_time_us + us;
    device.leaks.places.clear();
    snapshot::PlaceGrowth place{};
    place.growth = monitoring::Growth::leak;
    place.allocations = allocations;
    device.leaks.places.push_back(place);
    device.places = snapshot::AllocationPlaces();
    device.places.of({}, 4096);
    return doctor::snapshot_findings(snapshot, {device}, "").at(0);
  };
  EXPECT_EQ(finding_after(2'000'000, 10).severity, Severity::severe);
  EXPECT_EQ(finding_after(300'000, 100).severity, Severity::severe) << "many short steps";
  EXPECT_EQ(finding_after(300'000, 10).severity, Severity::warning);
  const Finding finding = finding_after(12'000, 100);
  EXPECT_EQ(finding.id, "leak");
  EXPECT_EQ(finding.severity, Severity::warning);
  EXPECT_EQ(finding.confidence, Confidence::possible);
  EXPECT_THAT(finding.cause, HasSubstr("a trace of 12.00 ms"));
  EXPECT_EQ(level_of(finding), "process");
}

TEST(SnapshotFindings, FindsLeakInRealPyTorchSnapshot) {
  const auto file = shared_data("pytorch_snapshots/leak_graph.pickle.gz");
  if (!file) GTEST_SKIP() << absent_message("pytorch_snapshots/leak_graph.pickle.gz");
  auto snapshot = snapshot::open_snapshot(*file);
  ASSERT_TRUE(snapshot.has_value());
  const auto findings =
      doctor::snapshot_findings(*snapshot, snapshot::analyze_snapshot(*snapshot, {}), "leak");
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].id, "leak");
  EXPECT_THAT(findings[0].evidence[0].text, HasSubstr("make_snapshots.py:37"));
}

TEST(SnapshotFindings, ReportsFragmentationAndOutOfMemory) {
  const snapshot::Snapshot snapshot;
  snapshot::DeviceAnalysis device = in_pieces();
  snapshot::OomAutopsy oom;
  oom.requested = 64 << 20;
  oom.ways = {{snapshot::RoomBy::defragmenting, 80 << 20, 3, true, {}}};
  device.ooms = {oom};
  device.oom_count = 2;
  const auto findings = doctor::snapshot_findings(snapshot, {device}, "x.pickle");
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "pytorch-out-of-memory");
  EXPECT_EQ(findings[0].times, 2);
  EXPECT_THAT(findings[0].cause, HasSubstr("Fragmentation"));
  EXPECT_EQ(findings[0].cures[0].command, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
  EXPECT_EQ(findings[1].id, "fragmentation");
  EXPECT_EQ(findings[1].cures[0].saves, mebibytes(500));
}

}  // namespace
}  // namespace headroom::test
