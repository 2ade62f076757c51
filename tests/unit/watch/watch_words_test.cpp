#include "watch/watch_words.h"

#include "support/test_support.h"

namespace headroom::watch {
namespace {
using testing::HasSubstr;

// The processes were chosen by a different figure than the shown one.
TEST(WatchWords, SortsBaselineProcessesByTheShownFigure) {
  SystemSample sample;
  const auto add = [&sample](int pid, const char* name, std::int64_t rss, std::optional<std::int64_t> pss) {
    ProcessSample process;
    process.pid = pid;
    process.name = name;
    process.rss = mebibytes(rss);
    if (pss) process.pss = mebibytes(*pss);
    sample.processes.push_back(process);
  };
  add(1, "shares_most", 300, 20);
  add(2, "shares_nothing", 200, 199);
  add(3, "unknown_share", 100, {});
  const std::string text = baseline_words({}, sample);
  EXPECT_THAT(text, HasSubstr("largest processes (shared pages divided among processes)"));
  EXPECT_LT(text.find("shares_nothing"), text.find("unknown_share"));
  EXPECT_LT(text.find("unknown_share"), text.find("shares_most"));
  sample.processes.resize(0);
  EXPECT_EQ(baseline_words({}, sample).find("largest processes"), std::string::npos);
}

}  // namespace
}  // namespace headroom::watch
