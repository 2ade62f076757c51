#include "comparison/recording_diff.h"

#include <fmt/format.h>

#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::comparison {
namespace {

using test::RecordingBuilder;
using testing::ElementsAre;

constexpr std::uint64_t kPage = 4096;

// A program of three functions at `base`. The offsets are the return addresses, which differ between builds.
struct Program {
  std::uint64_t base = 0x400000;
  std::uint64_t load = 0x1010, run = 0x2020, main = 0x3030;
  std::string build = std::string(20, '\x11');
  std::string path = "/opt/app/detector";

  FrameLookup names() const {
    return [*this](std::uint64_t address) -> std::vector<NamedFrame> {
      const std::string file = path.substr(path.rfind('/') + 1);
      if (address == base + load) return {{"load(int)", file}};
      if (address == base + run) return {{"inlined", file}, {"run(int) [clone .isra.0]", file}};
      if (address == base + main) return {{"main", file}};
      if (address >= base && address < base + 0x10000)
        return {{fmt::format("{}+{:#x}", file, address - 1 - base), file, false}};
      return {{fmt::format("{:#x}", address), "", false}};
    };
  }
};

// Writes the events of a recording of a program.
using Fill = std::function<void(RecordingBuilder&, const Program&)>;

class TwoRecordings {
 public:
  TwoRecordings(const Fill& before, const Fill& after, const Program& a = {}, const Program& b = {},
                test::RecordingOptions options = {}) {
    auto first = open("a.hrec", before, a, options), second = open("b.hrec", after, b, options);
    const auto same = modules_of_one_build(first.info(), second.info());
    before_ = group_recording(first, a.names(), same);
    after_ = group_recording(second, b.names(), same);
    diff_ = diff_recordings(before_, after_);
  }
  const RecordingDiff& operator*() const { return diff_; }
  const RecordingDiff* operator->() const { return &diff_; }
  const GroupedRecording& before() const { return before_; }
  const GroupedRecording& after() const { return after_; }

 private:
  recording::Recording open(const std::string& name, const Fill& fill, const Program& program,
                            test::RecordingOptions options) {
    options.command = {program.path};
    RecordingBuilder builder(folder_ / name, options);
    builder.module(program.path, program.build, program.base, program.base + 0x10000, program.base);
    fill(builder, program);
    auto opened = recording::Recording::open(builder.finish());
    EXPECT_TRUE(opened.has_value());
    return std::move(*opened);
  }

  test::TemporaryFolder folder_;
  GroupedRecording before_, after_;
  RecordingDiff diff_;
};

// `weights` bytes stay; `workspace` bytes are allocated and released in the layer "conv".
Fill model(std::uint64_t weights, std::uint64_t workspace) {
  return [=](RecordingBuilder& builder, const Program& at) {
    const auto conv = builder.scope("conv");
    builder.allocate(0, 10, 0x10000, weights, {at.base + at.load, at.base + at.main});
    builder.enter_scope(0, 20, conv);
    builder.allocate(0, 30, 0x20000, workspace, {at.base + at.run, at.base + at.main});
    builder.release(0, 130, 0x20000);
    builder.enter_scope(0, 140, 0);
  };
}

// Each row is in both recordings, with the same bytes.
void expect_equal(const RecordingDiff& diff) {
  EXPECT_EQ(diff.peak_bytes.change(), 0);
  EXPECT_FALSE(diff.peak_bytes.differs());
  for (const DiffBy by : kDiffBy) {
    EXPECT_FALSE(diff.by(by).empty());
    for (const DiffRow& row : diff.by(by))
      EXPECT_TRUE(row.in_before && row.in_after && row.peak_change() == 0) << row.name;
  }
}

TEST(RecordingDiff, EqualRecordingsDoNotDiffer) {
  expect_equal(*TwoRecordings(model(1000, 4000), model(1000, 4000)));
}

TEST(RecordingDiff, SortsFromLargestGrowthToLargestShrinkage) {
  const TwoRecordings two(model(1000, 4000), model(600, 9000));
  EXPECT_EQ(two->peak_bytes.change(), 4600);
  EXPECT_TRUE(two->peak_bytes.differs());
  EXPECT_EQ(two->leaked_bytes.change(), -400);
  const auto& layers = two->by(DiffBy::layer);
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].name, "conv");
  EXPECT_EQ(layers[0].peak_change(), 5000);
  EXPECT_EQ(layers[0].before.most_bytes, 4000);
  EXPECT_EQ(layers[0].after.average_lifetime()->count, 100);
  EXPECT_EQ(layers[1].name, "");
  EXPECT_EQ(layers[1].peak_change(), -400);
  EXPECT_EQ(layers[1].end_change(), -400);
  EXPECT_FALSE(layers[1].after.average_lifetime());
  const auto& stacks = two->by(DiffBy::stack);
  ASSERT_EQ(stacks.size(), 2U);
  EXPECT_THAT(stacks[0].frames, ElementsAre("inlined", "run(int)", "main"));
  EXPECT_THAT(stacks[1].frames, ElementsAre("load(int)", "main"));
  const auto& modules = two->by(DiffBy::module);
  ASSERT_EQ(modules.size(), 1U);
  EXPECT_EQ(modules[0].name, "detector");
  EXPECT_EQ(modules[0].peak_change(), 4600);
}

