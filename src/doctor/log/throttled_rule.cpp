// The kernel tells that clocks were lowered: for heat, or as the board drew more current than its supply
// gives. Nothing failed, and it is no want of memory.
#include <charconv>
#include <cstdint>

#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr const char *kHeat = "heat", *kCurrent = "over-current";

// "soctherm: OC ALARM 0x00000001": a bit for each of the Jetson's alarms; none is set in one of 0.
bool is_alarm(std::string_view line) {
  const auto bits = text_after(line, "soctherm: OC ALARM 0x");
  std::uint64_t alarms = 0;
  return bits && std::from_chars(bits->data(), bits->data() + bits->size(), alarms, 16).ec == std::errc{} &&
         alarms != 0;
}

std::optional<LogMessage> read(std::string_view line) {
  const bool is_current = is_alarm(line);
  // "CPU0: Core temperature above threshold, cpu clock throttled (total events = 1)", of Intel's processors.
  if (!is_current && !has(line, "emperature above threshold, cpu clock throttled")) return std::nullopt;
  LogMessage message;
  message.subject = is_current ? kCurrent : kHeat;
  message.add("reason", message.subject);
  return message;
}

Finding explain(const LogMessage& message) {
  const bool is_current = message.subject == kCurrent;
  Finding finding;
  finding.id = "throttled";
  finding.severity = Severity::warning;
  finding.title = is_current ? "The board was throttled: it drew more current than its supply gives"
                             : "The processor was throttled: it was too hot";
  finding.cause =
      is_current
          ? "An alarm of the Jetson's: clocks go down while it lasts, and times with them. Nothing failed."
          : "Clocks go down until it has cooled, and times with them. Nothing failed.";
  finding.confidence = Confidence::certain;
  finding.cures = {{"choose a lower power mode", "sudo nvpmodel -m MODE", {}},
                   {"use a supply and a cable for the board's full power", "", {}},
                   {"see temperatures and the power mode", "headroom top", {}}};
  if (!is_current)
    finding.cures = {{"cool it: dust, the fan, the room", "", {}},
                     {"or bound its clock", "sudo cpupower frequency-set --max 2GHz", {}},
                     {"see temperatures", "headroom top", {}}};
  return finding;
}

}  // namespace

LogRule throttled_rule() {
  LogRule rule{"throttled", {"soctherm: OC ALARM", "cpu clock throttled"}, read, explain};
  rule.from_outside = true;
  rule.is_of_memory = false;
  return rule;
}

}  // namespace headroom::doctor
