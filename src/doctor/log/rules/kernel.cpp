// What the kernel says when memory or pages are missing, and when it slows the machine down or turns it off:
// the wordings of Linux 3 to 6. Its OOM killer kills for the machine or a control group. The anon-rss of its
// lines does not include GPU memory: on a Jetson, a victim with 2.6 MB may have held gigabytes.
#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/log/finding_text.h"
#include "doctor/log/limit_cures.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_report.h"
#include "doctor/log/rule_text.h"
#include "doctor/machine/machine_history.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kControlGroup = "control group";

// "/a/b" of "…,task_memcg=/a/b,task=python3".
void set_victim_group(std::string_view line, LogMessage& message) {
  const std::string_view group = text_after(line, ",task_memcg=").value_or("");
  message.victim_group = group.substr(0, group.find(','));
}

// Whether the largest process deserves a cure. Desktops and compilers have cures of their own, and less than
// a tenth of the memory that belongs to no process makes no difference.
bool is_largest_to_blame(const LogMessage& message, bool is_much_hidden) {
  const auto rss = message.bytes("largest_process_bytes");
  const std::string largest = message.text("largest_process");
  if (!rss || largest.empty() || is_of_desktop(largest) || is_compiler(largest)) return false;
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

// The kernel prefers processes with a larger oom_score_adj, and may kill one of a control group only.
void derive_victim(LogMessage& message) {
  const auto held = message.bytes("anonymous_bytes"), largest = message.bytes("largest_process_bytes");
  const bool is_largest = message.text("victim") == message.text("largest_process");
  if (held && largest && !is_largest && *held < *largest) message.add("spared_bytes", largest);
  if (is_compiler(message.text("victim")) && !message.number("compilers")) message.add("one_compiler", "yes");
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
  // As for the finding desktop-running (machine/machine_findings.cpp).
  constexpr Bytes kLeast = mebibytes(32), kSmallMachine = gibibytes(33);
  if (message.bytes("desktop_bytes").value_or(Bytes{}) >= kLeast && (!total || *total <= kSmallMachine))
    message.add("stoppable_desktop", message.text("desktop"));
  message.add("swap_command", make_swap_file("", total).command);
  message.add("more_swap_command", make_swap_file("", total, SwapFile::another).command);
}

// Parts of the titles and causes below.
constexpr std::string_view kWhom =
    "[[{victim} (process {pid})]][[if !victim, invoked_by:a process when {invoked_by} requested memory, "
    "whose name is not in this log]][[if !victim, !invoked_by, constraint=control group:the processes of a "
    "control group]][[if !victim, !invoked_by, constraint!=control group:a process, whose name is not in "
    "this log]]";
constexpr std::string_view kAlso =
    "[[ Up to {hidden_with_zram_bytes} of {ram_bytes} belong to no process: devices such as the GPU hold it, "
    "or zram, which keeps swap in RAM.]][[if memory_peak_bytes: systemd reports that its unit {unit} held up "
    "to {memory_peak_bytes}.]][[ The victim held {much_in_swap_bytes} more in swap, which its resident "
    "memory does not include.]]";

void derive_kill(std::string_view, LogMessage& message) {
  // Memory that the kill's line does not include, if it is much, and a tenth of the process's or more.
  const auto swapped = message.bytes("victim_swap_bytes"), resident = message.bytes("anonymous_bytes");
  if (swapped >= mebibytes(64) && swapped->count >= (*swapped + resident.value_or(Bytes{})).count / 10)
    message.add("much_in_swap_bytes", swapped);
  derive_victim(message);
  if (message.text("constraint") != kControlGroup) derive_machine(message);
  message.add("whom", fill_in(kWhom, message).value_or(""));
  message.add("also", fill_in(kAlso, message).value_or(""));
  if (message.text("constraint") != kControlGroup) return;
  std::string name = "limit";
  for (const Cure& cure : larger_limits(message)) {
    message.add(name + "_what", cure.what);
    message.add(name + "_command", cure.command);
    name = "other_limit";
  }
}

void derive_pages(std::string_view, LogMessage& message) {
  const std::int64_t order = message.number("order").value_or(-1);
  constexpr std::int64_t kMost = 20;
  message.add("page_count", order >= 0 && order < kMost ? std::to_string(std::int64_t{1} << order) : "many");
}

}  // namespace

