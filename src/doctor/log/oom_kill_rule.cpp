// The kernel killed a process for want of memory, its own or its control group's: the wordings of 3.x to 6.x.
// Their anon-rss has no GPU memory in it: on a Jetson a victim of 2.6 MB may have held gigabytes.
#include <fmt/format.h>

#include "doctor/log/message_text.h"
#include "doctor/log/oom_kill_cures.h"
#include "doctor/log/oom_report.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// "2343 (python3) total-vm:…": the name may hold brackets and spaces; it is cut at 15 bytes.
constexpr const char* kChosen = "chosen";
constexpr const char *kPanic = "panic", *kNobody = "nobody to kill";

// "anon-rss:147052kB": the kernel always tells the unit, so one without it is the begin of a number that was
// cut.
std::optional<Bytes> kibibytes_after(std::string_view line, std::string_view words) {
  const auto number = text_after(line, words);
  const std::size_t end = number ? number->find_first_not_of("0123456789") : line.npos;
  if (end == line.npos || !number->substr(end).starts_with("kB")) return std::nullopt;
  return leading_size(*number);
}

bool read_victim(std::string_view text, LogMessage& message) {
  const auto pid = integer_after(text, "");
  const std::size_t open = text.find(" (");
  if (!pid || open == text.npos) return false;
  std::size_t close = text.npos;
  for (const std::string_view end : {") total-vm", ") score ", "), UID", ") "})
    if (close = text.find(end, open); close != text.npos) break;
  if (close == text.npos) close = text.rfind(')');
  if (close == text.npos || close <= open) return false;
  message.subject = text.substr(open + 2, close - open - 2);
  message.event = std::to_string(*pid);
  message.add("victim", message.subject);
  message.add("pid", pid);
  return true;
}

std::optional<LogMessage> read_summary(std::string_view line) {
  const auto task = text_after(line, ",task="), pid = text_after(line, ",pid=");
  if (!task || !pid) return std::nullopt;
  const auto number = integer_after(*pid, "");
  if (!number) return std::nullopt;
  LogMessage message;
  message.subject = task->substr(0, task->find(",pid="));
  message.event = std::to_string(*number);
  message.add("victim", message.subject);
  message.add("pid", number);
  const bool in_group = has(line, "constraint=CONSTRAINT_MEMCG") || has(line, "oom_memcg=");
  message.add("constraint", in_group ? "control group" : "machine");
  if (const auto group = text_after(line, "oom_memcg="))
    message.add("control_group", group->substr(0, group->find(',')));
  if (const auto group = text_after(line, ",task_memcg="))
    message.victim_group = group->substr(0, group->find(','));
  return message;
}

// What the kernel says of a kill besides, each alone where a search or a ring buffer cut the rest off:
// "oom_reaper: reaped process 4242 (python3), now anon-rss:0kB, …", "Tasks in /kubepods/… are going to be
// killed due to memory.oom.group set", "Out of memory and no killable processes...".
std::optional<LogMessage> read_beside(std::string_view line) {
  LogMessage message;
  message.is_echo = true;
  if (auto victim = text_after(line, "oom_reaper: reaped process ")) {
    if (!read_victim(victim->substr(0, victim->find("), now ") + 1), message)) return std::nullopt;
    message.add("told_by", "oom_reaper");
    return message;
  }
  if (const std::size_t end = line.find(" are going to be killed due to memory.oom.group set");
      end != line.npos) {
    const auto group = text_after(line.substr(0, end), "Tasks in ");
    if (!group) return std::nullopt;
    message.add("constraint", "control group");
    message.add("control_group", *group);
    return message;
  }
  if (!has(line, "Out of memory and no killable processes")) return std::nullopt;
  message.add("constraint", kNobody);
  return message;
}

// "2m11s  Warning  OOMKilling  node/edge-07  Memory cgroup out of memory: Killed process …",
// "Reason:OOMKilling Message:Memory cgroup …": of Kubernetes' nodes, by its node-problem-detector.
void read_event(std::string_view line, LogMessage& message) {
  const auto event = text_after(line, "OOMKilling");
  if (!event) return;
  message.add("told_by", kKubernetes);
  if (const auto node = text_after(event->substr(0, event->find(':')), "node/"))
    message.add("node", node->substr(0, node->find(' ')));
}

