// Node.js and PHP have a limit of their own for what a script may hold: the machine may have more.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/log/message_text.h"
#include "doctor/log/requested_size.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kName = "script-heap", kNode = "Node.js", kPhp = "PHP";

std::optional<LogMessage> read_node(std::string_view line) {
  constexpr std::string_view kWords = "JavaScript heap out of memory";
  const std::size_t at = line.find(kWords);
  if (at == line.npos || (at > 0 && std::string_view("\"'`").find(line[at - 1]) != std::string_view::npos))
    return std::nullopt;
  LogMessage message;
  message.subject = kNode;
  message.add("runtime", kNode);
  return message;
}

// "PHP Fatal error:  Allowed memory size of 134217728 bytes exhausted (tried to allocate 81513688 bytes) in
// …", which it prints and logs.
std::optional<LogMessage> read_php(std::string_view line) {
  const auto limit = text_after(line, "Allowed memory size of ");
  if (!limit || !has(*limit, " bytes exhausted")) return std::nullopt;
  LogMessage message;
  message.subject = kPhp;
  message.part = has(line, "PHP Fatal") ? "logged" : "printed";
  message.add("runtime", kPhp);
  message.add("limit_bytes", leading_size(*limit));
  add_requested(message, text_after(*limit, "(tried to allocate "));
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  if (auto message = read_node(line)) return message;
  return read_php(line);
}

// "… ms: Mark-Compact (reduce) 4098.8 (4122.6) -> 4079.8 (4105.0) MB, …", up to Node.js 18 "Mark-sweep": what
// a whole collection of V8's began with and, in brackets, what its heap had of the system. The last ones are
// printed before the error.
std::optional<LogMessage> read_collection(std::string_view line) {
  auto sizes = text_after(line, " ms: Mark-");
  const std::size_t number = sizes ? sizes->find_first_of("0123456789") : line.npos;
  if (number == line.npos || sizes->find(" -> ") == line.npos) return std::nullopt;
  sizes = sizes->substr(number);
  const auto mebibytes_of = [](std::string_view text) {
    const std::size_t end = text.find_first_not_of("0123456789.");
    return leading_size(fmt::format("{} MiB", text.substr(0, end)));
  };
  const auto reserved = text_after(*sizes, " (");
  if (!reserved || sizes->find(" (") > sizes->find(" -> ")) return std::nullopt;
  LogMessage message;
  message.add("heap_bytes", mebibytes_of(*sizes));
  message.add("heap_reserved_bytes", mebibytes_of(*reserved));
  return message;
}

// By half more than what it held: the limit itself is told nowhere.
Finding explain_node(const LogMessage& message, Finding finding) {
  const auto held = message.bytes("heap_bytes");
  const bool is_known = held && !is_impossible(*held) && *held >= mebibytes(1);
  finding.title = fmt::format("Node.js reached its heap limit{}",
                              is_known ? fmt::format(": it held {}", format_bytes(*held)) : "");
  finding.cause = "This is the runtime's own limit, not the machine's. The program needs more, or it leaks.";
  const Cure raise = is_known
                         ? Cure{"raise the limit by half, if that much is free",
                                fmt::format("NODE_OPTIONS=--max-old-space-size={}",
                                            (held->count + held->count / 2) / mebibytes(1).count),
                                {}}
                         : Cure{
                               "raise the limit to half of the machine's memory, if that is free and more "
                               "than the current limit",
                               "NODE_OPTIONS=--max-old-space-size=$(awk '/MemTotal/ {print int($2/2048)}' "
                               "/proc/meminfo)",
                               {}};
  finding.cures = {raise,
                   {"check whether its memory keeps growing", "headroom watch -- COMMAND", {}},
                   {"see which objects fill it", "node --heapsnapshot-near-heap-limit=1 SCRIPT", {}}};
  return finding;
}

// A quarter more, and room for what was asked for at least.
Finding explain_php(const LogMessage& message, Finding finding) {
  const auto limit = message.bytes("limit_bytes"), requested = message.bytes("requested_bytes");
  finding.title =
      fmt::format("PHP reached its limit{}{}", limit ? fmt::format(" of {}", format_bytes(*limit)) : "",
                  requested ? fmt::format(": it asked for {} more", words_for_requested(message, "")) : "");
  if (has_wrong_size(message)) {
    finding.cause = cause_of_wrong_size(message);
    return finding;
  }
  finding.cause =
      "This is PHP's own limit (memory_limit), not the machine's. The script needs more, or its input is "
      "larger than expected.";
  finding.confidence = Confidence::certain;
  std::string larger = "SIZE";
  if (limit && !is_impossible(*limit)) {
    const std::int64_t bytes = limit->count + std::max(limit->count / 4, requested.value_or(Bytes{}).count);
    larger = fmt::format("{}M", (bytes + mebibytes(1).count - 1) / mebibytes(1).count);
  }
  finding.cures = {
      {"raise the limit (php.ini, or the pool's php_admin_value)",
       fmt::format("memory_limit = {}", larger),
       {}},
      {"or raise the limit of one script", fmt::format("php -d memory_limit={} SCRIPT", larger), {}},
      {"read the data in pieces, not all at once", "", {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "heap-limit-reached";
  finding.severity = Severity::severe;
  finding.confidence = Confidence::likely;
  return message.text("runtime") == kPhp ? explain_php(message, std::move(finding))
                                         : explain_node(message, std::move(finding));
}

}  // namespace

LogRule script_heap_rule() {
  return {kName, {"heap out of memory", "Allowed memory size of "}, read, explain};
}

LogRule script_heap_context_rule() {
  LogRule rule{"script-heap-context", {" ms: Mark-"}, read_collection, explain};
  rule.context_of = kName;
  return rule;
}

}  // namespace headroom::doctor
