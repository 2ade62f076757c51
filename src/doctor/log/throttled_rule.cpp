// The kernel tells that clocks were lowered, for heat or as the board drew more current than its supply
// gives: nothing failed then. Or that it was so hot that the machine went off. None is a want of memory.
#include <fmt/format.h>

#include <charconv>
#include <cstdint>

#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr const char *kHeat = "heat", *kCurrent = "over-current", *kShutdown = "critical temperature";

// "soctherm: OC ALARM 0x00000001": a bit for each of the Jetson's alarms; none is set in one of 0.
bool is_alarm(std::string_view line) {
  const auto bits = text_after(line, "soctherm: OC ALARM 0x");
  std::uint64_t alarms = 0;
  return bits && std::from_chars(bits->data(), bits->data() + bits->size(), alarms, 16).ec == std::errc{} &&
         alarms != 0;
}

// "thermal thermal_zone0: cpu-thermal: critical temperature reached, shutting down", before 5.13 "thermal
// thermal_zone0: critical temperature reached (105 C), shutting down"; and since 5.13 what comes of it:
// "reboot: HARDWARE PROTECTION shutdown (Temperature too high)".
std::optional<LogMessage> read_shutdown(std::string_view line) {
  LogMessage message;
  message.subject = kShutdown;
  message.add("reason", message.subject);
  if (has(line, "HARDWARE PROTECTION shutdown (Temperature too high)")) {
    message.part = "shutdown";
    return message;
  }
  const auto zone = text_after(line, "thermal thermal_zone");
  const auto rest = zone ? text_after(*zone, ": ") : std::nullopt;
  constexpr std::string_view kReached = "critical temperature reached";
  const std::size_t at = rest ? rest->find(kReached) : line.npos;
  if (at == line.npos) return std::nullopt;
  const std::string_view name = rest->substr(0, at);
  const bool is_name = name.empty() || (name.ends_with(": ") && name.find(' ') == name.size() - 1);
  if (!is_name) return std::nullopt;
  message.part = "reached";
  if (!name.empty()) message.add("zone", name.substr(0, name.size() - 2));
  message.add("temperature_celsius", integer_after(rest->substr(at), "reached ("));
  return message;
}

Finding explain_shutdown(const LogMessage& message) {
  const std::string zone = message.text("zone");
  const auto temperature = message.number("temperature_celsius");
  Finding finding;
  finding.id = "thermal-shutdown";
  finding.severity = Severity::severe;
  finding.title =
      fmt::format("The machine shut itself down: it was too hot{}{}", zone.empty() ? "" : " (" + zone + ")",
                  temperature ? fmt::format(", at {} °C", *temperature) : "");
  finding.cause =
      "The kernel turns the machine off at a sensor's critical temperature. This ended all programs. Memory "
      "did not run out.";
  finding.confidence = Confidence::certain;
  finding.cures = {
      {"cool the machine: check dust, fan, heat sink contact and room temperature", "", {}},
      {"on a Jetson, choose a lower power mode, and turn the fan on", "sudo nvpmodel -m MODE", {}},
      {"watch the temperatures", "headroom top", {}}};
  return finding;
}

std::optional<LogMessage> read(std::string_view line) {
  if (auto shutdown = read_shutdown(line)) return shutdown;
  const bool is_current = is_alarm(line);
  // "CPU0: Core temperature above threshold, cpu clock throttled (total events = 1)", of Intel's processors.
  if (!is_current && !has(line, "emperature above threshold, cpu clock throttled")) return std::nullopt;
  LogMessage message;
  message.subject = is_current ? kCurrent : kHeat;
  message.add("reason", message.subject);
  return message;
}

Finding explain(const LogMessage& message) {
  if (message.subject == kShutdown) return explain_shutdown(message);
  const bool is_current = message.subject == kCurrent;
  Finding finding;
  finding.id = "throttled";
  finding.severity = Severity::warning;
  finding.title = is_current ? "The board was throttled: it drew more current than its power supply delivers"
                             : "The processor was throttled: it was too hot";
  finding.cause =
      is_current
          ? "The Jetson raised an over-current alarm. It lowers its clocks while the alarm lasts, so "
            "programs run slower. Nothing failed."
          : "The processor lowers its clocks until it has cooled, so programs run slower. Nothing failed.";
  finding.confidence = Confidence::certain;
  finding.cures = {{"choose a lower power mode", "sudo nvpmodel -m MODE", {}},
                   {"use a power supply and a cable for the board's full power", "", {}},
                   {"watch the temperatures and the power mode", "headroom top", {}}};
  if (!is_current)
    finding.cures = {{"cool the machine: check dust, fan and room temperature", "", {}},
                     {"or limit the CPU clock", "sudo cpupower frequency-set --max 2GHz", {}},
                     {"watch the temperatures", "headroom top", {}}};
  return finding;
}

}  // namespace

LogRule throttled_rule() {
  LogRule rule{
      "throttled",
      {"soctherm: OC ALARM", "cpu clock throttled", "l temperature reached", "PROTECTION shutdown ("},
      read,
      explain};
  rule.from_outside = true;
  rule.is_of_memory = false;
  return rule;
}

}  // namespace headroom::doctor
