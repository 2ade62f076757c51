// earlyoom ends the process that the kernel would choose where little memory and swap are left, before the
// kernel has to.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kName = "earlyoom";

// "sending SIGTERM to process 4321 uid 1000 "python3": badness 800, VmRSS 3456 MiB"; in version 1.2 "killing
// process 4321 "python3" with signal 15: badness 550, VmRSS …", before that "Killing process 'python3' with
// signal 15, pid: 4321, badness: 538, VmRSS: 3160 MiB"; since 1.8 "oom_score 1200" in place of the badness.
std::optional<LogMessage> read(std::string_view line) {
  const bool is_first = has(line, "illing process ") && has(line, " with signal ") && has(line, "adness");
  const bool is_sent = has(line, "sending SIG") && (has(line, "\": badness ") || has(line, "\": oom_score "));
  if (!is_first && !is_sent) return std::nullopt;
  const auto process = text_after(line, is_sent ? " to process " : "illing process ");
  auto pid = process ? integer_after(*process, "") : std::nullopt;
  if (process && !pid) pid = integer_after(*process, ", pid: ");
  if (!process || !pid) return std::nullopt;
  LogMessage message;
  const std::size_t open = process->find_first_of("\"'");
  if (open != process->npos) {
    const std::string_view name = process->substr(open + 1);
    for (const std::string_view end : {"\": ", "\" with signal ", "' with signal "})
      if (const std::size_t at = name.find(end); at != name.npos) {
        message.subject = name.substr(0, at);
        break;
      }
  }
  message.event = fmt::format("{} {} {}", kName, *pid, message.subject);  // which it may signal several times
  message.add("who", kName);
  message.add("pid", pid);
  message.add("victim", message.subject);
  const auto held = size_after(line, "VmRSS ");
  message.add("resident_bytes", held ? held : size_after(line, "VmRSS: "));
  return message;
}

// "mem avail:   165 of 31880 MiB ( 0.52%), swap free: 19581 of 49151 MiB (39.84%)", each second.
std::optional<LogMessage> read_available(std::string_view line) {
  const auto memory = text_after(line, "mem avail:"), swap = text_after(line, "swap free:");
  if (!memory || !swap) return std::nullopt;
  LogMessage message;
  const auto add_pair = [&](std::string_view text, std::string_view free, std::string_view total) {
    constexpr std::int64_t kMost = std::int64_t{1} << 24;  // 16 TiB
    const auto number = integer_after(text, ""), all = integer_after(text, " of ");
    if (!number || !all || *number < 0 || *all < *number || *all > kMost) return;
    message.add(free, mebibytes(*number));
    message.add(total, mebibytes(*all));
  };
  add_pair(*memory, "available_bytes", "ram_bytes");
  add_pair(*swap, "swap_free_bytes", "swap_bytes");
  return message;
}

// For a regular expression: a name from a log may hold what has a meaning in one, or in a shell.
std::string escaped(std::string_view name) {
  std::string text;
  for (const char letter : name) {
    if (std::string_view(".[]{}()*+?^$|\\").find(letter) != std::string_view::npos) text += '\\';
    text += letter;
  }
  return text;
}

Finding explain(const LogMessage& message) {
  const std::string victim = message.text("victim");
  const auto available = message.bytes("available_bytes"), ram = message.bytes("ram_bytes"),
             free = message.bytes("swap_free_bytes"), swap = message.bytes("swap_bytes"),
             held = message.bytes("resident_bytes");
  Finding finding;
  finding.id = "process-killed-for-memory";
  finding.severity = Severity::severe;
  finding.title =
      fmt::format("{} (process {}) was killed because memory ran out (reported by {})",
                  victim.empty() ? "A program" : victim, message.number("pid").value_or(0), kName);
  const std::string left =
      available && ram
          ? fmt::format("{} of {} of memory were left{}", format_bytes(*available), format_bytes(*ram),
                        free && swap && swap->count > 0
                            ? fmt::format(", and {} of {} of swap", format_bytes(*free), format_bytes(*swap))
                            : "")
          : "Little memory and swap were left";
  finding.cause = left + ": earlyoom ends the largest process before the kernel's OOM killer has to act.";
  constexpr std::int64_t kPart = 10;
  if (held && ram && held->count < ram->count / kPart)
    finding.cause += fmt::format(
        " This process held {} in memory. It may hold more in swap, which earlyoom also counts, or other "
        "processes hold the memory.",
        format_bytes(*held));
  finding.confidence = Confidence::certain;
  finding.cures = {
      {"see which processes hold the memory", "headroom top", {}},
      {"make earlyoom prefer other processes",
       "earlyoom --avoid " + shell_word(fmt::format("^{}$", victim.empty() ? "NAME" : escaped(victim))),
       {}}};
  return finding;
}

}  // namespace

LogRule earlyoom_rule() {
  LogRule rule{kName, {": badness ", ", badness: ", "\": oom_score "}, read, explain};
  rule.from_outside = rule.repeats_kills = true;
  return rule;
}

LogRule earlyoom_context_rule() {
  LogRule rule{"earlyoom-context", {"mem avail:"}, read_available, explain};
  rule.context_of = kName;
  return rule;
}

}  // namespace headroom::doctor