std::optional<LogMessage> read(std::string_view line) {
  if (has(line, "oom-kill:constraint=")) return read_summary(line);
  // "Kernel panic - not syncing: System is deadlocked on memory" since Linux 5.0.
  if (has(line, "not syncing: Out of memory") || has(line, "not syncing: System is deadlocked on memory")) {
    LogMessage message;
    message.add("constraint", kPanic);
    return message;
  }
  if (has(line, "invoked oom-killer")) return std::nullopt;  // the report that follows has it
  if (auto beside = read_beside(line)) return beside;
  auto victim = text_after(line, "Killed process ");
  if (!victim && has(line, "ut of memory")) victim = text_after(line, "Kill process ");
  LogMessage message;
  if (!victim || !read_victim(*victim, message)) return std::nullopt;
  // Of a process that the kernel killed it tells the sizes, or that memory was out; "Killed process" alone is
  // said by others, too.
  const bool is_kernel = has(line, "ut of memory") || has(line, "total-vm:") || has(line, "vsz:");
  if (!is_kernel) return std::nullopt;
  if (has(line, "emory cgroup out of memory")) message.add("constraint", "control group");
  read_event(line, message);
  message.add("virtual_bytes", kibibytes_after(line, "total-vm:"));
  message.add("anonymous_bytes", kibibytes_after(line, "anon-rss:"));
  message.add("file_bytes", kibibytes_after(line, "file-rss:"));
  message.add("shared_bytes", kibibytes_after(line, "shmem-rss:"));
  message.add("page_tables_bytes", kibibytes_after(line, "pgtables:"));
  message.add("score", integer_after(line, " score "));
  // Up to 5.2 the kernel names whom it chose, and then kills a child of it where there is one.
  if (has(line, "or sacrifice child")) message.part = kChosen;
  return message;
}

// What the kernel's line of the victim leaves out, where it is much.
std::optional<Bytes> much_in_swap(const LogMessage& message) {
  const auto swapped = message.bytes("victim_swap_bytes");
  return swapped && is_much_in_swap(*swapped, message.bytes("anonymous_bytes")) ? swapped : std::nullopt;
}

// Much memory that belongs to no process, if all used swap is on a disk. The report does not say how much of
// the swap is in zram, so unaccounted_bytes leaves it out.
void add_unaccounted_with_zram(const LogMessage& message, Finding& finding) {
  const auto& most = message.unaccounted_with_zram;
  const auto total = message.bytes("ram_bytes");
  if (!most || !total || is_much_unaccounted(message) || most->count <= total->count / 10) return;
  finding.cause += fmt::format(
      " Up to {} of {} belong to no process: devices such as the GPU hold it, or zram, which keeps swap in "
      "RAM.",
      format_bytes(*most), format_bytes(*total));
}

void add_swap_and_unit(const LogMessage& message, Finding& finding) {
  const std::string unit = message.text("unit");
  if (const auto peak = message.bytes("memory_peak_bytes"); peak && !unit.empty())
    finding.cause +=
        fmt::format(" systemd reports that its unit {} held up to {}.", unit, format_bytes(*peak));
  if (const auto swapped = much_in_swap(message))
    finding.cause +=
        fmt::format(" The victim held {} more in swap, which its resident memory does not include.",
                    format_bytes(*swapped));
}

// "python3 (process 2343)"; a log that is cut may not have it.
std::string victim_words(const LogMessage& message) {
  const std::string victim = message.text("victim"), invoked_by = message.text("invoked_by");
  if (!victim.empty()) return fmt::format("{} (process {})", victim, message.number("pid").value_or(0));
  if (message.text("constraint") == "control group" && invoked_by.empty())
    return "the processes of a control group";
  return fmt::format("a process{}, whose name is not in this log",
                     invoked_by.empty() ? "" : fmt::format(" when {} requested memory", invoked_by));
}

Finding explain_nobody(Finding finding) {
  finding.id = "kernel-oom-kill";
  finding.title = "The kernel found no process to kill when memory ran out";
  finding.cause =
      "All processes of the control group, or of the machine, are protected from the OOM killer "
      "(oom_score_adj -1000). A process that needs memory there must wait.";
  finding.confidence = Confidence::likely;
  finding.cures = {
      {"see which processes hold the memory", "headroom top", {}},
      {"set a limit for each program, so that only one fails", "headroom run --limit SIZE -- COMMAND", {}}};
  return finding;
}