// A scope's name may contain slashes, so its path may equal that of nested scopes. Paths are escaped only if
// both occur, so the same layer may have different paths in two recordings.
TEST(RecordingDiff, MatchesLayersByNamesNotByJoinedPath) {
  const auto hold = [](RecordingBuilder& builder, std::uint32_t scope, std::uint64_t at,
                       std::uint64_t bytes) {
    builder.enter_scope(0, at, scope);
    builder.allocate(0, at + 1, 0x10000 * at, bytes, {0x401010});
  };
  const Fill both = [&](RecordingBuilder& builder, const Program&) {
    hold(builder, builder.scope("conv/1"), 10, 1000);
    hold(builder, builder.scope("1", builder.scope("conv")), 20, 300);
    hold(builder, builder.scope("1", builder.scope("conv\\")), 30, 20);
  };
  const Fill nested = [&](RecordingBuilder& builder, const Program&) {
    hold(builder, builder.scope("1", builder.scope("conv")), 10, 301);
  };
  const Fill whole = [&](RecordingBuilder& builder, const Program&) {
    hold(builder, builder.scope("conv/1"), 10, 1001);
  };
  const auto changes = [](const TwoRecordings& two) {
    std::map<std::int64_t, std::pair<bool, bool>> known;  // layers by their bytes before or after
    for (const DiffRow& row : two->by(DiffBy::layer)) {
      const std::int64_t before = row.before.live.peak_bytes, after = row.after.live.peak_bytes;
      known[before > 0 ? before : after] = {row.in_before, row.in_after};
    }
    return known;
  };
  using Known = std::map<std::int64_t, std::pair<bool, bool>>;
  EXPECT_EQ(changes({both, nested}),
            (Known{{1000, {true, false}}, {300, {true, true}}, {20, {true, false}}}));
  EXPECT_EQ(changes({both, whole}), (Known{{1000, {true, true}}, {300, {true, false}}, {20, {true, false}}}));
  EXPECT_EQ(changes({nested, whole}), (Known{{301, {true, false}}, {1001, {false, true}}}));
}

// ONNX Runtime assigns these numbers to different nodes in each process.
TEST(RecordingDiff, MatchesNumberedNodesByPosition) {
  const auto run = [](const char* first, const char* second) -> Fill {
    return [=](RecordingBuilder& builder, const Program& at) {
      const auto graph = builder.scope("run");
      std::uint64_t time = 10, bytes = kPage;
      for (const char* name : {first, second}) {
        builder.enter_scope(0, time++, builder.scope(name, graph, recording::ScopeSource::node));
        builder.allocate(0, time++, 0x10000 * bytes, bytes, {at.base + at.run});
        bytes *= 4;
      }
      builder.enter_scope(0, time, 0);
    };
  };
  const TwoRecordings diff(run("ReorderOutput_token_121", "ReorderOutput_token_110"),
                           run("ReorderOutput_token_110", "ReorderOutput_token_119"));
  std::vector<std::string> names;
  expect_equal(*diff);
  for (const DiffRow& row : diff->by(DiffBy::layer)) names.push_back(row.name);
  EXPECT_THAT(names, testing::IsSupersetOf({"run/ReorderOutput #1", "run/ReorderOutput #2"}));
}

