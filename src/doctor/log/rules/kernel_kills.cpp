// The kernel's OOM killer, of the machine or of a control group: the wordings of Linux 3 to 6. Their anon-rss
// does not include GPU memory: on a Jetson, a victim with 2.6 MB may have held gigabytes.
#include <fmt/format.h>

#include "doctor/log/common_cures.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_kill_cures.h"
#include "doctor/log/oom_report.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kControlGroup = "control group";

// "2343 (python3) total-vm:…": the name may contain brackets and spaces; the kernel cuts it at 15 bytes.
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

// "oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=/a,task_memcg=/a/b,task=python3,pid=2343,uid=0"
std::optional<LogMessage> read_summary(std::string_view line) {
  const auto task = text_after(line, ",task="), number = text_after(line, ",pid=");
  const auto pid = task && number ? integer_after(*number, "") : std::nullopt;
  if (!pid) return std::nullopt;
  LogMessage message;
  message.subject = task->substr(0, task->find(",pid="));
  message.event = std::to_string(*pid);
  message.add("victim", message.subject);
  message.add("pid", pid);
  const bool in_group = has(line, "constraint=CONSTRAINT_MEMCG") || has(line, "oom_memcg=");
  message.add("constraint", in_group ? kControlGroup : "machine");
  if (const auto group = text_after(line, "oom_memcg="))
    message.add("control_group", group->substr(0, group->find(',')));
  if (const auto group = text_after(line, ",task_memcg="))
    message.victim_group = group->substr(0, group->find(','));
  return message;
}

// "oom_reaper: reaped process 4242 (python3), now anon-rss:0kB, …": a search or a ring buffer may have cut
// off the other lines of the kill.
std::optional<LogMessage> read_reaper(std::string_view line) {
  const auto victim = text_after(line, "oom_reaper: reaped process ");
  LogMessage message;
  message.is_echo = true;
  if (!victim || !read_victim(victim->substr(0, victim->find("), now ") + 1), message)) return std::nullopt;
  message.add("told_by", "oom_reaper");
  return message;
}

// "2m11s  Warning  OOMKilling  node/edge-07  Memory cgroup out of memory: Killed process …",
// "Reason:OOMKilling Message:Memory cgroup …": an event of a Kubernetes node, by its node-problem-detector.
void add_node_event(std::string_view line, LogMessage& message) {
  const auto event = text_after(line, "OOMKilling");
  if (!event) return;
  message.add("told_by", kKubernetes);
  if (const auto node = text_after(event->substr(0, event->find(':')), "node/"))
    message.add("node", node->substr(0, node->find(' ')));
}

std::optional<LogMessage> read_kill(std::string_view line) {
  if (has(line, "oom-kill:constraint=")) return read_summary(line);
  if (has(line, "invoked oom-killer")) return std::nullopt;  // OomReport reads it
  if (auto reaped = read_reaper(line)) return reaped;
  auto victim = text_after(line, "Killed process ");
  if (!victim && has(line, "ut of memory")) victim = text_after(line, "Kill process ");
  // "Killed process" alone may be of another program; the kernel prints sizes, or that memory was out.
  const bool is_kernel = has(line, "ut of memory") || has(line, "total-vm:") || has(line, "vsz:");
  LogMessage message;
  if (!victim || !is_kernel || !read_victim(*victim, message)) return std::nullopt;
  if (has(line, "emory cgroup out of memory")) message.add("constraint", kControlGroup);
  add_node_event(line, message);
  constexpr std::pair<std::string_view, std::string_view> kSizes[] = {{"total-vm:", "virtual_bytes"},
                                                                      {"anon-rss:", "anonymous_bytes"},
                                                                      {"file-rss:", "file_bytes"},
                                                                      {"shmem-rss:", "shared_bytes"},
                                                                      {"pgtables:", "page_tables_bytes"}};
  for (const auto& [words, figure] : kSizes) message.add(figure, size_with_unit_after(line, words));
  message.add("score", integer_after(line, " score "));
  // Up to 5.2, the kernel names the process that it chose, and then kills a child of it if there is one.
  if (has(line, "or sacrifice child")) message.part = "chosen";
  return message;
}

// Memory that the kill's line does not include.
std::optional<Bytes> much_in_swap(const LogMessage& message) {
  const auto swapped = message.bytes("victim_swap_bytes");
  return swapped && is_much_in_swap(*swapped, message.bytes("anonymous_bytes")) ? swapped : std::nullopt;
}

// The report does not say how much of the used swap is in zram, so unaccounted_bytes does not include it.
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

// "python3 (process 2343)". A log that is cut may not have the name.
std::string victim_words(const LogMessage& message) {
  const std::string victim = message.text("victim"), invoked_by = message.text("invoked_by");
  if (!victim.empty()) return fmt::format("{} (process {})", victim, message.number("pid").value_or(0));
  if (message.text("constraint") == kControlGroup && invoked_by.empty())
    return "the processes of a control group";
  return fmt::format("a process{}, whose name is not in this log",
                     invoked_by.empty() ? "" : fmt::format(" when {} requested memory", invoked_by));
}

