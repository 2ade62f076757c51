// Daemons that end processes when memory is short, and systemd's report of units that were killed.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/announced_kills.h"
#include "doctor/log/common_cures.h"
#include "doctor/log/finding_text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_kill_cures.h"
#include "doctor/log/rules.h"
#include "doctor/log/systemd_unit.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kEarlyoom = "earlyoom", kOomdRule = "systemd-oomd";

bool names_unit(std::string_view line) { return !unit_of(line).empty(); }

void add_unit(std::string_view line, LogMessage& message) {
  message.subject = unit_of(line);
  message.add("unit", message.subject);
  message.add("who", kSystemd);
}

void derive_unit(LogMessage& message) {
  const std::string unit = message.text("unit");
  message.add("name", words_for_unit(unit));
  if (!unit.empty()) message.add("unit_word", shell_word(unit));
}

// earlyoom may send several signals to one process.
void add_event_of_earlyoom(std::string_view, LogMessage& message) {
  message.event =
      fmt::format("{} {} {}", kEarlyoom, message.number("pid").value_or(0), message.text("victim"));
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
  const auto held = message.bytes("resident_bytes"), ram = message.bytes("ram_bytes");
  const bool has_swap = message.bytes("swap_bytes").value_or(Bytes{}) > Bytes{};
  if (const auto left = fill_in(has_swap ? "{available_bytes} of {ram_bytes} of memory were left[[, and "
                                           "{swap_free_bytes} of {swap_bytes} of swap]]"
                                         : "{available_bytes} of {ram_bytes} of memory were left",
                                message))
    message.add("left", *left);
  constexpr std::int64_t kPart = 10;
  if (held && ram && held->count < ram->count / kPart) message.add("little_bytes", held);
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
    const Cure cure = is_container(unit) ? limit_container(user, unit)
                                         : set_property(what, user, unit.empty() ? "UNIT" : unit, properties);
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

Explanation killed_by_oomd(std::string_view when, Confidence confidence, std::string_view cause,
                           std::vector<CureRow> cures) {
  return {.when = when,
          .id = kKilledForMemory,
          .confidence = confidence,
          .title = "{name} was killed because memory ran out (reported by systemd-oomd)",
          .cause = cause,
          .cures = std::move(cures)};
}

}  // namespace

LogRule oom_daemon_rule() {
  return {.name = "oom-daemon",
          .from_outside = true,
          .repeats_kills = true,
          .wordings = {{.all = {"Failed with result 'oom-kill'"},
                        .part = "result",
                        .traits = {.is_of_unit = true},
                        .add = add_unit},
                       {.all = {"killed by the OOM killer"},
                        .part = "killed",
                        .traits = {.is_of_unit = true},
                        .add = add_unit},
                       // Each unit that ends has such a line: "vision.service: Consumed 3min 2.1s CPU
                       // time, 6.1G memory peak."
                       {.all = {": Consumed ", "{memory_peak_bytes} memory peak"},
                        .part = "peak",
                        .traits = {.is_addition = true},
                        .check = names_unit,
                        .add = [](std::string_view line,
                                  LogMessage& message) { message.subject = unit_of(line); }}},
          .explanations =
              {{.id = kKilledForMemory,
                .confidence = Confidence::possible,
                .title = "{name} was killed because memory ran out (reported by systemd)",
                .cause = "The machine or the control group had no memory left. The log does not say which "
                         "process held it.[[ The unit's peak was {memory_peak_bytes}.]]",
                .cures = {kReadKernelReport,
                          kSeeHolders,
                          {"check whether the unit has its own limit",
                           "systemctl show -p MemoryMax -p MemoryHigh -p MemorySwapMax {unit_word}"}}}},
          .derive = derive_unit};
}