TEST(RecordingDiff, RowsAddUpToTheTotals) {
  const TwoRecordings two(model(1000, 4000), model(600, 9000));
  for (const DiffBy by : kDiffBy) {
    std::int64_t peak = 0, end = 0, allocated = 0, allocations = 0;
    for (const DiffRow& row : two->by(by)) {
      peak += row.after.live.peak_bytes;
      end += row.after.live.end_bytes;
      allocated += row.after.allocated_bytes;
      allocations += row.after.allocations;
    }
    const attribution::RecordingAnalysis& analysis = two.after().analysis;
    EXPECT_EQ(peak, analysis.peak_bytes.value);
    EXPECT_EQ(end, analysis.leaked_bytes.value);
    EXPECT_EQ(allocated, analysis.total_allocated_bytes);
    EXPECT_EQ(allocations, analysis.allocations);
  }
}

TEST(RecordingDiff, MatchesStacksOfOtherBuildByFunction) {
  Program next;
  next.base = 0x7f5500000000;
  next.load = 0x5010, next.run = 0x4020, next.main = 0x1030;
  next.build = std::string(20, '\x22');
  next.path = "/tmp/build/detector-v2";
  const TwoRecordings two(model(1000, 4000), model(1000, 4000), {}, next);
  expect_equal(*two);
  EXPECT_EQ(two->by(DiffBy::module).front().name, "detector-v2");
}

// Two stacks whose function is unknown.
Fill nameless(std::uint64_t first, std::uint64_t second) {
  return [=](RecordingBuilder& builder, const Program& at) {
    builder.allocate(0, 10, 0x10000, first, {at.base + 0x7001});
    builder.allocate(0, 20, 0x20000, second, {at.base + 0x8001});
    builder.allocate(0, 30, 0x30000, 5, {0x9999});
    builder.allocate(0, 40, 0x40000, 7);
  };
}

TEST(RecordingDiff, SameBuildSeparatesUnknownFunctionsByOffset) {
  Program elsewhere;
  elsewhere.base = 0x7f5500000000;
  const TwoRecordings two(nameless(100, 200), nameless(100, 250), {}, elsewhere);
  const auto& rows = two->by(DiffBy::stack);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_THAT(rows[0].frames, ElementsAre("detector+0x8000"));
  EXPECT_EQ(rows[0].peak_change(), 50);
}

TEST(RecordingDiff, OtherBuildGroupsUnknownFunctionsByModule) {
  Program rebuilt;
  rebuilt.build = std::string(20, '\x22');
  const TwoRecordings two(nameless(100, 200), nameless(100, 250), {}, rebuilt);
  const auto& rows = two->by(DiffBy::stack);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_THAT(rows[0].frames, ElementsAre("detector (function unknown)"));
  EXPECT_EQ(rows[0].before.live.peak_bytes, 300);
  EXPECT_EQ(rows[0].after.live.peak_bytes, 350);
  EXPECT_THAT(rows[1].frames, ElementsAre("(no stack was taken)"));
  EXPECT_THAT(rows[2].frames, ElementsAre("(outside of every module)"));
  std::set<std::string> modules;
  for (const DiffRow& row : two->by(DiffBy::module)) modules.insert(row.name);
  EXPECT_THAT(modules, ElementsAre("(no stack was taken)", "(outside of every module)", "detector"));
}

TEST(RecordingDiff, RecursionIsOneFrame) {
  const auto recurse = [](int depth) {
    return [depth](RecordingBuilder& builder, const Program& at) {
      RecordingBuilder::Frames frames(static_cast<std::size_t>(depth), at.base + at.load);
      frames.push_back(at.base + at.main);
      builder.allocate(0, 10, 0x10000, 64, frames);
    };
  };
  const TwoRecordings two(recurse(3), recurse(8));
  ASSERT_EQ(two->by(DiffBy::stack).size(), 1U);
  EXPECT_THAT(two->by(DiffBy::stack)[0].frames, ElementsAre("load(int)", "main"));
}

