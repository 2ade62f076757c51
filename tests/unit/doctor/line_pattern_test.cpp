// Patterns of log lines, and the templates that their figures fill in.
#include "doctor/log/line_pattern.h"

#include "doctor/log/finding_text.h"
#include "doctor/log/rule_text.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::fill_in;
using doctor::LogMessage;
using doctor::match_pattern;

// "name=value;…" of the captured figures, or "-" if the line does not match.
std::string figures_of(std::string_view pattern, std::string_view line) {
  LogMessage message;
  if (!match_pattern(pattern, line, message)) return "-";
  std::string figures;
  for (const Figure& figure : message.figures) {
    const auto* text = std::get_if<std::string>(&figure.value);
    figures +=
        figure.name + "=" + (text ? *text : std::to_string(std::get<std::int64_t>(figure.value))) + ";";
  }
  return figures;
}

TEST(LinePattern, ReadsFiguresOfEachType) {
  struct Case {
    std::string_view pattern, line, figures;
  };
  const Case kCases[] = {
      {"allocate {requested_bytes} bytes on device {gpu:int}", "E: allocate 4096 bytes on device 1",
       "requested_bytes=4096;gpu=1;"},
      {"free: {free_bytes:unit}", "free: 2.00 MiB", "free_bytes=2097152;"},
      {"free: {free_bytes:unit}", "free: 2", "-"},  // the line is cut off
      {"limit {limit_bytes:quantity}", "limit 500M", "limit_bytes=500000000;"},
      {"size {requested_bytes}", "size 18446744073709551612", "wrong_size=18446744073709551612;"},
      {"code {:int=12}", "code 12", ""},
      {"code {:int=12}", "code 13", "-"},
      {"budget={tokens:int<-1}", "budget=-5", "tokens=-5;"},
      {"share={share:decimal}", "share=0.85.", "share=0.85;"},
      {"avail: {free_bytes:MiB} of", "avail:   2 of 4 MiB", "free_bytes=2097152;"},
      {"{unit:service}: Failed", "systemd[1]: det.service: Failed", "unit=det;"},
      {"{unit:service}: Failed", "systemd[1]: a.scope: Failed", "unit=a.scope;"},
      {"{unit:service}: Failed", "det: Failed", "-"},
      {"Name:  {pod}", "Name:      det-0", "pod=det-0;"},
      {"Name:  {pod}", "Name: det-0", "-"},
      {"conmon {container:word} <ninfo>", "conmon 4f2a <ninfo>", "container=4f2a;"},
      {"node {node}, try", "node a b, try again", "node=a b;"},
      {"begin…end {x:int}", "begin of it, end 3", "x=3;"},
      {"^whole$", "  whole  ", ""},
      {"^whole$", "not whole", "-"},
      {"{braces} of code", "{braces} of code", "braces={braces};"}};
  for (const Case& each : kCases)
    EXPECT_EQ(figures_of(each.pattern, each.line), each.figures) << each.pattern;
}

TEST(LinePattern, FirstFigureOfANameCounts) {
  LogMessage message;
  ASSERT_TRUE(match_pattern("first {x:int}", "first 1, then 2", message));
  ASSERT_TRUE(match_pattern("then {x:int}", "first 1, then 2", message));
  EXPECT_EQ(message.number("x"), 1);
}

TEST(FindingText, FillsInTemplates) {
  LogMessage message;
  message.add("requested_bytes", mebibytes(3));
  message.add("errno", std::optional<std::int64_t>(12));
  message.add("model", "a b");
  const std::pair<std::string_view, std::optional<std::string>> kTexts[] = {
      {"asked for {requested_bytes}", "asked for 3.0 MiB"},
      {"{requested_bytes/2:count}, {requested_bytes:mib}, {errno*2+1}", "1572864, 3, 25"},
      {"{free_bytes|some memory}", "some memory"},
      {"{free_bytes}", std::nullopt},
      {"x[[ of {free_bytes}]][[ on {errno}]]", "x on 12"},
      {"error[[if errno=12: (no memory)]][[if errno!=12: (other)]]", "error (no memory)"},
      {"run {model:shell}", "run 'a b'"},
      {"{ of a shell }", "{ of a shell }"}};
  for (const auto& [text, filled] : kTexts) EXPECT_EQ(fill_in(text, message), filled) << text;
}

TEST(FindingText, ComparesFigures) {
  LogMessage message;
  message.subject = "host";
  message.add("requested_bytes", mebibytes(3));
  message.add("free_bytes", mebibytes(2));
  message.add("reason", "the GPU is full");
  for (const char* condition :
       {"", "reason", "!node", "subject=host", "reason~GPU", "free_bytes<requested_bytes",
        "free_bytes>requested_bytes/2, reason", "reason!=none", "!wrong_size"})
    EXPECT_TRUE(doctor::holds(condition, message)) << condition;
  for (const char* condition : {"node", "!reason", "subject=gpu", "reason, node", "node>1", "wrong_size"})
    EXPECT_FALSE(doctor::holds(condition, message)) << condition;
}

void check_length(std::string_view line, doctor::LogMessage& message) { message.is_none = line.size() <= 12; }

TEST(RuleText, ReadsRule) {
  const auto rules = doctor::parse_rules({{.text = R"(
cures shared: see it => headroom top
figures sizes
  size {requested_bytes}
  answers <= refused || "declined "
rule example: from_outside
  # a comment
  line failed && "to " || "unable to " -> memory=host; subject={memory}; is_final; none=" 0 failed";
        call=check_length; figures=@sizes
  or refused
    figures if !requested_bytes => part=unknown
  finding example-failed warning possible when memory=host
    title A long
          title
    cause A cause.
    cure do less => command :: saves requested_bytes/2 :: when requested_bytes
    cure @shared
  finding example-failed
)",
                                           .functions = {{"check_length", check_length}}}});
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_TRUE(rules[0].from_outside);
  EXPECT_TRUE(rules[0].read("unable to get size 4096"));
  const auto message = rules[0].read("failed to get size 4096");
  ASSERT_TRUE(message);
  EXPECT_EQ(message->subject, "host");
  EXPECT_TRUE(message->is_final);
  EXPECT_FALSE(message->answers);
  const auto refused = rules[0].read("it was refused by size");
  ASSERT_TRUE(refused);
  EXPECT_TRUE(refused->answers);
  EXPECT_EQ(refused->part, "unknown");
  EXPECT_FALSE(rules[0].read("failed to x"));
  EXPECT_FALSE(rules[0].read("failed to get size 4096, 0 failed"));
  const Finding finding = rules[0].explain(*message);
  EXPECT_EQ(finding.title, "A long title");
  EXPECT_EQ(finding.severity, Severity::warning);
  ASSERT_EQ(finding.cures.size(), 2U);
  EXPECT_EQ(finding.cures[0].saves, Bytes{2048});
  // What the second finding does not say is as in the first.
  EXPECT_EQ(rules[0].explain(LogMessage{}).title, "A long title");
  EXPECT_EQ(rules[0].explain(LogMessage{}).severity, Severity::severe);
}

TEST(RuleText, RejectsUnknownWords) {
  for (const char* text :
       {"rule a\n  lines x", "rule a\n  line x -> is_fnal", "rule a\n  line x -> call=absent", "rule a: flag",
        "rule a\n  title x", "rule a\n  line x\n  finding b\n    cure @absent", "other a"})
    EXPECT_THROW(doctor::parse_rules({{text}}), std::logic_error) << text;
}

}  // namespace
}  // namespace headroom::test
