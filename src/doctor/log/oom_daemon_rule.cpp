// systemd, systemd-oomd and earlyoom tell of a process that was killed for want of memory.
#include <fmt/format.h>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_kill_cures.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr const char *kSystemd = "systemd", *kOomd = "systemd-oomd", *kEarlyOom = "earlyoom";

// Its own line, and systemd's of it, "app-x.scope: systemd-oomd killed 12 process(es) in this unit.", are one
// event; "Failed with result 'oom-kill'" may follow.
void tell_as_kill_of_oomd(LogMessage& message) {
  message.event = fmt::format("{} {}", kOomd, message.subject);
  message.part = kOomd;
}

// Of "… systemd[1]: vision.service: Failed …"; titles call a service one, without its ending.
std::string_view unit_of(std::string_view line) {
  for (const std::string_view kind : {".service", ".scope", ".slice"}) {
    const std::size_t end = line.find(std::string(kind) + ": ");
    if (end == line.npos) continue;
    const std::string_view before = line.substr(0, end + (kind == ".service" ? 0 : kind.size()));
    return before.substr(before.rfind(' ') + 1);
  }
  return {};
}

// "vision.service: Consumed 3min 2.100s CPU time, 6.1G memory peak, 0B memory swap peak.", which each unit
// has that ends.
std::optional<LogMessage> read_peak(std::string_view line) {
  const std::size_t end = line.find(" memory peak");
  if (end == line.npos || !has(line, ": Consumed ") || unit_of(line).empty()) return std::nullopt;
  const std::string_view before = line.substr(0, end);
  LogMessage message;
  message.subject = unit_of(line);
  message.is_addition = true;
  message.part = "peak";
  message.add("memory_peak_bytes", leading_size(before.substr(before.rfind(' ') + 1)));
  return message;
}

