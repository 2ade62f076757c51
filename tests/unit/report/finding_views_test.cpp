#include "report/finding/finding_views.h"

#include "base/json.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using testing::HasSubstr;
using testing::Not;

report::DoctorReport sample() {
  Finding severe{"cuda-out-of-memory",
                 Severity::severe,
                 "CUDA ran <out>",
                 "Because | it.",
                 Confidence::likely,
                 7,
                 {},
                 {},
                 {}};
  severe.evidence = {{"a.log", 12, "CUDA error: `out of memory`"}, {"run", 0, ""}};
  severe.figures = {{"requested_bytes", std::int64_t{2 << 20}},
                    {"stalled_ms", std::int64_t{12}},
                    {"share_percent", 12.5},
                    {"victim", std::string("app")}};
  severe.cures = {{"do this", "cmd --flag", mebibytes(3)}, {"or that", "", {}}};
  Finding benign{"gpu-memory-listed",
                 Severity::benign,
                 "A GPU was listed",
                 "At its start.",
                 Confidence::certain,
                 1,
                 {},
                 {},
                 {}};
  benign.evidence = {{"a.log", 1, "CUDA0"}};
  return {{"a.log"}, {}, {severe, benign}};
}

TEST(FindingViews, OmitsASavingOfZero) {
  report::DoctorReport report = sample();
  report.findings[0].cures = {{"do this", "", Bytes{}}};
  EXPECT_THAT(report::findings_to_terminal(report, false), HasSubstr("\n  1. do this\n"));
  EXPECT_THAT(report::findings_to_markdown(report), HasSubstr("1. do this\n"));
}

TEST(FindingViews, TerminalShowsCauseEvidenceAndCures) {
  const std::string text = report::findings_to_terminal(sample(), false);
  EXPECT_EQ(text,
            "severe: CUDA ran <out> [cuda-out-of-memory]\n"
            "  seen: a.log:12: CUDA error: `out of memory`\n"
            "  seen: run\n"
            "  7 times in total\n"
            "  cause (likely): Because | it.\n"
            "  1. do this (could save 3.0 MiB)\n"
            "       cmd --flag\n"
            "  2. or that\n"
            "\n"
            "benign: A GPU was listed [gpu-memory-listed]\n"
            "  seen: a.log:1\n"
            "  At its start.\n"
            "\n"
            "1 severe finding, 1 benign finding\n");
  EXPECT_THAT(report::findings_to_terminal(sample(), true), HasSubstr("\033["));
  EXPECT_EQ(report::findings_to_terminal({}, false), "nothing found\n");
}

TEST(FindingViews, JsonUsesBaseUnits) {
  const Json document = report::findings_to_json(sample());
  EXPECT_EQ(document["schema_version"], 1);
  const Json& finding = document["findings"][0];
  EXPECT_EQ(finding["severity"], "severe");
  EXPECT_EQ(finding["confidence"], "likely");
  EXPECT_EQ(finding["times"], 7);
  EXPECT_EQ(finding["evidence"][0]["line"], 12);
  EXPECT_FALSE(finding["evidence"][1].contains("line"));
  EXPECT_EQ(finding["figures"]["requested_bytes"], 2 << 20);
  EXPECT_EQ(finding["figures"]["share_percent"], 12.5);
  EXPECT_EQ(finding["cures"][0]["saves_bytes"], 3 << 20);
  EXPECT_FALSE(finding["cures"][1].contains("saves_bytes"));
}

TEST(FindingViews, MarkdownEscapesInput) {
  const std::string text = report::findings_to_markdown(sample());
  EXPECT_THAT(text, HasSubstr("## headroom doctor: 1 severe finding"));
  EXPECT_THAT(text, Not(HasSubstr("<out>")));
  EXPECT_THAT(text, HasSubstr("1. do this (could save 3.0 MiB): `cmd --flag`"));
  EXPECT_THAT(text, HasSubstr("2.0 MiB"));
}

}  // namespace
}  // namespace headroom::test
