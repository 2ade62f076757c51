// Records of loggers, and quotation marks of mails.
#include "doctor/log/log_envelope.h"

#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

TEST(LogEnvelope, ReadsLineOfPrettyPrintedRecord) {
  const Finding finding = finding_in(
      {"{",
       R"(        "MESSAGE" : "\u001b[31mTraceback:\nRuntimeError: CUDA error: out of memory\u001b[0m",)",
       "}"});
  EXPECT_EQ(finding.evidence.at(0).text, "RuntimeError: CUDA error: out of memory");
}

TEST(LogEnvelope, UnwrapsGoogleStructlogAndLogfmt) {
  for (const std::string line :
       {R"({"textPayload": "Traceback:\nRuntimeError: CUDA error: out of memory", "severity": "ERROR"})",
        R"({"level": "error", "event": "Traceback:\nRuntimeError: CUDA error: out of memory"})",
        R"(time=10:11:12Z level=error msg="Traceback:\nRuntimeError: CUDA error: out of memory" pid=3)"}) {
    const Finding finding = finding_in({line});
    EXPECT_EQ(finding.evidence.at(0).text, "RuntimeError: CUDA error: out of memory") << line;
  }
}

TEST(LogEnvelope, ReadsQuotedLines) {
  const std::string xla =
      "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
      "1073741824 bytes.";
  for (const std::string marks : {"> ", ">", ">> ", "> > "})
    for (const std::string& text : {xla, kTorch, std::string("MemoryError")}) {
      const auto quoted = findings_of({marks + text}), plain = findings_of({text});
      ASSERT_EQ(quoted.size(), 1U) << marks << text;
      EXPECT_EQ(quoted[0].title, plain.at(0).title) << marks;
      EXPECT_EQ(quoted[0].evidence.at(0).text, plain[0].evidence.at(0).text) << marks;
    }
  EXPECT_EQ(findings_of({R"(> {"log":"MemoryError\n","stream":"stderr"})"}).size(), 1U);
  // A message over several lines, each of them quoted.
  EXPECT_EQ(
      figure(findings_of({"> " + kTorch.substr(0, 100), "> " + kTorch.substr(100)}).at(0), "free_bytes"),
      figure(findings_of({kTorch}).at(0), "free_bytes"));
}

}  // namespace
}  // namespace headroom::test
