// systemd-oomd ends a group of processes where memory is short, before the kernel has to: by the time that
// tasks wait for memory, or where swap is nearly full.
#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_kill_cures.h"
#include "doctor/log/rules.h"
#include "doctor/log/systemd_unit.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kName = "systemd-oomd";

// Its own line, and systemd's of it, "app-x.scope: systemd-oomd killed 12 process(es) in this unit.", are one
// event.
void tell_as_kill_of_oomd(LogMessage& message) {
  message.add("who", kName);
  message.event = fmt::format("{} {}", kName, message.subject);
  message.part = kName;
}

std::optional<LogMessage> read_systemd(std::string_view line) {
  if (!has(line, ": systemd-oomd killed ") || !has(line, " in this unit")) return std::nullopt;
  LogMessage message;
  message.subject = unit_of(line);
  message.add("unit", message.subject);
  tell_as_kill_of_oomd(message);
  return message;
}

// "… due to memory used (7516192768) / total (7945689497) and swap used (3865470566) / total (3972844748)
// being more than 90.00%", of swap alone up to systemd 248.
void read_swap_of_oomd(std::string_view why, LogMessage& message) {
  const auto add_pair = [&](std::string_view used, std::string_view used_name, std::string_view total_name) {
    const auto rest = text_after(why, used);
    if (!rest) return;
    message.add(total_name, size_after(*rest, "/ total ("));
    message.add(used_name, leading_size(*rest));
  };
  add_pair("memory used (", "ram_used_bytes", "ram_bytes");
  add_pair("swap used (", "swap_used_bytes", "swap_bytes");
  if (const auto limit = text_after(why, " being more than ")) {
    const std::size_t end = limit->find('%');
    if (end != limit->npos) message.add("swap_used_limit", limit->substr(0, end + 1));
  }
}

// "Marked /user.slice/…/app-x.scope for killing due to memory pressure for /user.slice/… being 62.10% >
// 50.00% for …", or for swap that is nearly full; "Killed /user.slice/… due to …" up to systemd 257.
std::optional<LogMessage> read_oomd(std::string_view line) {
  constexpr std::pair<std::string_view, std::string_view> kForms[] = {{"Marked ", " for killing due to "},
                                                                      {"Killed ", " due to "}};
  if (!has(line, kName)) return std::nullopt;
  for (const auto& [before, behind] : kForms) {
    const auto path = text_after(line, before);
    const std::size_t end = path ? path->find(behind) : line.npos;
    if (end == line.npos) continue;
    LogMessage message;
    const std::string_view group = path->substr(0, end), why = path->substr(end);
    const std::string_view unit = name_in(group);
    message.subject = without_service(unit);
    message.add("unit", unit);
    message.add("user_id", user_of(group));
    if (has(why, "swap used ("))
      read_swap_of_oomd(why, message);
    else if (const auto pressure = text_after(why, " being "); pressure && has(*pressure, " for "))
      message.add("pressure", pressure->substr(0, pressure->find(" for ")));
    tell_as_kill_of_oomd(message);
    return message;
  }
  return std::nullopt;
}

// "oomd attempting to kill 407 with KILL", before it tells of which group, or that nothing of it was left.
std::optional<LogMessage> read_attempt(std::string_view line) {
  const auto process = text_after(line, "oomd attempting to kill ");
  if (!process || !has(*process, " with KILL")) return std::nullopt;
  LogMessage message;
  message.add("who", kName);
  message.add("pid", integer_after(*process, ""));
  message.event = fmt::format("{} attempts", kName);
  message.part = "attempt";
  message.is_vague = true;
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  for (const auto& read_form : {read_systemd, read_oomd, read_attempt})
    if (auto message = read_form(line)) return message;
  return std::nullopt;
}

// "Memory pressure for /system.slice is 85.03% > 80.00% for > 2s with reclaim activity", before it looks for
// whom to end: its later lines may be cut before they tell it.
std::optional<LogMessage> read_pressure(std::string_view line) {
  const auto group = text_after(line, "Memory pressure for ");
  const auto pressure = group ? text_after(*group, " is ") : std::nullopt;
  const std::size_t end = pressure ? pressure->find(" for > ") : line.npos;
  if (end == line.npos || !has(line, "with reclaim activity")) return std::nullopt;
  LogMessage message;
  message.add("pressure", pressure->substr(0, end));
  return message;
}