Finding explain_probe(Finding finding) {
  finding.id = "limit-probe-kill";
  finding.severity = Severity::benign;
  finding.title = "The kernel killed Headroom's own probes of a memory limit";
  finding.cause =
      "Before 'headroom bench --mem-limit' uses a limit, small child processes try to exceed it. The kernel "
      "killed them, which proves that the limit is hard.";
  finding.confidence = Confidence::certain;
  return finding;
}

Finding explain_group(const LogMessage& message, Finding finding) {
  const auto limit = message.bytes("limit_bytes");
  finding.id = "cgroup-oom-kill";
  finding.title =
      fmt::format("The kernel killed {}: its control group's memory limit{} was reached",
                  victim_words(message), limit ? fmt::format(" of {}", format_bytes(*limit)) : "");
  finding.cause =
      "The group's processes reached the limit. Either the limit is smaller than their peak, or a process "
      "keeps growing.";
  add_swap_and_unit(message, finding);
  finding.confidence = Confidence::likely;
  finding.cures = {{"measure the peak, and see what grew", "headroom trace -- COMMAND", {}}};
  for (Cure& cure : larger_limits(message)) finding.cures.push_back(std::move(cure));
  return finding;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.severity = Severity::severe;
  if (message.text("constraint") == kLimitProbe) return explain_probe(finding);
  if (message.text("constraint") == "control group") return explain_group(message, finding);
  if (message.text("constraint") == kNobody) return explain_nobody(finding);
  if (message.text("constraint") == kPanic) {
    finding.id = "kernel-oom-panic";
    finding.title = "The kernel stopped the machine: it was out of memory";
    finding.cause = "No process was left to kill, or the kernel is configured to stop (vm.panic_on_oom).";
    finding.confidence = Confidence::certain;
    finding.cures = {
        {"check whether the kernel is configured to stop", "sysctl vm.panic_on_oom", {}},
        {"set a limit for each program, so that only one fails", "headroom run --limit SIZE -- COMMAND", {}},
        {"plan which programs run together, with a reserve", "headroom plan BUDGET.toml", {}}};
    return finding;
  }
  const auto held = message.bytes("anonymous_bytes"), hidden = message.bytes("unaccounted_bytes"),
             total = message.bytes("ram_bytes");
  finding.id = "kernel-oom-kill";
  const auto swapped = much_in_swap(message);
  const bool may_be_group = message.text("told_by") == "oom_reaper";
  finding.title = fmt::format("The kernel killed {}{}{}: {} was out of memory", victim_words(message),
                              held ? fmt::format(", which held {}", format_bytes(*held)) : "",
                              held && swapped ? fmt::format(" and {} in swap", format_bytes(*swapped)) : "",
                              may_be_group ? "the machine, or its control group," : "the machine");
  if (is_much_unaccounted(message)) {
    finding.cause = fmt::format(
        "In the report, {} of {} belong to no process, cache or kernel object. The GPU and other devices "
        "hold such memory. No process's resident memory includes it.",
        format_bytes(*hidden), format_bytes(*total));
    finding.confidence = Confidence::likely;
  } else if (held && !swapped && *held < mebibytes(64)) {
    finding.cause =
        "The victim held almost no memory. Either its memory is not resident, as GPU memory is not, or other "
        "processes filled the machine.";
    finding.confidence = Confidence::possible;
  } else {
    finding.cause =
        "All processes together needed more memory than the machine has. The kernel kills the largest "
        "process, which is not always the one that grew.";
    finding.confidence = Confidence::possible;
  }
  add_unaccounted_with_zram(message, finding);
  add_swap_and_unit(message, finding);
  if (message.text("told_by") == kKubernetes)
    add_node_cures(message, finding);
  else
    add_machine_cures(message, finding);
  return finding;
}

}  // namespace

LogRule oom_kill_rule() {
  LogRule rule{"oom-kill",
               {"oom-kill:constraint=", "Killed process ", "Kill process ", "invoked oom-killer",
                "not syncing: Out of memory", "deadlocked on memory", "oom_reaper: reaped",
                "memory.oom.group set", "no killable processes"},
               read,
               explain};
  rule.from_outside = rule.is_kernel_kill = true;
  return rule;
}

}  // namespace headroom::doctor
