// The output of `headroom report FILE.hrec` into a pipe (80 columns), and its page.
#include "cli/command.h"
#include "support/recording_builder.h"

namespace headroom::test {
namespace {

using recording::ScopeSource;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

class ReportScreen : public testing::Test {
 protected:
  std::string path() const { return (folder_ / "a.hrec").string(); }
  CommandResult report(std::vector<std::string> words = {}) {
    words.insert(words.begin(), {"report", path()});
    return run_headroom(words);
  }
  TemporaryFolder folder_;
};

// Sampled recordings have an extra column for errors. In the narrower name column, four nodes of one model
// must stay distinct.
TEST_F(ReportScreen, DistinguishesNodesOfOneModelInAPipe) {
  RecordingBuilder builder(path(), {.full = false});
  const auto run =
      builder.scope("run", builder.scope("yolox_nano_416x416", 0, ScopeSource::session), ScopeSource::run);
  for (std::uint64_t i = 0; i < 4; ++i) {
    builder.enter_scope(0, 10 * i,
                        builder.scope("onnx::Sigmoid_117" + std::to_string(i), run, ScopeSource::node));
    builder.allocate(0, 10 * i + 1, 0x1000000 * (i + 1), (8 - i) << 20);
    builder.enter_scope(0, 10 * i + 2, 0);
  }
  builder.sample(0, 50, 0x20000000, 600);
  builder.counters(0, 60, 0, 5000, 3'000'000, 0);
  builder.allocate(0, 70, 0x30000000, 1 << 19);
  builder.finish();
  const CommandResult result = report();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* node : {"Sigmoid_1170", "Sigmoid_1171", "Sigmoid_1172", "Sigmoid_1173"})
    EXPECT_THAT(result.out, HasSubstr(node));
  EXPECT_THAT(result.out, Not(HasSubstr("own peak 8.0 MiB"))) << "it is the share";
}

// The arena grew in `a`, but `b` has the larger tensors.
TEST_F(ReportScreen, ShowsTensorsOfANodeNextToArenaGrowth) {
  const std::string profile = (folder_ / "profile.json").string();
  write_text(profile, R"([
{"cat":"Node","tid":77,"dur":8,"ts":11,"name":"a_kernel_time","args":{"op_name":"Conv","output_size":"1048576","activation_size":"524288",
 "mem_bytes_in_use":"2097152","mem_bytes_requested_in_use":"2000000","mem_arena_held":"8388608"}},
{"cat":"Node","tid":77,"dur":8,"ts":21,"name":"b_kernel_time","args":{"op_name":"Concat","output_size":"3145728","activation_size":"1048576",
 "mem_bytes_in_use":"5242880","mem_bytes_requested_in_use":"5000000","mem_arena_held":"8388608"}}])");
  RecordingBuilder builder(path());
  const auto session = builder.scope("net", 0, ScopeSource::session);
  builder.thread(0, 77, "main");
  builder.profile(profile, 0, session);
  builder.enter_scope(0, 10'000, builder.scope("run", session, ScopeSource::run));
  builder.allocate(0, 12'000, 0x10000000, 8 << 20);
  builder.enter_scope(0, 60'000, 0);
  builder.finish();
  EXPECT_THAT(report().out, AllOf(HasSubstr("A node's row shows how much the arena grew"),
                                  HasSubstr("Tensors of the nodes of net, in one run"),
                                  HasSubstr("     1.0 MiB     3.0 MiB              b  ← arena peak\n"
                                            "   512.0 KiB     1.0 MiB     8.0 MiB  a\n")));
  EXPECT_THAT(report({"--at", "peak"}).out,
              HasSubstr("By layer (of a node: arena growth while the node ran)"));
  auto json = parse_json(report({"--json"}).out);
  ASSERT_TRUE(json.has_value());
  const Json& nodes = (*json)["sessions"][0]["nodes"];
  EXPECT_EQ(nodes[0]["layer_at_peak_bytes"], 8 << 20);
  EXPECT_FALSE(nodes[1].contains("layer_at_peak_bytes")) << "nothing was allocated in its time";
}

// "Load, run, idle": between two runs only the weights are live.
TEST_F(ReportScreen, ThePageHasMemoryLiveBetweenRuns) {
  constexpr std::uint64_t kMillisecond = 1'000'000;
  RecordingBuilder builder(path());
  const auto weights = builder.scope("weights"), workspace = builder.scope("workspace");
  builder.enter_scope(0, kMillisecond, weights);
  builder.allocate(0, kMillisecond, 0x10000000, 64 << 20);
  builder.enter_scope(0, 100 * kMillisecond, workspace);
  for (std::uint64_t run = 1; run <= 5; ++run) {
    builder.allocate(0, 300 * run * kMillisecond, 0x40000000, 256 << 20);
    builder.release(0, 300 * run * kMillisecond + 100, 0x40000000);
  }
  builder.enter_scope(0, 1800 * kMillisecond, 0);
  builder.finish();
  const std::string page = (folder_ / "page.html").string();
  ASSERT_EQ(report({"--html", page}).exit_code, 0);
  const std::string text = read_text(page);
  const std::string begin = "<script type=\"application/json\" id=\"recording\">";
  const std::size_t from = text.find(begin) + begin.size();
  auto recording = parse_json(text.substr(from, text.find("</script>", from) - from));
  ASSERT_TRUE(recording.has_value());
  const Json& timeline = (*recording)["timeline"];
  ASSERT_EQ(timeline["layers"], Json::array({"workspace", "weights"}));
  EXPECT_EQ(timeline["quiet"]["after"].size(), timeline["start_ns"].size()) << "after each point";
  EXPECT_THAT(timeline["quiet"]["layers_bytes"].get<std::vector<Json>>(), Each(Json::array({0, 64 << 20})));
  EXPECT_THAT(text, HasSubstr("\"until_ns\":899999999")) << "a moment of the page, up to the third run";
}

}  // namespace
}  // namespace headroom::test