// Two stacks form one group. Its peak is not the sum of both peaks, because these were at different times.
TEST(RecordingDiff, PeakOfGroupIsExact) {
  const auto fill = [](RecordingBuilder& builder, const Program& at) {
    for (std::uint64_t i = 0; i < 2; ++i) {
      builder.allocate(0, 10 + 20 * i, 0x10000, 500, {at.base + at.load, 0x1000 + i});
      builder.release(0, 20 + 20 * i, 0x10000);
    }
  };
  const TwoRecordings two(fill, fill);
  ASSERT_EQ(two->by(DiffBy::stack).size(), 1U);
  EXPECT_EQ(two->by(DiffBy::stack)[0].after.most_bytes, 500);
  EXPECT_EQ(two->by(DiffBy::stack)[0].after.allocated_bytes, 1000);
}

// In default mode the counts of a layer are exact. A change within the sampling error is not reported.
TEST(RecordingDiff, SampledRecordingsHaveExactCountsAndKnownError) {
  test::RecordingOptions options;
  options.full = false;
  const auto fill = [](std::uint64_t counted) {
    return [counted](RecordingBuilder& builder, const Program& at) {
      const auto outer = builder.scope("model"), conv = builder.scope("conv", outer);
      builder.allocate(0, 10, 0x10000, 64 * kPage, {at.base + at.load});
      builder.sample(0, 20, 0x20000, 600 + counted, {at.base + at.run});
      builder.counters(0, 30, conv, counted, counted * 10, 0);
    };
  };
  const TwoRecordings two(fill(1000), fill(1001), {}, {}, options);
  const auto row = std::find_if(two->by(DiffBy::layer).begin(), two->by(DiffBy::layer).end(),
                                [](const DiffRow& each) { return each.name == "model/conv"; });
  ASSERT_NE(row, two->by(DiffBy::layer).end());
  EXPECT_EQ(row->before.allocations, 1000);
  EXPECT_EQ(row->after.allocated_bytes, 10010);
  for (const DiffRow& each : two->by(DiffBy::layer)) EXPECT_NE(each.name, "model");  // no own allocations
  EXPECT_TRUE(two->peak_bytes.standard_error().has_value());
  EXPECT_FALSE(two->peak_bytes.differs());
}

TEST(ModulesOfOneBuild, HaveSameBuildIdInBoth) {
  recording::RecordingInfo a, b;
  const auto add = [](recording::RecordingInfo& info, const char* path, const char* build_id) {
    recording::Module& module = info.modules.emplace_back();
    module.path = path;
    module.build_id = build_id;
  };
  add(a, "/lib/libone.so", "11");
  add(b, "/usr/lib/libone.so", "11");
  add(a, "/lib/libtwo.so", "22");
  add(b, "/lib/libtwo.so", "23");
  add(a, "/lib/libnone.so", "");
  add(b, "/lib/libnone.so", "");
  add(a, "/lib/liba.so", "1");
  EXPECT_THAT(modules_of_one_build(a, b), ElementsAre("libone.so"));
}

TEST(NamedFrame, StripsCompilerCloneSuffixAndLibraryVersion) {
  EXPECT_EQ(without_clone_suffix("resize(int) [clone .constprop.0]"), "resize(int)");
  EXPECT_EQ(without_clone_suffix("grow.part.0.constprop.1"), "grow");
  EXPECT_EQ(without_clone_suffix("main.cold"), "main");
  EXPECT_EQ(without_clone_suffix("main"), "main");
  EXPECT_EQ(without_clone_suffix(".cold"), ".cold");
  EXPECT_EQ(without_version("libonnxruntime.so.1.29.0"), "libonnxruntime.so");
  EXPECT_EQ(without_version("libfoo.so"), "libfoo.so");
  EXPECT_EQ(without_version("python3.11"), "python3.11");
}

