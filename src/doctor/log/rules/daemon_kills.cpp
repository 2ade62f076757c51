// Daemons that end processes when memory is short, and systemd's report of units that were killed.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/announced_kills.h"
#include "doctor/log/limit_cures.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kOomdRule = "systemd-oomd";

bool names_unit(std::string_view line) { return !unit_of(line).empty(); }

void set_unit(std::string_view line, LogMessage& message) { message.subject = unit_of(line); }

void add_unit(std::string_view line, LogMessage& message) {
  set_unit(line, message);
  message.add("unit", message.subject);
  message.add("who", kSystemd);
}

// "mem avail:   165 of 31880 MiB ( 0.52%), swap free: 19581 of 49151 MiB (39.84%)", each second.
void add_available(std::string_view line, LogMessage& message) {
  const auto add_pair = [&](std::string_view words, std::string_view free, std::string_view total) {
    const std::string_view text = text_after(line, words).value_or("");
    constexpr std::int64_t kMost = std::int64_t{1} << 24;  // 16 TiB
    const auto number = integer_after(text, ""), all = integer_after(text, " of ");
    if (!number || !all || *number < 0 || *all < *number || *all > kMost) return;
    message.add(free, mebibytes(*number));
    message.add(total, mebibytes(*all));
  };
  add_pair("mem avail:", "available_bytes", "ram_bytes");
  add_pair("swap free:", "swap_free_bytes", "swap_bytes");
}

void derive_unit(LogMessage& message) { message.add("name", words_for_unit(message.text("unit"))); }

// A name in a regular expression: it may hold characters that have a meaning there, or in a shell.
std::string escaped(std::string_view name) {
  std::string text;
  for (const char letter : name) {
    if (std::string_view(".[]{}()*+?^$|\\").find(letter) != std::string_view::npos) text += '\\';
    text += letter;
  }
  return text;
}

void derive_earlyoom(LogMessage& message) {
  const std::string victim = message.text("victim");
  message.add("avoid", shell_word(fmt::format("^{}$", victim.empty() ? "NAME" : escaped(victim))));
}

// systemd-oomd's own line and systemd's line of the unit are one event.
void add_event_of_oomd(LogMessage& message) {
  message.add("who", kOomdRule);
  message.event = fmt::format("{} {}", kOomdRule, message.subject);
  message.part = kOomdRule;
}

