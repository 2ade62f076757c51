// The kernel's OOM killer, of the machine or of a control group: the wordings of Linux 3 to 6. Their anon-rss
// does not include GPU memory: on a Jetson, a victim with 2.6 MB may have held gigabytes.
#include <fmt/format.h>

#include <string>

#include "doctor/cure_commands.h"
#include "doctor/log/limit_cures.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_report.h"
#include "doctor/log/rules.h"
#include "doctor/machine/machine_history.h"

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

// "/a/b" of "…,task_memcg=/a/b,task=python3".
void set_victim_group(std::string_view line, LogMessage& message) {
  const std::string_view group = text_after(line, ",task_memcg=").value_or("");
  message.victim_group = group.substr(0, group.find(','));
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
  message.add("told_by", "Kubernetes");
  if (const auto node = text_after(event->substr(0, event->find(':')), "node/"))
    message.add("node", node->substr(0, node->find(' ')));
}

std::optional<LogMessage> read_kill(std::string_view line) {
  // The summary has rows of its own, and OomReport reads the report.
  if (has(line, "oom-kill:constraint=") || has(line, "invoked oom-killer")) return std::nullopt;
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

// Whether the largest process deserves a cure. A desktop is stopped as a whole, and less than a tenth of the
// memory that belongs to no process makes no difference.
bool is_largest_to_blame(const LogMessage& message, bool is_much_hidden) {
  const auto rss = message.bytes("largest_process_bytes");
  const std::string largest = message.text("largest_process");
  if (!rss || largest.empty() || is_of_desktop(largest)) return false;
  return !is_much_hidden || rss->count >= message.bytes("unaccounted_bytes")->count / 10;
}

// The memory that the largest process may have: all, less a reserve of 15 %, the other processes, and memory
// that belongs to no process. Nothing if the report lacks one of these.
std::optional<Bytes> room_for_largest(const LogMessage& message) {
  const auto total = message.bytes("ram_bytes"), all = message.bytes("processes_rss_bytes"),
             largest = message.bytes("largest_process_bytes"), hidden = message.bytes("unaccounted_bytes");
  if (!total || !all || !largest || !hidden || is_impossible(*total)) return std::nullopt;
  const Bytes room = Bytes{total->count / 100 * 85} - (*all - *largest) - *hidden;
  return room >= mebibytes(1) && room < *total ? std::optional(room) : std::nullopt;
}

void derive_machine(LogMessage& message) {
  const auto hidden = message.bytes("unaccounted_bytes"), total = message.bytes("ram_bytes");
  const bool is_much_hidden = hidden && total && hidden->count > total->count / 10;
  if (is_much_hidden) message.add("hidden_bytes", hidden);
  // The report does not say how much of the used swap is in zram, so unaccounted_bytes does not include it.
  const auto& most = message.unaccounted_with_zram;
  if (!is_much_hidden && most && total && most->count > total->count / 10)
    message.add("hidden_with_zram_bytes", most);
  if (is_largest_to_blame(message, is_much_hidden)) {
    message.add("blamed", message.text("largest_process"));
    if (const auto room = room_for_largest(message))
      message.add("room", fmt::format("{}MiB", room->count / mebibytes(1).count));
  }
  // As for the finding desktop-running (machine/memory.cpp).
  constexpr Bytes kLeast = mebibytes(32), kSmallMachine = gibibytes(33);
  if (message.bytes("desktop_bytes").value_or(Bytes{}) >= kLeast && (!total || *total <= kSmallMachine))
    message.add("stoppable_desktop", message.text("desktop"));
  message.add("swap_command", make_swap_file("", total).command);
  message.add("more_swap_command", make_swap_file("", total, SwapFile::another).command);
}

void derive_kill(LogMessage& message) {
  // Memory that the kill's line does not include.
  const auto swapped = message.bytes("victim_swap_bytes");
  if (swapped && is_much_in_swap(*swapped, message.bytes("anonymous_bytes")))
    message.add("much_in_swap_bytes", swapped);
  if (message.text("constraint") != kControlGroup) return derive_machine(message);
  std::string name = "limit";
  for (const Cure& cure : larger_limits(message)) {
    message.add(name + "_what", cure.what);
    message.add(name + "_command", cure.command);
    name = "other_limit";
  }
}

constexpr std::string_view kKernelKillsText = R"rules(
cures of-machine
  cure see which processes hold the memory, including GPU memory => headroom top :: saves hidden_bytes
  cure make {blamed} smaller, or run it elsewhere: it held more than any other process => headroom trace --
        COMMAND :: saves largest_process_bytes
  cure stop the desktop ({stoppable_desktop}): inference does not need it => sudo systemctl isolate
        multi-user.target :: saves desktop_bytes
  cure boot without the desktop from now on => sudo systemctl set-default multi-user.target :: when
        stoppable_desktop
  cure plan which programs run together, with a reserve => headroom plan BUDGET.toml
  cure set a limit for {blamed}, so that only it fails: with this size, 15 % of RAM stays free for other
        programs => headroom run --limit {room} -- COMMAND
  cure set a limit for the program, so that only it fails => headroom run --limit SIZE -- COMMAND :: when
        !room
  cure add swap as a reserve => {swap_command} :: when !swap_bytes>0
  cure add swap: only {swap_free_bytes} of {swap_bytes} were free => {more_swap_command} :: when
        swap_free_bytes<swap_bytes/10

rule oom-kill
  flags from_outside is_kernel_kill
  read_first read_kill
  derive derive_kill
  anchors "Killed process " || "Kill process " || invoked oom-killer || oom_reaper: reaped
  # "oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=/a,task_memcg=/a/b,task=python3,pid=2343,uid=0"
  line oom-kill:constraint= && ,task={victim},pid={pid:int} -> subject={victim}; event={pid};
        constraint=control group; figures=oom_memcg={control_group},; add=set_victim_group
    any constraint=CONSTRAINT_MEMCG || oom_memcg=
  line oom-kill:constraint= && ,task={victim},pid={pid:int} -> subject={victim}; event={pid};
        constraint=machine; add=set_victim_group
  line not syncing: Out of memory -> constraint=panic
  # Since Linux 5.0.
  line not syncing: System is deadlocked on memory -> constraint=panic
  line Out of memory and no killable processes -> constraint=nobody to kill; is_echo
  line "Tasks in " && " are going to be killed due to memory.oom.group set" -> constraint=control group;
        is_echo; figures=Tasks in {control_group} are going to be
  finding kernel-oom-panic certain when constraint=panic
    title The kernel stopped the machine: it was out of memory
    cause No process was left to kill, or the kernel is configured to stop (vm.panic_on_oom).
    cure check whether the kernel is configured to stop => sysctl vm.panic_on_oom
    cure set a limit for each program, so that only one fails => headroom run --limit SIZE -- COMMAND
    cure plan which programs run together, with a reserve => headroom plan BUDGET.toml
  finding kernel-oom-kill when constraint=nobody to kill
    title The kernel found no process to kill when memory ran out
    cause All processes of the control group, or of the machine, are protected from the OOM killer
          (oom_score_adj -1000). A process that needs memory there must wait.
    cure @see-holders
    cure set a limit for each program, so that only one fails => headroom run --limit SIZE -- COMMAND
  finding limit-probe-kill benign certain when constraint=a trial of a limit
    title The kernel killed Headroom's own probes of a memory limit
    cause Before 'headroom bench --mem-limit' uses a limit, small child processes try to exceed it. The kernel
          killed them, which proves that the limit is hard.
    no_cures
  finding cgroup-oom-kill when constraint=control group
    title The kernel killed [[{victim} (process {pid})]][[if !victim, invoked_by:a process when {invoked_by}
          requested memory, whose name is not in this log]][[if !victim, !invoked_by, constraint=control
          group:the processes of a control group]][[if !victim, !invoked_by, constraint!=control group:a
          process, whose name is not in this log]]: its control group's memory limit[[ of {limit_bytes}]] was
          reached
    cause The group's processes reached the limit. Either the limit is smaller than their peak, or a process
          keeps growing.[[if memory_peak_bytes: systemd reports that its unit {unit} held up to
          {memory_peak_bytes}.]][[ The victim held {much_in_swap_bytes} more in swap, which its resident
          memory does not include.]]
    cure measure the peak, and see what grew => headroom trace -- COMMAND
    cure {limit_what} => {limit_command}
    cure {other_limit_what} => {other_limit_command}
    cure see which of the node's pods restarted: one of them was killed => kubectl get pods --all-namespaces
          --field-selector spec.nodeName={node:shell|NODE} :: when told_by=Kubernetes, !control_group
  finding kernel-oom-kill first_cure_meets_cause when hidden_bytes
    title The kernel killed [[{victim} (process {pid})]][[if !victim, invoked_by:a process when {invoked_by}
          requested memory, whose name is not in this log]][[if !victim, !invoked_by, constraint=control
          group:the processes of a control group]][[if !victim, !invoked_by, constraint!=control group:a
          process, whose name is not in this log]][[, which held {anonymous_bytes}]][[if anonymous_bytes: and
          {much_in_swap_bytes} in swap]]: the machine[[if told_by=oom_reaper:, or its control group,]] was out
          of memory
    cause In the report, {hidden_bytes} of {ram_bytes} belong to no process, cache or kernel object. The GPU
          and other devices hold such memory. No process's resident memory includes it.[[if memory_peak_bytes:
          systemd reports that its unit {unit} held up to {memory_peak_bytes}.]][[ The victim held
          {much_in_swap_bytes} more in swap, which its resident memory does not include.]]
    cure @of-machine
  finding kernel-oom-kill possible when told_by=Kubernetes
    cause All processes together needed more memory than the machine has. The kernel kills the largest
          process, which is not always the one that grew.
    cure see which pods hold the node's memory => kubectl top pods --all-namespaces --sort-by=memory
    cure see which of the node's pods restarted: one of them was killed => kubectl get pods --all-namespaces
          --field-selector spec.nodeName={node:shell|NODE}
    cure set a limit for the container, so that only it fails => kubectl set resources deployment NAME -c
          CONTAINER --limits=memory=SIZE
  finding kernel-oom-kill possible when !much_in_swap_bytes, anonymous_bytes<67108864
    cause The victim held almost no memory. Either its memory is not resident, as GPU memory is not, or other
          processes filled the machine.[[ Up to {hidden_with_zram_bytes} of {ram_bytes} belong to no process:
          devices such as the GPU hold it, or zram, which keeps swap in RAM.]][[if memory_peak_bytes: systemd
          reports that its unit {unit} held up to {memory_peak_bytes}.]][[ The victim held
          {much_in_swap_bytes} more in swap, which its resident memory does not include.]]
    cure @of-machine
  finding kernel-oom-kill possible
    cause All processes together needed more memory than the machine has. The kernel kills the largest
          process, which is not always the one that grew.[[ Up to {hidden_with_zram_bytes} of {ram_bytes}
          belong to no process: devices such as the GPU hold it, or zram, which keeps swap in RAM.]][[if
          memory_peak_bytes: systemd reports that its unit {unit} held up to {memory_peak_bytes}.]][[ The
          victim held {much_in_swap_bytes} more in swap, which its resident memory does not include.]]
    cure @of-machine
)rules";

}  // namespace

RuleFamily kernel_kills_rules() {
  return {kKernelKillsText,
          {{"read_kill", read_kill}, {"set_victim_group", set_victim_group}, {"derive_kill", derive_kill}}};
}

}  // namespace headroom::doctor