LogRule earlyoom_rule() {
  const auto row = [](std::vector<std::string_view> all, std::string_view pid,
                      std::string_view victim) -> Wording {
    return {.all = std::move(all),
            .figures = {"who=earlyoom", pid, victim, "VmRSS {resident_bytes}", "VmRSS: {resident_bytes}"},
            .subject = "{victim}",
            .add = add_event_of_earlyoom};
  };
  return {
      .name = kEarlyoom,
      .from_outside = true,
      .repeats_kills = true,
      // Before 1.2, in 1.2, later, and since 1.8.
      .wordings = {row({"illing process '", "' with signal ", ", pid: {:int}, badness: "}, ", pid: {pid:int}",
                       "illing process '{victim}' with signal "),
                   row({"illing process {:int} \"", "\" with signal ", ": badness "},
                       "illing process {pid:int}", "\"{victim}\" with signal "),
                   row({"sending SIG", " to process {:int} ", "\": badness "}, " to process {pid:int}",
                       "\"{victim}\": badness "),
                   row({"sending SIG", " to process {:int} ", "\": oom_score "}, " to process {pid:int}",
                       "\"{victim}\": oom_score ")},
      .explanations =
          {{.id = kKilledForMemory,
            .confidence = Confidence::certain,
            .title =
                "{victim|A program} (process {pid}) was killed because memory ran out (reported by earlyoom)",
            .cause = "{left|Little memory and swap were left}: earlyoom ends the largest process before the "
                     "kernel's OOM killer has to act.[[ This process held {little_bytes} in memory. It may "
                     "hold more in swap, which earlyoom also counts, or other processes hold the memory.]]",
            .cures = {kSeeHolders, {"make earlyoom prefer other processes", "earlyoom --avoid {avoid}"}}}},
      .derive = derive_earlyoom};
}

LogRule earlyoom_context_rule() {
  return {.name = "earlyoom-context",
          .context_of = kEarlyoom,
          .wordings = {{.all = {"mem avail:", "swap free:"}, .add = add_available}}};
}

LogRule oomd_rule() {
  return {
      .name = kOomdRule,
      .anchors = {"systemd-oomd"},
      .read_first = read_oomd,
      .from_outside = true,
      .repeats_kills = true,
      .wordings = {{.all = {": systemd-oomd killed ", " in this unit"},
                    .add =
                        [](std::string_view line, LogMessage& message) {
                          message.subject = unit_of(line);
                          message.add("unit", message.subject);
                          add_event_of_oomd(message);
                        }},
                   // Before systemd-oomd reports the group, or that nothing of the group was left.
                   {.all = {"oomd attempting to kill ", " with KILL"},
                    .figures = {"who=systemd-oomd", "attempting to kill {pid:int}"},
                    .part = "attempt",
                    .traits = {.is_vague = true},
                    .add =
                        [](std::string_view, LogMessage& message) {
                          message.event = fmt::format("{} attempts", kOomdRule);
                        }}},
      .explanations =
          {killed_by_oomd(
               "swap_used_bytes", Confidence::certain,
               "Swap was nearly full: {swap_used_bytes} of {swap_bytes|it} were used[[, and {ram_used_bytes} "
               "of {ram_bytes} of memory]], more than the [[{swap_used_limit} ]]limit. systemd-oomd then "
               "kills the group that holds the most swap.[[ The unit's peak was {memory_peak_bytes}.]]",
               {kSeeHolders,
                {"add swap, if the programs need it only for a while", "{swap_command}"},
                {"swap to compressed memory first", "sudo apt install zram-tools"},
                {"{limit_what}", "{limit_command}"},
                {"{prefer_what}", "{prefer_command}"},
                {"raise the threshold of swap (/etc/systemd/oomd.conf)", "SwapUsedLimit=95%"}}),
           killed_by_oomd("pressure", Confidence::certain,
                          "Memory was low, but not used up. systemd-oomd kills a group when its tasks wait "
                          "too long for memory ({pressure}).[[ The unit's peak was {memory_peak_bytes}.]]",
                          {kSeeHolders, {"{prefer_what}", "{prefer_command}"}}),
           killed_by_oomd("", Confidence::possible,
                          "Memory was low, but not used up. systemd-oomd kills a group when its tasks wait "
                          "too long for memory, or when swap is nearly full. Its own log line says which.[[ "
                          "The unit's peak was {memory_peak_bytes}.]]",
                          {kSeeHolders, {"{prefer_what}", "{prefer_command}"}})},
      .derive = derive_oomd};
}

// "Memory pressure for /system.slice is 85.03% > 80.00% for > 2s with reclaim activity", before systemd-oomd
// picks a group: the line of the kill may be cut before the pressure.
LogRule oomd_context_rule() {
  return {.name = "systemd-oomd-context",
          .context_of = kOomdRule,
          .wordings = {{.all = {"Memory pressure for ", " is {pressure} for > ", "with reclaim activity"}}}};
}

}  // namespace headroom::doctor