// "detector.service: A process of this unit has been killed by the OOM killer.", "session-2.scope: Failed
// with result 'oom-kill'."
std::optional<LogMessage> read_systemd(std::string_view line) {
  const bool is_by_oomd = has(line, ": systemd-oomd killed ") && has(line, " in this unit");
  if (!is_by_oomd && !has(line, "Failed with result 'oom-kill'") && !has(line, "killed by the OOM killer"))
    return std::nullopt;
  LogMessage message;
  message.subject = unit_of(line);
  message.add("unit", message.subject);
  message.add("who", is_by_oomd ? kOomd : kSystemd);
  message.part = has(line, "Failed with result") ? "result" : "killed";
  message.is_of_unit = !is_by_oomd;
  if (is_by_oomd) tell_as_kill_of_oomd(message);
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

// "Killed /user.slice/…/app-x.scope due to memory pressure for /user.slice/… being 62.10% > 50.00% for …", or
// for swap that is nearly full.
std::optional<LogMessage> read_oomd(std::string_view line) {
  const auto path = text_after(line, "Killed ");
  const std::size_t end = path ? path->find(" due to ") : line.npos;
  if (end == line.npos || !has(line, "systemd-oomd")) return std::nullopt;
  LogMessage message;
  const std::string_view group = path->substr(0, end), why = path->substr(end);
  const std::string_view unit = group.substr(group.rfind('/') + 1);
  constexpr std::string_view kService = ".service";
  message.subject = unit.substr(0, unit.size() - (unit.ends_with(kService) ? kService.size() : 0));
  message.add("unit", unit);
  message.add("user_id", user_of(group));
  if (has(why, "swap used ("))
    read_swap_of_oomd(why, message);
  else if (const auto pressure = text_after(why, " being "); pressure && has(*pressure, " for "))
    message.add("pressure", pressure->substr(0, pressure->find(" for ")));
  message.add("who", kOomd);
  tell_as_kill_of_oomd(message);
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  for (const auto& read_form : {read_systemd, read_peak, read_oomd})
    if (auto message = read_form(line)) return message;
  LogMessage message;
  // "sending SIGTERM to process 4321 uid 1000 "python3": badness 800, VmRSS 3456 MiB"
  if (has(line, "sending SIG") && has(line, "badness ")) {
    message.add("who", kEarlyOom);
    message.add("pid", integer_after(line, " to process "));
    if (const auto name = text_after(line, " \""); name && name->find("\": badness") != name->npos)
      message.subject = name->substr(0, name->find("\": badness"));
    message.add("victim", message.subject);
    message.add("resident_bytes", size_after(line, "VmRSS "));
    return message;
  }
  return std::nullopt;
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

constexpr const char* kPrefer = "let it choose another first";

// It looks at swap, as where that is full the machine stalls before the kernel kills.
void explain_full_swap(const LogMessage& message, Finding& finding) {
  const auto used = message.bytes("swap_used_bytes"), total = message.bytes("swap_bytes"),
             held = message.bytes("ram_used_bytes"), ram = message.bytes("ram_bytes");
  const std::string limit = message.text("swap_used_limit"), unit = message.text("unit"),
                    user = message.text("user_id");
  finding.cause = fmt::format(
      "Swap was nearly full: {} of {} were used{}, more than {}. systemd-oomd then ends the group that has "
      "most in swap.",
      words_for(used, "most"), words_for(total, "it"),
      held && ram ? fmt::format(", and {} of {} of memory", format_bytes(*held), format_bytes(*ram)) : "",
      limit.empty() ? "it allows" : "the " + limit + " that it allows");
  finding.confidence = Confidence::certain;
  finding.cures.push_back(
      make_swap_file("add swap, if the programs need it for a while only", ram, SwapFile::another));
  finding.cures.push_back({"swap into compressed memory first", "sudo apt install zram-tools", {}});
  finding.cures.push_back(set_property("hold the group to a limit, so that it alone is short of memory", user,
                                       unit, "MemoryMax=SIZE MemorySwapMax=SIZE"));
  finding.cures.push_back(set_property(kPrefer, user, unit, "ManagedOOMPreference=avoid"));
  finding.cures.push_back(
      {"let it wait until swap is fuller (/etc/systemd/oomd.conf)", "SwapUsedLimit=95%", {}});
}

void explain_oomd(const LogMessage& message, Finding& finding) {
  if (message.bytes("swap_used_bytes")) return explain_full_swap(message, finding);
  const std::string pressure = message.text("pressure"), unit = message.text("unit");
  finding.cause = pressure.empty()
                      ? "Memory was short, not gone: systemd-oomd ends a group when its tasks wait for "
                        "memory too long, or when swap is nearly full; its own line tells which."
                      : fmt::format(
                            "Memory was short, not gone: systemd-oomd ends a group when its tasks wait for "
                            "memory too long ({}).",
                            pressure);
  if (!pressure.empty()) finding.confidence = Confidence::certain;
  finding.cures.push_back(set_property(kPrefer, message.text("user_id"), unit.empty() ? "UNIT" : unit,
                                       "ManagedOOMPreference=avoid"));
}

Finding explain(const LogMessage& message) {
  const std::string unit = message.text("unit"), victim = message.text("victim"), who = message.text("who");
  Finding finding;
  finding.id = "process-killed-for-memory";
  finding.severity = Severity::severe;
  const auto pid = message.number("pid");
  const std::string name = !victim.empty() && pid ? fmt::format("{} (process {})", victim, *pid)
                           : unit.empty()         ? "A process"
                           : who == kOomd || unit.ends_with(".scope") || unit.ends_with(".slice")
                               ? unit
                               : "The service " + unit;
  finding.title = fmt::format("{} was killed for want of memory (told by {})", name, who);
  finding.cause = "The machine or the control group had no memory left; this line does not tell who held it.";
  finding.confidence = Confidence::possible;
  finding.cures = {{"read the kernel's own report of it", "journalctl -k | headroom doctor -", {}},
                   {"see who holds the memory", "headroom top", {}}};
  if (const auto peak = message.bytes("memory_peak_bytes"))
    finding.cause += fmt::format(" The unit held up to {}.", format_bytes(*peak));
  if (!unit.empty() && who == kSystemd)
    finding.cures.push_back(
        {"see whether it has a limit of its own",
         fmt::format("systemctl show -p MemoryMax -p MemoryHigh -p MemorySwapMax {}", shell_word(unit)),
         {}});
  // These two act before the kernel has to, which writes no report then.
  const bool is_by_oomd =
      who == kOomd || message.bytes("swap_used_bytes") || !message.text("pressure").empty();
  if (!is_by_oomd && who != kEarlyOom) return finding;
  finding.cures.erase(finding.cures.begin());
  if (is_by_oomd) {
    explain_oomd(message, finding);
  } else {
    finding.cause =
        "Little memory and swap were left: earlyoom ends the largest process before the kernel has to.";
    finding.cures.push_back(
        {kPrefer,
         "earlyoom --avoid " + shell_word(fmt::format("^{}$", victim.empty() ? "NAME" : escaped(victim))),
         {}});
  }
  return finding;
}

}  // namespace

LogRule oom_daemon_rule() {
  LogRule rule{"oom-daemon",
               {"result 'oom-kill'", "by the OOM killer", "systemd-oomd", ": badness ", " memory peak"},
               read,
               explain};
  rule.from_outside = rule.repeats_kills = true;
  return rule;
}

}  // namespace headroom::doctor