// A container's scope is its runtime's, which has no such preference.
void add_preference(const LogMessage& message, Finding& finding) {
  const std::string unit = message.text("unit"), user = message.text("user_id");
  finding.cures.push_back(is_container(unit)
                              ? limit_container(user, unit)
                              : set_property("make systemd-oomd prefer other groups", user,
                                             unit.empty() ? "UNIT" : unit, "ManagedOOMPreference=avoid"));
}

void add_limit(const LogMessage& message, Finding& finding) {
  const std::string unit = message.text("unit"), user = message.text("user_id");
  finding.cures.push_back(
      is_container(unit)
          ? limit_container(user, unit)
          : set_property("set a limit for the group, so that only this group runs short of memory", user,
                         unit, "MemoryMax=SIZE MemorySwapMax=SIZE"));
}

// It looks at swap, as where that is full the machine stalls before the kernel kills.
void explain_full_swap(const LogMessage& message, Finding& finding) {
  const auto used = message.bytes("swap_used_bytes"), total = message.bytes("swap_bytes"),
             held = message.bytes("ram_used_bytes"), ram = message.bytes("ram_bytes");
  const std::string limit = message.text("swap_used_limit"), unit = message.text("unit");
  finding.cause = fmt::format(
      "Swap was nearly full: {} of {} were used{}, more than {}. systemd-oomd then kills the group that "
      "holds the most swap.",
      words_for(used, "most"), words_for(total, "it"),
      held && ram ? fmt::format(", and {} of {} of memory", format_bytes(*held), format_bytes(*ram)) : "",
      limit.empty() ? "the limit" : "the " + limit + " limit");
  finding.confidence = Confidence::certain;
  finding.cures.push_back(
      make_swap_file("add swap, if the programs need it only for a while", ram, SwapFile::another));
  finding.cures.push_back({"swap to compressed memory first", "sudo apt install zram-tools", {}});
  add_limit(message, finding);
  // For swap it heeds the preference of groups that root owns alone: a user's are the user's.
  if (message.text("user_id").empty() && unit.ends_with(".service")) add_preference(message, finding);
  finding.cures.push_back({"raise the threshold of swap (/etc/systemd/oomd.conf)", "SwapUsedLimit=95%", {}});
}

Finding explain(const LogMessage& message) {
  const std::string pressure = message.text("pressure"), unit = message.text("unit");
  const auto pid = message.number("pid");
  Finding finding;
  finding.id = "process-killed-for-memory";
  finding.severity = Severity::severe;
  finding.title = fmt::format("{} was killed because memory ran out (reported by {})",
                              !unit.empty() ? unit
                              : pid         ? fmt::format("A process ({})", *pid)
                                            : std::string("A process"),
                              kName);
  finding.confidence = Confidence::possible;
  finding.cures = {{"see which processes hold the memory", "headroom top", {}}};
  if (message.bytes("swap_used_bytes")) {
    explain_full_swap(message, finding);
  } else {
    finding.cause = pressure.empty()
                        ? "Memory was low, but not used up. systemd-oomd kills a group when its tasks wait "
                          "too long for memory, or when swap is nearly full. Its own log line says which."
                        : fmt::format(
                              "Memory was low, but not used up. systemd-oomd kills a group when its tasks "
                              "wait too long for memory ({}).",
                              pressure);
    if (!pressure.empty()) finding.confidence = Confidence::certain;
    add_preference(message, finding);
  }
  if (const auto peak = message.bytes("memory_peak_bytes"))
    finding.cause += fmt::format(" The unit's peak was {}.", format_bytes(*peak));
  return finding;
}

}  // namespace

LogRule oomd_rule() {
  LogRule rule{kName, {"systemd-oomd", "oomd attempting to kill "}, read, explain};
  rule.from_outside = rule.repeats_kills = true;
  return rule;
}

LogRule oomd_context_rule() {
  LogRule rule{"systemd-oomd-context", {"pressure for "}, read_pressure, explain};
  rule.context_of = kName;
  return rule;
}

}  // namespace headroom::doctor