// "… due to memory used (7516192768) / total (7945689497) and swap used (3865470566) / total (3972844748)
// being more than 90.00%", of swap alone up to systemd 248.
void add_swap_of_oomd(std::string_view why, LogMessage& message) {
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

// "Marked /user.slice/…/app-x.scope for killing due to memory pressure for /user.slice/… being 62.10%
// > 50.00% for …", or for swap that is nearly full; "Killed /user.slice/… due to …" up to systemd 257.
std::optional<LogMessage> read_oomd(std::string_view line) {
  constexpr std::pair<std::string_view, std::string_view> kForms[] = {{"Marked ", " for killing due to "},
                                                                      {"Killed ", " due to "}};
  if (!has(line, kOomdRule)) return std::nullopt;
  for (const auto& [before, behind] : kForms) {
    const auto path = text_after(line, before);
    const std::size_t end = path ? path->find(behind) : line.npos;
    if (end == line.npos) continue;
    LogMessage message;
    const std::string_view group = path->substr(0, end), why = path->substr(end), unit = name_in(group);
    message.subject = without_service(unit);
    message.add("unit", unit);
    message.add("user_id", user_of(group));
    if (has(why, "swap used ("))
      add_swap_of_oomd(why, message);
    else if (const auto pressure = text_after(why, " being "); pressure && has(*pressure, " for "))
      message.add("pressure", pressure->substr(0, pressure->find(" for ")));
    add_event_of_oomd(message);
    return message;
  }
  return std::nullopt;
}

// systemd's properties of the unit. A container's runtime sets the limit of its scope, and knows no
// preference.
void derive_oomd(LogMessage& message) {
  const std::string unit = message.text("unit"), user = message.text("user_id");
  const auto pid = message.number("pid");
  message.add("name", !unit.empty() ? unit
                      : pid         ? fmt::format("A process ({})", *pid)
                                    : std::string("A process"));
  const auto add_cure = [&](const char* name, const char* what, const char* properties) {
    const Cure cure = limit_container({}, user, unit)
                          .value_or(set_property(what, user, unit.empty() ? "UNIT" : unit, properties));
    message.add(fmt::format("{}_what", name), cure.what);
    message.add(fmt::format("{}_command", name), cure.command);
  };
  add_cure("limit", "set a limit for the group, so that only this group runs short of memory",
           "MemoryMax=SIZE MemorySwapMax=SIZE");
  // For full swap, systemd-oomd respects the preference of root's groups only.
  if (!message.bytes("swap_used_bytes") || (user.empty() && unit.ends_with(".service")))
    add_cure("prefer", "make systemd-oomd prefer other groups", "ManagedOOMPreference=avoid");
  const Cure swap = make_swap_file("", message.bytes("ram_bytes"), SwapFile::another);
  message.add("swap_command", swap.command);
}

void add_unit_of_oomd(std::string_view line, LogMessage& message) {
  set_unit(line, message);
  message.add("unit", message.subject);
  add_event_of_oomd(message);
}

constexpr std::string_view kDaemonKillsText = R"rules(
rule oom-daemon
  flags from_outside repeats_kills
  derive derive_unit
  line Failed with result 'oom-kill' -> part=result; is_of_unit; add=add_unit
  line killed by the OOM killer -> part=killed; is_of_unit; add=add_unit
  # Each unit that ends has such a line: "vision.service: Consumed 3min 2.1s CPU time, 6.1G memory peak."
  line ": Consumed " && {memory_peak_bytes} memory peak -> part=peak; is_addition; check=names_unit;
        add=set_unit
  finding process-killed-for-memory possible
    title {name} was killed because memory ran out (reported by systemd)
    cause The machine or the control group had no memory left. The log does not say which process held it.[[
          The unit's peak was {memory_peak_bytes}.]]
    cure @read-kernel-report
    cure @see-holders
    cure check whether the unit has its own limit => systemctl show -p MemoryMax -p MemoryHigh -p
          MemorySwapMax [[{unit:shell}]]

rule earlyoom
  flags from_outside repeats_kills
  derive derive_earlyoom
  # Before 1.2, in 1.2, later, and since 1.8.
  line illing process ' && "' with signal " && ", pid: {:int}, badness: " -> who=earlyoom; subject={victim};
        event=earlyoom {pid|0} {victim|}
    figures , pid: {pid:int} || "illing process '{victim}' with signal " || VmRSS {resident_bytes} || VmRSS:
          {resident_bytes}
  line illing process {:int} " && "" with signal " && ": badness " -> who=earlyoom; subject={victim};
        event=earlyoom {pid|0} {victim|}
    figures illing process {pid:int} || ""{victim}" with signal " || VmRSS {resident_bytes} || VmRSS:
          {resident_bytes}
  line sending SIG && " to process {:int} " && "": badness " -> who=earlyoom; subject={victim}; event=earlyoom
        {pid|0} {victim|}
    figures " to process {pid:int}" || ""{victim}": badness " || VmRSS {resident_bytes} || VmRSS:
          {resident_bytes}
  line sending SIG && " to process {:int} " && "": oom_score " -> who=earlyoom; subject={victim};
        event=earlyoom {pid|0} {victim|}
    figures " to process {pid:int}" || ""{victim}": oom_score " || VmRSS {resident_bytes} || VmRSS:
          {resident_bytes}
  finding process-killed-for-memory certain
    title {victim|A program} (process {pid}) was killed because memory ran out (reported by earlyoom)
    cause [[{available_bytes} of {ram_bytes} of memory were left]][[if swap_bytes>0:, and {swap_free_bytes} of
          {swap_bytes} of swap]][[if !available_bytes:Little memory and swap were left]]: earlyoom ends the
          largest process before the kernel's OOM killer has to act.[[if resident_bytes<ram_bytes/10: This
          process held {resident_bytes} in memory. It may hold more in swap, which earlyoom also counts, or
          other processes hold the memory.]]
    cure @see-holders
    cure make earlyoom prefer other processes => earlyoom --avoid {avoid}

rule earlyoom-context
  context_of earlyoom
  line mem avail: && swap free: -> add=add_available

rule systemd-oomd
  flags from_outside repeats_kills
  read_first read_oomd
  derive derive_oomd
  anchors systemd-oomd
  line ": systemd-oomd killed " && " in this unit" -> add=add_unit_of_oomd
  # Before systemd-oomd reports the group, or that nothing of the group was left.
  line "oomd attempting to kill " && " with KILL" -> who=systemd-oomd; event=systemd-oomd attempts;
        part=attempt; is_vague
    figures attempting to kill {pid:int}
  finding process-killed-for-memory certain when swap_used_bytes
    title {name} was killed because memory ran out (reported by systemd-oomd)
    cause Swap was nearly full: {swap_used_bytes} of {swap_bytes|it} were used[[, and {ram_used_bytes} of
          {ram_bytes} of memory]], more than the [[{swap_used_limit} ]]limit. systemd-oomd then kills the
          group that holds the most swap.[[ The unit's peak was {memory_peak_bytes}.]]
    cure @see-holders
    cure add swap, if the programs need it only for a while => {swap_command}
    cure swap to compressed memory first => sudo apt install zram-tools
    cure {limit_what} => {limit_command}
    cure {prefer_what} => {prefer_command}
    cure raise the threshold of swap (/etc/systemd/oomd.conf) => SwapUsedLimit=95%
  finding process-killed-for-memory certain when pressure
    cause Memory was low, but not used up. systemd-oomd kills a group when its tasks wait too long for memory
          ({pressure}).[[ The unit's peak was {memory_peak_bytes}.]]
    cure @see-holders
    cure {prefer_what} => {prefer_command}
  finding process-killed-for-memory possible
    cause Memory was low, but not used up. systemd-oomd kills a group when its tasks wait too long for memory,
          or when swap is nearly full. Its own log line says which.[[ The unit's peak was
          {memory_peak_bytes}.]]

# "Memory pressure for /system.slice is 85.03% > 80.00% for > 2s with reclaim activity", before systemd-oomd
# picks a group: the line of the kill may be cut before the pressure.
rule systemd-oomd-context
  context_of systemd-oomd
  line "Memory pressure for " && " is {pressure} for > " && with reclaim activity
)rules";

}  // namespace

RuleFamily daemon_kills_rules() {
  return {kDaemonKillsText,
          {{"names_unit", names_unit},
           {"set_unit", set_unit},
           {"add_unit", add_unit},
           {"derive_unit", derive_unit},
           {"add_available", add_available},
           {"derive_earlyoom", derive_earlyoom},
           {"read_oomd", read_oomd},
           {"derive_oomd", derive_oomd},
           {"add_unit_of_oomd", add_unit_of_oomd}}};
}

}  // namespace headroom::doctor