Finding explain_group(const LogMessage& message) {
  const auto limit = message.bytes("limit_bytes");
  Finding finding{
      .id = "cgroup-oom-kill",
      .severity = Severity::severe,
      .title = fmt::format("The kernel killed {}: its control group's memory limit{} was reached",
                           victim_words(message), limit ? fmt::format(" of {}", format_bytes(*limit)) : ""),
      .cause =
          "The group's processes reached the limit. Either the limit is smaller than their peak, or a "
          "process keeps growing.",
      .confidence = Confidence::likely,
      .cures = {{"measure the peak, and see what grew", "headroom trace -- COMMAND"}}};
  add_swap_and_unit(message, finding);
  for (Cure& cure : larger_limits(message)) finding.cures.push_back(std::move(cure));
  return finding;
}

Finding explain_machine(const LogMessage& message) {
  const auto held = message.bytes("anonymous_bytes"), swapped = much_in_swap(message);
  const bool may_be_group = message.text("told_by") == "oom_reaper", is_hidden = is_much_unaccounted(message);
  Finding finding{
      .id = "kernel-oom-kill",
      .severity = Severity::severe,
      .title = fmt::format("The kernel killed {}{}{}: {} was out of memory", victim_words(message),
                           held ? fmt::format(", which held {}", format_bytes(*held)) : "",
                           held && swapped ? fmt::format(" and {} in swap", format_bytes(*swapped)) : "",
                           may_be_group ? "the machine, or its control group," : "the machine"),
      .cause =
          "All processes together needed more memory than the machine has. The kernel kills the largest "
          "process, which is not always the one that grew.",
      .confidence = is_hidden ? Confidence::likely : Confidence::possible};
  if (is_hidden)
    finding.cause = fmt::format(
        "In the report, {} of {} belong to no process, cache or kernel object. The GPU and other devices "
        "hold such memory. No process's resident memory includes it.",
        format_bytes(*message.bytes("unaccounted_bytes")), format_bytes(*message.bytes("ram_bytes")));
  else if (held && !swapped && *held < mebibytes(64))
    finding.cause =
        "The victim held almost no memory. Either its memory is not resident, as GPU memory is not, or other "
        "processes filled the machine.";
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
  constexpr CureRow kLimitEach{"set a limit for each program, so that only one fails",
                               "headroom run --limit SIZE -- COMMAND"};
  return {
      .name = "oom-kill",
      .anchors = {"oom-kill:constraint=", "Killed process ", "Kill process ", "invoked oom-killer",
                  "oom_reaper: reaped"},
      .read_first = read_kill,
      .explain_by =
          [](const LogMessage& message) {
            return message.text("constraint") == kControlGroup ? explain_group(message)
                                                               : explain_machine(message);
          },
      .from_outside = true,
      .is_kernel_kill = true,
      .wordings = {{.all = {"not syncing: Out of memory"}, .figures = {"constraint=panic"}},
                   // Since Linux 5.0.
                   {.all = {"not syncing: System is deadlocked on memory"}, .figures = {"constraint=panic"}},
                   {.all = {"Out of memory and no killable processes"},
                    .figures = {"constraint=nobody to kill"},
                    .traits = {.is_echo = true}},
                   {.all = {"Tasks in ", " are going to be killed due to memory.oom.group set"},
                    .figures = {"constraint=control group"},
                    .traits = {.is_echo = true},
                    .add =
                        [](std::string_view line, LogMessage& message) {
                          const std::string_view group = text_after(line, "Tasks in ").value_or("");
                          message.add("control_group",
                                      group.substr(0, group.find(" are going to be killed")));
                        }}},
      .explanations = {
          {.when = "constraint=panic",
           .id = "kernel-oom-panic",
           .confidence = Confidence::certain,
           .title = "The kernel stopped the machine: it was out of memory",
           .cause = "No process was left to kill, or the kernel is configured to stop (vm.panic_on_oom).",
           .cures = {{"check whether the kernel is configured to stop", "sysctl vm.panic_on_oom"},
                     kLimitEach,
                     {"plan which programs run together, with a reserve", "headroom plan BUDGET.toml"}}},
          {.when = "constraint=nobody to kill",
           .id = "kernel-oom-kill",
           .title = "The kernel found no process to kill when memory ran out",
           .cause = "All processes of the control group, or of the machine, are protected from the OOM "
                    "killer (oom_score_adj -1000). A process that needs memory there must wait.",
           .cures = {kSeeHolders, kLimitEach}},
          {.when = "constraint=a trial of a limit",
           .id = "limit-probe-kill",
           .severity = Severity::benign,
           .confidence = Confidence::certain,
           .title = "The kernel killed Headroom's own probes of a memory limit",
           .cause = "Before 'headroom bench --mem-limit' uses a limit, small child processes try to exceed "
                    "it. The kernel killed them, which proves that the limit is hard."}}};
}

}  // namespace headroom::doctor