RuleFamily kernel_rules() {
  return {
      R"rules(
# The kernel kills each compiler alone, but all that run at once fill the memory.
cures fewer-compilers
  cure compile fewer files at once: {compilers} compilers held {compilers_bytes} => MAX_JOBS={compilers/2}
        CMAKE_BUILD_PARALLEL_LEVEL={compilers/2} MAKEFLAGS=-j{compilers/2} COMMAND :: when compilers>1
  cure compile fewer files at once: each compiler process takes one GiB or more => MAX_JOBS=1
        CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1 COMMAND :: when one_compiler
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

# Kernels of Android devices may reap each process that SIGKILL ends. A reaper's line alone is no OOM kill
# there.
rule android-context: context_of=oom-kill
  line add_to_oom_reaper: -> kernel=Android
  line "healthd: battery " -> kernel=Android
  line scontext=u:r: && tcontext=u: -> kernel=Android

rule oom-kill: from_outside is_kernel_kill derive=derive_kill
  anchors invoked oom-killer || Tasks state (memory values in pages)
  # The name may contain brackets and spaces; the kernel cuts it at 15 bytes. "Killed process" alone may be of
  # another program; the kernel prints sizes, or that memory was out. OomReport reads the report.
  line Killed process {:int} (…) && total-vm: -> subject={victim}; event={pid}
  or Killed process {:int} (…) && vsz:
  or Killed process {:int} (…) && ut of memory
  or Kill process {:int} (…) && ut of memory
    none oom-kill:constraint= || invoked oom-killer
    # Up to 5.2, the kernel names the process that it chose, and then kills a child of it if there is one. The
    # event of a Kubernetes node, by its node-problem-detector: "2m11s  Warning  OOMKilling  node/edge-07  …".
    figures process {:int} ({victim}) total-vm || process {:int} ({victim}) score || process {:int}
          ({victim}), UID || process {:int} ({victim}) || process {pid:int} || emory cgroup out of memory =>
          constraint=control group || OOMKilling => told_by=Kubernetes || OOMKilling…node/{node:word} ||
          total-vm:{virtual_bytes:unit} || anon-rss:{anonymous_bytes:unit} || file-rss:{file_bytes:unit} ||
          shmem-rss:{shared_bytes:unit} || pgtables:{page_tables_bytes:unit} || " score {score:int}" || or
          sacrifice child => part=chosen
  # A search or a ring buffer may have cut off the other lines of the kill.
  line oom_reaper: reaped process {:int} (…), now -> subject={victim}; event={pid}; is_echo
    figures process {:int} ({victim}), now || process {pid:int} || told_by=oom_reaper
  # "oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=/a,task_memcg=/a/b,task=python3,pid=2343,uid=0"
  line oom-kill:constraint= && ,task={victim},pid={pid:int} -> subject={victim}; event={pid};
        constraint=control group; figures=oom_memcg={control_group},; call=set_victim_group
    any constraint=CONSTRAINT_MEMCG || oom_memcg=
  line oom-kill:constraint= && ,task={victim},pid={pid:int} -> subject={victim}; event={pid};
        constraint=machine; call=set_victim_group
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
    title The kernel killed {whom}: its control group's memory limit[[ of {limit_bytes}]] was reached
    cause The group's processes reached the limit. Either the limit is smaller than their peak, or a process
          keeps growing.{also|}
    cure @fewer-compilers
    cure measure the peak, and see what grew => headroom trace -- COMMAND
    cure {limit_what} => {limit_command}
    cure {other_limit_what} => {other_limit_command}
    cure see which of the node's pods restarted: one of them was killed => kubectl get pods --all-namespaces
          --field-selector spec.nodeName={node:shell|NODE} :: when told_by=Kubernetes, !control_group
  finding kernel-oom-kill first_cure_meets_cause when hidden_bytes
    title The kernel killed {whom}[[, which held {anonymous_bytes}]][[if anonymous_bytes: and
          {much_in_swap_bytes} in swap]]: the machine[[if told_by=oom_reaper:, or its control group,]] was out
          of memory
    cause In the report, {hidden_bytes} of {ram_bytes} belong to no process, cache or kernel object. The GPU
          and other devices hold such memory. No process's resident memory includes it.{also|}
    cure @of-machine @fewer-compilers
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
          processes filled the machine.{also|}
    cure @of-machine
  finding kernel-oom-kill possible first_cure_meets_cause when compilers>1
    cause {compilers} compilers and linkers held {compilers_bytes} together.[[ The victim was not the largest
          process: {largest_process} held {spared_bytes}.]]{also|}
    cure @fewer-compilers @of-machine
  finding kernel-oom-kill possible first_cure_meets_cause when one_compiler
    cause Each compiler process takes one GiB or more, and builds run one for each core.{also|}
  finding kernel-oom-kill possible when spared_bytes
    cause All processes together needed more memory than the machine has. The kernel did not kill the largest
          process: {largest_process} held {spared_bytes}.{also|}
    cure @of-machine
  finding kernel-oom-kill possible
    cause All processes together needed more memory than the machine has. The kernel kills the largest
          process, which is not always the one that grew.{also|}
    cure @of-machine

rule page-allocation: from_outside derive=derive_pages
  line page allocation failure && order:{order:int} || "page allocation stalls for " && order:{order:int}
    figures stalls for {stalled_ms:int}
  # -12 is ENOMEM. -16 is EBUSY, and the kernel tries again.
  line "cma_alloc: " && alloc failed && ret: -12 -> subject=contiguous; figures=req-size: {pages:int}
  finding contiguous-memory-full warning when subject=contiguous
    title The kernel could not allocate [[{pages} ]]pages from its contiguous memory area (CMA)
    cause Cameras, codecs and displays allocate their buffers in CMA. Its size is fixed at boot.
    cure see how much of CMA is free => grep Cma /proc/meminfo
    cure make CMA larger, on the kernel's command line => cma=256M
    cure use fewer or smaller camera and codec buffers
  # Up to order 3 (PAGE_ALLOC_COSTLY_ORDER) the kernel reclaims memory until it can.
  finding page-allocation-failed warning when order>3
    title The kernel [[waited {stalled_ms} ms for]][[if !stalled_ms:could not find]] {page_count} contiguous
          free pages
    cause Memory may have been free, but not in one block of this size: it is fragmented.
    cure @keep-pages-free @compact-memory @see-holders
  finding page-allocation-failed warning
    cause The machine had no free memory, or was too slow at writing pages to disk or swap.

cures another-swap: add swap on a disk as a second level (slow when used) => sudo fallocate -l $(awk
      '/MemTotal/ {print int($2/2097152)+1}' /proc/meminfo)G /swapfile.headroom && sudo chmod 600
      /swapfile.headroom && sudo mkswap /swapfile.headroom && sudo swapon /swapfile.headroom

# The page stays in memory, so nothing is lost, but what was to be freed is not. Where swap is zram, in
# memory itself, memory is most often what lacks.
rule swap-write: from_outside waits_for_failure
  line zram && "Error allocating memory for compressed page: " -> swap=zram; part=zram
    figures size={requested_bytes}
  line Write-error on swap-device ({device}:{:int}) -> part=device
  finding swap-write-failed warning when swap=zram
    title zram had no memory for a page that the kernel wanted to swap out
    cause zram stores compressed pages in memory, and no memory was left for them.
    cure @see-holders @keep-pages-free @another-swap
  finding swap-write-failed warning possible
    title The kernel could not write to swap (device {device})
    cause If the device is zram, memory was full, or zram reached its mem_limit. If it is a disk or a file,
          the disk failed or was removed.
    cure find the device => swapon --show; lsblk -o NAME,MAJ:MIN,TYPE,MOUNTPOINTS
    cure @see-holders @keep-pages-free @another-swap

rule throttled: from_outside is_not_of_memory
  line HARDWARE PROTECTION shutdown (Temperature too high) -> reason=critical temperature; subject={reason};
        part=shutdown
  # Before Linux 5.13 without the name of the zone.
  line thermal thermal_zone{:int}: critical temperature reached -> reason=critical temperature;
        subject={reason}; part=reached
  or thermal thermal_zone{:int}: {:word} critical temperature reached
    figures thermal_zone{:int}: {zone:word} critical || reached ({temperature_celsius:int}
  # It has a bit for each of the Jetson's alarms; 0 is none.
  line soctherm: OC ALARM 0x -> reason=over-current; subject={reason}; none=OC ALARM 0x00000000
  line emperature above threshold, cpu clock throttled -> reason=heat; subject={reason}
  finding thermal-shutdown certain when reason=critical temperature
    title The machine shut itself down: it was too hot[[ ({zone})]][[, at {temperature_celsius} °C]]
    cause The kernel turns the machine off at a sensor's critical temperature. This ended all programs. Memory
          did not run out.
    cure cool the machine: check dust, fan, heat sink contact and room temperature
    cure on a Jetson, choose a lower power mode, and turn the fan on => sudo nvpmodel -m MODE
    cure watch the temperatures => headroom top
  finding throttled warning certain when reason=over-current
    title The board was throttled: it drew more current than its power supply delivers
    cause The Jetson raised an over-current alarm. It lowers its clocks while the alarm lasts, so programs run
          slower. Nothing failed.
    cure choose a lower power mode => sudo nvpmodel -m MODE
    cure use a power supply and a cable for the board's full power
    cure watch the temperatures and the power mode => headroom top
  finding throttled warning certain
    title The processor was throttled: it was too hot
    cause The processor lowers its clocks until it has cooled, so programs run slower. Nothing failed.
    cure cool the machine: check dust, fan and room temperature
    cure or limit the CPU clock => sudo cpupower frequency-set --max 2GHz
    cure watch the temperatures => headroom top
)rules",
      {{"set_victim_group", set_victim_group}, {"derive_kill", derive_kill}, {"derive_pages", derive_pages}}};
}

}  // namespace headroom::doctor
