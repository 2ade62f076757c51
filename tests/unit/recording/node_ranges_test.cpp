// Joins the runtime's profile with a recording: allocations during a run are assigned to the node that ran.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "unit/recording/events.h"

namespace headroom::recording {

namespace {

using test::RecordingBuilder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The format of ONNX Runtime 1.29: sizes are strings, times are microseconds.
constexpr const char* kProfile = R"([
{"cat":"Session","pid":1,"tid":77,"dur":900,"ts":1,"ph":"X","name":"model_run","args":{}},
{"cat":"Node","pid":1,"tid":77,"dur":10,"ts":20,"ph":"X","name":"conv1_kernel_time","args":{"op_name":"Conv",
 "provider":"CPUExecutionProvider","output_size":"4096","parameter_size":"64","mem_bytes_in_use":"8192",
 "mem_bytes_requested_in_use":"4096","mem_arena_held":"16384"}},
{"cat":"Node","pid":1,"tid":77,"dur":5,"ts":30,"ph":"X","name":"relu_kernel_time","args":{"op_name":"Relu"}}
])";

class NodeRangesTest : public testing::Test {
 protected:
  NodeRangesTest() { test::write_text(profile_, kProfile); }
  // The run scope of a session that thread 77 runs. Its profile begins `profile_start` ns later.
  static std::uint32_t add_session(RecordingBuilder& builder, const std::string& profile_path,
                                   std::uint64_t profile_start) {
    const auto session = builder.scope("net", 0, ScopeSource::session);
    builder.thread(0, 77, "main");
    builder.profile(profile_path, profile_start, session);
    return builder.scope("run", session, ScopeSource::run);
  }
  // A session with a run from 10 to 100 µs of the recording, which began 5 µs before the profile.
  std::filesystem::path record(const std::string& profile_path) {
    RecordingBuilder builder(folder_ / "a.hrec");
    const auto run = add_session(builder, profile_path, 5'000);
    builder.thread(1, 78, "other");
    builder.allocate(0, 8'000, 0x1000, 8);
    builder.enter_scope(0, 10'000, run);
    builder.allocate(0, 20'000, 0x2000, 8);  // before the first node: 25 µs
    builder.allocate(0, 26'000, 0x3000, 8);  // conv1
    builder.allocate(1, 27'000, 0x4000, 8);  // another thread
    builder.allocate(0, 37'000, 0x5000, 8);  // relu
    builder.allocate(0, 50'000, 0x6000, 8);  // after the last node
    builder.enter_scope(0, 100'000, 0);
    builder.allocate(0, 110'000, 0x7000, 8);
    return builder.finish();
  }
  std::vector<std::string> layers_of_allocations(Recording& recording) {
    std::vector<std::string> layers;
    recording.for_each_event([&](const MemoryEvent& event) {
      if (event.kind == MemoryEventKind::allocate) layers.push_back(recording.path_of(event.scope));
    });
    return layers;
  }
  test::TemporaryFolder folder_;
  const std::string profile_ = (folder_ / "profile.json").string();
};

TEST_F(NodeRangesTest, AssignsAllocationsOfARunToItsNodes) {
  Recording recording = Recording::open(record(profile_)).value();
  const auto expected = ElementsAre("", "net/run", "net/run/conv1", "", "net/run/relu", "net/run", "");
  EXPECT_THAT(layers_of_allocations(recording), expected);
  EXPECT_THAT(layers_of_allocations(recording), expected) << "the second walk";
  EXPECT_THAT(recording.problems(), IsEmpty());
}

// A model is loaded, run, released, and loaded again: the second session runs in the scopes of the first.
TEST_F(NodeRangesTest, FindsNodesForEachLoadOfAModel) {
  test::write_text(folder_ / "second.json", kProfile);
  RecordingBuilder builder(folder_ / "a.hrec");
  const auto run = add_session(builder, profile_, 0);
  builder.profile((folder_ / "second.json").string(), 1'000'000, 1);
  for (const std::uint64_t start : {0, 1'000'000}) {
    builder.enter_scope(0, start + 10'000, run);
    builder.allocate(0, start + 21'000, 0x1000 + start, 8);
    builder.allocate(0, start + 32'000, 0x2000 + start, 8);
    builder.allocate(0, start + 50'000, 0x3000 + start, 8);
    builder.enter_scope(0, start + 60'000, 0);
  }
  Recording recording = Recording::open(builder.finish()).value();
  EXPECT_THAT(layers_of_allocations(recording), ElementsAre("net/run/conv1", "net/run/relu", "net/run",
                                                            "net/run/conv1", "net/run/relu", "net/run"));
  EXPECT_EQ(recording.info().scopes.size(), 5U) << "one scope a node, however often the model is loaded";
}

TEST_F(NodeRangesTest, KeepsCountedAllocationsInTheRun) {
  RecordingBuilder builder(folder_ / "counted.hrec", {.full = false});
  const auto run = add_session(builder, profile_, 0);
  builder.enter_scope(0, 10'000, run);
  builder.allocate(0, 22'000, 0x1000, 8000);
  builder.counters(0, 25'000, run, 40, 800, 30);  // conv1 runs, but the counting began with the run
  Recording recording = Recording::open(builder.finish()).value();
  std::vector<std::string> counted;
  recording.for_each_event([&](const MemoryEvent& event) {
    if (event.kind == MemoryEventKind::counters || event.kind == MemoryEventKind::release_counters)
      counted.push_back(recording.path_of(event.scope));
  });
  EXPECT_THAT(counted, ElementsAre("net/run", "net/run"));
  EXPECT_THAT(layers_of_allocations(recording), ElementsAre("net/run/conv1"));
}

// A recording may be hostile, and it contains the path of the profile.
TEST_F(NodeRangesTest, NotesProfilesThatAreMissingOrNotRegularFiles) {
  const std::filesystem::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto refused = read_runtime_profile(fifo);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().sentence(), HasSubstr("not a file"));
  for (const std::string& profile : {fifo.string(), std::string("/on/another/machine/profile.json")}) {
    Recording recording = Recording::open(record(profile)).value();
    EXPECT_EQ(layers_of_allocations(recording)[2], "net/run");
    EXPECT_THAT(recording.info().notes, ElementsAre(HasSubstr("the nodes of net are not distinguished")));
    EXPECT_THAT(recording.problems(), IsEmpty());
  }
  EXPECT_FALSE(read_runtime_profile("/dev/zero"));
  EXPECT_FALSE(read_runtime_profile("/proc/self/pagemap")) << "it has no size, and never ends";
  EXPECT_FALSE(read_runtime_profile(folder_.path()));
  EXPECT_FALSE(Recording::open(fifo).has_value());
}

TEST_F(NodeRangesTest, PrefersTheProfileNextToTheRecording) {
  std::filesystem::create_directories(folder_ / "a.hrec.d");
  test::write_text(folder_ / "a.hrec.d" / "profile.json", kProfile);
  std::filesystem::create_directories(folder_ / "elsewhere");
  const std::string elsewhere = (folder_ / "elsewhere" / "profile.json").string();
  test::write_text(elsewhere, "[]");
  Recording recording = Recording::open(record(elsewhere)).value();
  EXPECT_EQ(layers_of_allocations(recording)[2], "net/run/conv1");
}

// The path may be written differently, and the session may differ.
TEST_F(NodeRangesTest, ReadsARepeatedProfileOnce) {
  std::filesystem::create_symlink(profile_, folder_ / "another.json");
  RecordingBuilder builder(folder_ / "a.hrec");
  for (const char* name : {"profile.json", "./profile.json", "another.json"})
    builder.profile((folder_.path() / name).string(), 0, builder.scope("net", 0, ScopeSource::session));
  Recording recording = Recording::open(builder.finish()).value();
  ASSERT_EQ(recording.info().profiles.size(), 3U);
  EXPECT_EQ(recording.info().profiles[0].data.nodes.size(), 2U);
  EXPECT_EQ(recording.info().profiles[1].data.nodes.size(), 0U);
  EXPECT_EQ(recording.info().profiles[2].data.nodes.size(), 0U);
}

// The runtime keeps a profile in memory until profiling ends; the process may die before.
TEST_F(NodeRangesTest, NotesAProfileThatWasNeverWritten) {
  RecordingBuilder builder(folder_ / "b.hrec");
  const auto net = builder.scope("net", 0, ScopeSource::session),
             other = builder.scope("other", 0, ScopeSource::session);
  builder.open_profile(1, net);
  builder.open_profile(2, other);
  builder.open_profile(3, other);  // loaded again
  builder.profile(profile_, 0, net, 1);
  const auto recording = Recording::open(builder.finish());
  ASSERT_TRUE(recording) << recording.error().sentence();
  EXPECT_EQ(recording->info().profiles.size(), 1u);
  EXPECT_THAT(recording->info().notes, ElementsAre(HasSubstr("before the third run of other was over")));
}

TEST_F(NodeRangesTest, ReadsArenaFiguresFromAProfile) {
  const auto profile = read_runtime_profile(profile_);
  ASSERT_TRUE(profile);
  ASSERT_EQ(profile->nodes.size(), 2u);
  EXPECT_EQ(profile->nodes[0].operation, "Conv");
  EXPECT_EQ(profile->nodes[0].output, Bytes{4096});
  EXPECT_EQ(profile->runs[0].arena_held, Bytes{16384});
  EXPECT_FALSE(profile->runs[1].in_use) << "absent is not zero";
}

TEST_F(NodeRangesTest, RejectsInvalidProfiles) {
  for (const char* text : {"", "{", "{}", "7", "[1,", "\"x\""}) {
    test::write_text(folder_ / "bad.json", text);
    EXPECT_FALSE(read_runtime_profile(folder_ / "bad.json")) << text;
  }
  test::write_text(folder_ / "odd.json",
                   R"([1, null, {"cat":"Node","name":7}, {"cat":"Node","name":"x_kernel_time"}])");
  const auto odd = read_runtime_profile(folder_ / "odd.json");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->nodes.size(), 1u);
}

// Weights: their layer becomes known long after their allocation.

class WeightBlocksTest : public testing::Test {
 protected:
  WeightBlocksTest() : builder_(folder_ / "a.hrec") {
    const std::uint32_t net = builder_.scope("Net", 0, ScopeSource::module);
    conv_ = builder_.scope("conv", net, ScopeSource::module);
    weights_ = builder_.scope(kWeightsScope, conv_, ScopeSource::weights);
    other_ = builder_.scope(kWeightsScope, net, ScopeSource::weights);
  }
  // The scope of each allocation, and whether it is marked as a weight.
  static std::vector<std::pair<std::uint32_t, bool>> owners(Recording& recording) {
    std::vector<std::pair<std::uint32_t, bool>> found;
    for (const MemoryEvent& event : read_events(recording).events) {
      EXPECT_NE(event.kind, MemoryEventKind::weight);
      if (event.kind == MemoryEventKind::allocate || event.kind == MemoryEventKind::sampled_allocate)
        found.emplace_back(event.scope.index, event.is_weight);
    }
    return found;
  }

  test::TemporaryFolder folder_;
  RecordingBuilder builder_;
  std::uint32_t conv_ = 0, weights_ = 0, other_ = 0;
};

TEST_F(WeightBlocksTest, AssignsWeightsToTheirLayerFromAllocationOn) {
  builder_.allocate(0, 10, 0x1000, 400);
  builder_.allocate(0, 20, 0x2000, 800);
  builder_.release(0, 30, 0x2000);
  builder_.allocate(0, 40, 0x2000, 900);  // the block that is there now
  builder_.enter_scope(0, 50, conv_);
  builder_.allocate(0, 60, 0x3000, 100);
  builder_.weight(0, 70, 0x1000, weights_);
  builder_.weight(0, 71, 0x1000, other_);  // tied weights: the first module wins
  builder_.weight(0, 72, 0x2000, other_);
  builder_.weight(0, 73, 0x9000, other_);  // not a recorded block
  builder_.release(0, 80, 0x1000);
  builder_.allocate(0, 90, 0x1000, 400);  // a different block
  Recording recording = Recording::open(builder_.finish()).value();
  const auto expected = ElementsAre(std::pair(weights_, true), std::pair(0u, false), std::pair(other_, true),
                                    std::pair(conv_, false), std::pair(conv_, false));
  EXPECT_THAT(owners(recording), expected);
  EXPECT_THAT(owners(recording), expected) << "the second time";
  EXPECT_THAT(recording.problems(), IsEmpty());
}

}  // namespace

}  // namespace headroom::recording
