#include "watch/watch_summary.h"

#include "base/text.h"
#include "base/utf8.h"
#include "support/test_support.h"

namespace headroom::watch {
namespace {
using testing::HasSubstr;
using testing::Not;

MemoryCurves ramp(int samples) {
  MemoryCurves curves;
  for (int i = 0; i < samples; ++i) {
    SystemSample sample;
    sample.time = Nanoseconds{i * 1'000'000'000LL};
    sample.ram_total = mebibytes(1000);
    sample.ram_used = mebibytes(i == 50 ? 900 : 100 + i);
    sample.other = {{"followed_rss_bytes", 5e6}, {"followed_pss_bytes", 4e6}};
    curves.add(sample);
  }
  return curves;
}

TEST(Plot, FitsTheTerminalWidth) {
  const MemoryCurves curves = ramp(100);
  ASSERT_EQ(curves.curves().size(), 2U);
  EXPECT_EQ(curves.curves()[1].title, "Followed processes (PSS)");
  for (const int width : {40, 80, 120}) {
    const std::string plot = plot_for_terminal(curves, width);
    for (const std::string_view line : split(plot, '\n')) EXPECT_LE(display_width(line), width) << line;
  }
  const std::string text = plot_for_terminal(curves, 80);
  EXPECT_THAT(text, HasSubstr("1.00 GiB"));
  EXPECT_THAT(text, HasSubstr("█"));
  EXPECT_THAT(text, HasSubstr("RAM used\nhighest 900.0 MiB, 90 % of 1000.0 MiB\n"));
  EXPECT_TRUE(plot_for_terminal(ramp(1), 80).empty());
}

TEST(Plot, ShowsAPeakOfOneSample) {
  MemoryCurves flat, peak;
  for (int i = 0; i < 5000; ++i) {
    SystemSample sample;
    sample.time = Nanoseconds{i};
    sample.ram_used = mebibytes(100);
    flat.add(sample);
    if (i == 2500) sample.ram_used = mebibytes(128);
    peak.add(sample);
  }
  EXPECT_NE(plot_for_terminal(flat, 80), plot_for_terminal(peak, 80));
}

TEST(Plot, PicturesAreSelfContained) {
  const std::string svg = plot_as_svg(ramp(100), "a <log> & more");
  EXPECT_THAT(svg, HasSubstr("a &lt;log&gt; &amp; more"));
  EXPECT_THAT(svg, HasSubstr("RAM used: highest 900.0 MiB, 90 % of 1000.0 MiB"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(plot_as_svg(MemoryCurves(), "none"), HasSubstr("</svg>"));
  const std::string html = plot_as_html(ramp(3), "a <log>");
  EXPECT_THAT(html, HasSubstr(R"({"title":"a \u003clog>","ram_total_bytes":1048576000,)"
                              R"("curves":[{"title":"RAM used","seconds":[0.0,1.0,2.0],)"));
}

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
