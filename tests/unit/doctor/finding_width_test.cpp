// Findings on a narrow terminal: sentences are wrapped; commands and log lines are not.
#include "base/text.h"
#include "base/utf8.h"
#include "report/finding/finding_views.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::HasSubstr;

report::DoctorReport sample() {
  Finding finding;
  finding.id = "pytorch-out-of-memory";
  finding.severity = Severity::severe;
  finding.title = "PyTorch ran out of GPU memory: it asked for 2.00 GiB, 91.2 MiB were free of 7.63 GiB";
  finding.cause =
      "Something else held the memory: PyTorch's own tensors were 655.0 MiB of 3.79 GiB. On a Jetson that is "
      "the rest of the system.";
  finding.confidence = Confidence::likely;
  finding.evidence = {
      {"run.log", 812, "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0"}};
  finding.cures = {{"load the model in half precision (at most half of what is allocated)",
                    "headroom bench --model a=model.onnx --backend onnxruntime --max-frames 50 --layers",
                    mebibytes(327)}};
  TriedCure tried;
  tried.sentence = "it helps: run peak 182.2 MiB → 181.7 MiB (-0.3 %), load peak 361.1 MiB → 45.2 MiB";
  tried.command = "headroom bench --model w=w.onnx,backend=onnxruntime,arena=off --max-frames 50 --repeat 3";
  finding.cures[0].tried = tried;
  tried.settings.model = std::string(90, 'm');
  return {
      {"run.log"}, {}, {finding}, {tried}, {{"run.log", "log", "a log of 1,234 lines, which is a sentence"}}};
}

// Removes colour codes.
std::string plain(std::string text) {
  for (std::size_t at = 0; (at = text.find("\033[", at)) != text.npos;)
    text.erase(at, text.find('m', at) - at + 1);
  return text;
}

TEST(FindingWidth, WrapsSentencesButNotCommands) {
  const report::DoctorReport report = sample();
  const Finding& finding = report.findings[0];
  for (const int width : {40, 60, 80}) {
    const std::string text = report::findings_to_terminal(report, false, width);
    for (const std::string_view line : split(text, '\n')) {
      const bool is_whole = line.find("seen: ") != line.npos || line.find("headroom bench") != line.npos;
      EXPECT_TRUE(is_whole || display_width(line) <= width) << width << ": " << line;
    }
    EXPECT_THAT(text, HasSubstr("  seen: run.log:812: " + finding.evidence[0].text + "\n"));
    EXPECT_THAT(text, HasSubstr("       " + finding.cures[0].command + "\n"));
    EXPECT_THAT(text, HasSubstr("       " + finding.cures[0].tried->command + "\n"));
    EXPECT_EQ(plain(report::findings_to_terminal(report, true, width)), text) << width;
  }
  EXPECT_THAT(report::findings_to_terminal(report, false, 60),
              HasSubstr("severe: PyTorch ran out of GPU memory: it asked for 2.00\n"
                        "  GiB, 91.2 MiB were free of 7.63 GiB\n"
                        "  [pytorch-out-of-memory]\n"));
}

TEST(FindingWidth, DoesNotWrapWithoutTerminal) {
  const report::DoctorReport report = sample();
  const std::string text = report::findings_to_terminal(report, false);
  EXPECT_THAT(text, HasSubstr("severe: " + report.findings[0].title + " [pytorch-out-of-memory]\n"));
  EXPECT_THAT(text, HasSubstr("  cause (likely): " + report.findings[0].cause + "\n"));
  EXPECT_EQ(plain(report::findings_to_terminal(report, true)), text);
}

// Nothing fits, and commands are still printed whole.
TEST(FindingWidth, HandlesTerminalOfOneColumn) {
  for (const int width : {0, 1, 7})
    EXPECT_THAT(report::findings_to_terminal(sample(), true, width), HasSubstr("headroom bench")) << width;
}

}  // namespace
}  // namespace headroom::test