// `load` maps the weights. An arena grows in the layer "conv" and is unmapped again.
Fill mapped_model(std::uint64_t weights, std::uint64_t arena) {
  return [=](RecordingBuilder& builder, const Program& at) {
    const auto conv = builder.scope("conv");
    builder.map(0, 10, 0x10000000, weights, {at.base + at.load, at.base + at.main});
    builder.enter_scope(0, 20, conv);
    if (arena > 0) {
      builder.map(0, 30, 0x40000000, arena, {at.base + at.run, at.base + at.main});
      builder.unmap(0, 40, 0x40000000, arena);
    }
    builder.enter_scope(0, 50, 0);
  };
}

TEST(RecordingDiff, ComparesMappingsByTheSameGroups) {
  const TwoRecordings two(mapped_model(10 * kPage, 0), mapped_model(8 * kPage, 5 * kPage), {},
                          {.base = 0x900000, .run = 0x2040});
  const auto& stacks = two->mapped_by(DiffBy::stack);
  ASSERT_EQ(stacks.size(), 2U);
  EXPECT_THAT(stacks[0].frames, ElementsAre("inlined", "run(int)", "main"));
  EXPECT_FALSE(stacks[0].in_before);
  EXPECT_EQ(stacks[0].after.live.peak_bytes, static_cast<std::int64_t>(5 * kPage));
  EXPECT_EQ(stacks[0].after.live.end_bytes, 0);
  EXPECT_THAT(stacks[1].frames, ElementsAre("load(int)", "main"));
  EXPECT_EQ(stacks[1].peak_change(), -static_cast<std::int64_t>(2 * kPage));
  EXPECT_EQ(stacks[1].end_change(), -static_cast<std::int64_t>(2 * kPage));
  const auto named = [](const char* name) { return testing::Field("name", &DiffRow::name, name); };
  EXPECT_THAT(two->mapped_by(DiffBy::layer), ElementsAre(named("conv"), named("")));
  const auto& modules = two->mapped_by(DiffBy::module);
  ASSERT_THAT(modules, ElementsAre(named("detector")));
  EXPECT_EQ(modules[0].peak_change(), static_cast<std::int64_t>(3 * kPage));
}

// A run of a graph with one node: `counted` small allocations of 100 bytes, and one of 8000 bytes in the
// node.
Fill run_with_node(std::uint64_t counted) {
  return [=](RecordingBuilder& builder, const Program& at) {
    const auto run = builder.scope("run", 0, recording::ScopeSource::run);
    const auto node = builder.scope("conv", run, recording::ScopeSource::node);
    builder.enter_scope(0, 10, node);
    builder.allocate(0, 20, 0x10000, 8000, {at.base + at.run, at.base + at.main});
    builder.counters(0, 30, run, counted, 100 * counted, 0);
    builder.enter_scope(0, 40, 0);
  };
}

// The counts of a sampled node belong to its run, also in an exact recording that is compared with it.
TEST(RecordingDiff, ComparesNodeCountsOnlyIfBothAreKnown) {
  test::RecordingOptions sampled;
  sampled.full = false;
  const TwoRecordings exact(run_with_node(10), run_with_node(30));
  const TwoRecordings samples(run_with_node(10), run_with_node(30), {}, {}, sampled);
  for (const DiffRow& row : exact->by(DiffBy::layer)) {
    EXPECT_TRUE(row.counts_known) << row.name;
    EXPECT_EQ(row.before.allocations, row.name == "run/conv" ? 1 : 10);
  }
  for (const RecordingDiff& diff : {*samples, diff_recordings(exact.before(), samples.after())})
    for (const DiffRow& row : diff.by(DiffBy::layer)) {
      EXPECT_EQ(row.counts_known, row.name == "run") << row.name;
      if (row.name != "run") continue;
      EXPECT_EQ(row.before.allocations, 11);
      EXPECT_EQ(row.after.allocations, 31);
      EXPECT_EQ(row.after.allocated_bytes, 11'000);
      EXPECT_EQ(row.allocated_change(), 2000);
    }
}

}  // namespace
}  // namespace headroom::comparison
