// The output of `headroom report FILE.hrec` into a pipe (80 columns), and its page.
#include "cli/command.h"
#include "support/recording_builder.h"

namespace headroom::test {
namespace {

using testing::Each;
using testing::HasSubstr;

class ReportScreen : public testing::Test {
 protected:
  std::string path() const { return (folder_ / "a.hrec").string(); }
  CommandResult report(std::vector<std::string> words = {}) {
    words.insert(words.begin(), {"report", path()});
    return run_headroom(words);
  }
  TemporaryFolder folder_;
};

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
