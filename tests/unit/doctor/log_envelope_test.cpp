// Records of the journal. Their text may be an array of bytes, on one line or on hundreds.
#include "doctor/log/log_envelope.h"

#include <fmt/format.h>

#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::LogFindings;

// "[27,91,…]", with `between` between the numbers.
std::string bytes_of(const std::string& text, const std::string& between) {
  std::string bytes;
  for (const char c : text)
    bytes +=
        fmt::format("{}{}", bytes.empty() ? "" : between, static_cast<int>(static_cast<unsigned char>(c)));
  return bytes;
}

TEST(LogEnvelope, ReadsByteArraysOfJournal) {
  const std::string text = "\x1b[31mRuntimeError: CUDA error: out of memory\x1b[0m";
  const std::string bytes = bytes_of(text, ", ");
  for (const std::string key : {"\"MESSAGE\":[", "\"MESSAGE\": [", "\"MESSAGE\" : ["}) {
    const auto findings = findings_of({"{\"PRIORITY\":\"3\"," + key + bytes + "]}"});
    ASSERT_EQ(findings.size(), 1U) << key;
    EXPECT_EQ(findings[0].evidence.at(0).text, "RuntimeError: CUDA error: out of memory") << key;
  }
  // Read from a file: the array contains none of the words that the reader searches for.
  TemporaryFolder folder;
  const std::string pretty = "{\n\t\"PRIORITY\" : \"3\",\n\t\"MESSAGE\" : [\n\t\t" +
                             bytes_of(text, ",\n\t\t") + "\n\t],\n\t\"_PID\" : \"12\"\n}\n";
  write_text(folder / "pretty.json", "{\n}\n" + pretty);
  LogFindings logs;
  ASSERT_TRUE(logs.read_file(folder / "pretty.json").has_value());
  const auto findings = logs.findings();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].evidence.at(0).text, "RuntimeError: CUDA error: out of memory");
  EXPECT_EQ(findings[0].evidence[0].line, 5);
}

TEST(LogEnvelope, ReadsLineOfPrettyPrintedRecord) {
  const auto findings = findings_of(
      {"{",
       R"(        "MESSAGE" : "\u001b[31mTraceback:\nRuntimeError: CUDA error: out of memory\u001b[0m",)",
       "}"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].evidence.at(0).text, "RuntimeError: CUDA error: out of memory");
}

TEST(LogEnvelope, UnwrapsGoogleStructlogAndLogfmt) {
  for (
      const std::string line :
      {R"({"textPayload": "Traceback:\nRuntimeError: CUDA error: out of memory", "severity": "ERROR"})",
       R"({"level": "error", "event": "Traceback:\nRuntimeError: CUDA error: out of memory"})",
       R"(time=2025-03-04T10:11:12Z level=error msg="Traceback:\nRuntimeError: CUDA error: out of memory" pid=3)"}) {
    const auto findings = findings_of({line});
    ASSERT_EQ(findings.size(), 1U) << line;
    EXPECT_EQ(findings[0].evidence.at(0).text, "RuntimeError: CUDA error: out of memory") << line;
  }
}

TEST(LogEnvelope, EndlessByteArrayIsBounded) {
  LogFindings logs;
  EXPECT_TRUE(logs.read_line("log", 1, "\"MESSAGE\" : ["));
  std::int64_t number = 1;
  while (logs.read_line("log", ++number, "65,") && number < 100'000) {
  }
  EXPECT_LE(number, 10'000);
  // Another line ends the array and is read itself.
  logs.read_line("log", ++number, "\"MESSAGE\" : [");
  logs.read_line("log", ++number, "65,");
  logs.read_line("log", ++number, "RuntimeError: CUDA error: out of memory");
  EXPECT_EQ(logs.findings().size(), 1U);
}

}  // namespace
}  // namespace headroom::test
