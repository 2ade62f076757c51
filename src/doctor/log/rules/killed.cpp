// A program was killed. By SIGKILL, as its starter reports it: a shell, ROS 2's launch, docker compose,
// systemd, supervisord, torchrun, a compiler's driver, make. The starter does not know who sent the signal.
// Or by a daemon that ends processes when memory is short; and systemd's report of units that were killed.
#include <fmt/format.h>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/announced_kills.h"
#include "doctor/log/limit_cures.h"
#include "doctor/log/line_pattern.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rule_text.h"

namespace headroom::doctor {
namespace {

constexpr std::size_t kLongestCommand = 80;  // of a command line, this much is kept

void shorten_command(std::string_view, LogMessage& message) {
  message.subject = message.text("command").substr(0, kLongestCommand);
  message.set({"command", message.subject});
}

// The command for "headroom run", if it is whole and has no character that a shell interprets.
std::string program_of(const LogMessage& message) {
  const std::string command = message.text("command"), who = message.text("told_by");
  const std::string program = who == kLaunch ? message.text("program") : command;
  const auto words = split_words(program);
  const std::string quoted = shell_command({words.begin(), words.end()});
  if (who == kLaunch) return program.empty() ? "ros2 launch PACKAGE LAUNCH_FILE" : quoted;
  const bool is_whole = who.empty() && !command.starts_with("a ") && command.size() < kLongestCommand;
  return is_whole && quoted == command ? command : "COMMAND";
}

// Up to version 1, docker compose prints the container's name: "ws_detector_1"; later the service's name with
// a number: "detector-1".
std::string container_of(std::string_view name) {
  if (has(name, "_") && name.rfind('_') == name.find_last_of("-_")) return shell_word(name);
  return fmt::format("$(docker compose ps -aq {})", shell_word(name.substr(0, name.rfind('-'))));
}

void derive_killed(std::string_view, LogMessage& message) {
  const std::string command = message.text("command");
  message.add("name", message.text("told_by") == kSystemd ? "The service " + command
                      : command.starts_with("a ")         ? "A" + command.substr(1)
                                                          : fmt::format("'{}'", command));
  message.add("container", container_of(command));
  message.add("run", program_of(message));
}

// "Marked /user.slice/…/app-x.scope for killing due to memory pressure for /user.slice/… being 62.10%
// > 50.00% for …"; "Killed /user.slice/… due to …" up to systemd 257. Or for swap that is nearly full: "… due
// to memory used (7516192768) / total (7945689497) and swap used (3865470566) / total (3972844748) being more
// than 90.00%".
void read_oomd(std::string_view line, LogMessage& message) {
  LogMessage found;
  if (!match_pattern("Marked {group} for killing due to {why}", line, found))
    match_pattern("Killed {group} due to {why}", line, found);
  const std::string group = found.text("group");
  message.is_none = group.empty();
  message.add("unit", name_in(group));
  message.subject = without_service(message.text("unit"));
  message.event = fmt::format("systemd-oomd {}", message.subject);
  message.add("user_id", user_of(group));
  for (const std::string_view pattern :
       {"memory used ({:size}) / total ({ram_bytes}", "memory used ({ram_used_bytes}",
        "swap used ({:size}) / total ({swap_bytes}", "swap used ({swap_used_bytes}",
        " being more than {swap_used_limit:word}", " being {pressure} for "})
    match_pattern(pattern, found.text("why"), message);
}

// systemd's properties of the unit. A container's runtime sets the limit of its scope, and knows no
// preference.
void derive_oomd(std::string_view, LogMessage& message) {
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

}  // namespace

RuleFamily killed_rules() {
  return {R"rules(
rule killed: from_outside derive=derive_killed call=shorten_command
  figures ends_program
  # A shell's words, of a script or a background job (bash, zsh).
  line ": line {:int}: {:int} Killed  {:word}" || ": {:int} Killed  {:word}" -> tells_shell
  or "^{:int} Killed  {:word}" || "[{:int}]+  Killed  {:word}" || "[{:int}]-  Killed  {:word}"
  or "[{:int}]  Killed  {:word}" || "[{:int}]  + {:int} killed  {:word}"
  or "[{:int}]  - {:int} killed  {:word}" || "[{:int}]  {:int} killed  {:word}"
    figures Killed …(core dumped) {command} || Killed  {command} || killed  {command} || "{pid:int} Killed  "
          || "{pid:int} killed  "
  # Of ROS 2, and of ROS 1, whose command has no quotation marks. A command that was cut is left out.
  line process has died && exit code -9
    figures [{command:word}]: process has died || [{command:word}] process has died || command=a node || [pid
          {pid:int} || told_by=ROS's launch || ", cmd '{program}']" || ", cmd {program}]"
  line ": *** […] Killed$" || ": *** […] Error 137$" -> command=a command of make
  # Of an interactive shell, or a script in a container or below ROS's launch; macOS; GNU time.
  line ^Killed$ || ^Killed: 9$ || " | Killed$" || -{:int}] Killed$ || Command terminated by signal 9$ ->
        command=a program; tells_shell
  # "… after docker kill" names the sender.
  line {command:word} exited with code {:int=137} -> none="after docker "
    figures -{:int} exited with code => told_by=docker compose || _{:int} exited with code => told_by=docker
          compose
  # If systemd itself kills a unit, it announces that (announced_kills.cpp).
  line .service: Main process exited, code=killed, status=9/KILL -> is_of_unit
    figures "]: {command}.service: Main" || ^{command}.service: Main || "]: {unit}.service: Main" ||
          ^{unit}.service: Main || told_by=systemd
  line DataLoader worker (pid && killed by signal: Killed -> command=a DataLoader worker
    figures (pid(s) {pid:int} || (pid {pid:int}
  # Like a shell, Ollama names no process.
  line llama runner process has terminated: signal: killed -> command=a runner of Ollama; runtime=Ollama;
        tells_shell
  or llama-server process has terminated: signal: killed
  or llama runner process no longer running && "signal: killed"
  or llama-server process no longer running && "signal: killed"
    figures msg= => part=server || part=client
  # gunicorn
  line was sent SIGKILL! Perhaps out of memory? -> command=a worker; figures=(pid:{pid:int}
  line zsh: killed {command}
  # The drivers of compilers and linkers: c++, collect2, nvcc.
  line Killed signal terminated program {command:word} -> told_by=a compiler
  or internal compiler error: Killed (program {command}) || {command:word} terminated with signal 9 [Killed]
  or '{command:word}' died due to signal 9
  # Python's subprocess.
  line Command '{command}' died with <Signals.SIGKILL
  # 137 is 128 and the signal's number: kubectl exec, PyCharm, GitHub's runner, yarn, GitLab's runner.
  line command terminated with && " exit code {:int=137}" -> command=a command in a container; told_by=kubectl
  line rocess finished with && " exit code {:int=137}" -> command=a program
  or rocess completed with && " exit code {:int=137}"
  or ommand failed with exit code {:int=137} || Job failed: exit code {:int=137}
  # What supervisord kills itself is "stopped: …".
  line " exited: {command} (terminated by SIGKILL; not expected)" -> told_by=supervisord
  or " exited: {command} (exit status 137; not expected)"
  # torchrun, in two lines.
  line "failed (exitcode: -9) local_rank: " -> command=a worker of torchrun; part=failed
    figures (pid: {pid:int}
  line "Signal 9 (SIGKILL) received by PID " -> command=a worker of torchrun; part=traceback
    figures received by PID {pid:int}
  line The command '{command}' returned a non-zero code: {:int=137} -> told_by=docker build
  or process "{command}" did not complete successfully: exit code: {:int=137}
  finding process-killed warning possible when told_by=a compiler
    title {name} was killed (SIGKILL)
    cause The kernel sends SIGKILL when memory runs out. Users, supervisors and schedulers send it too. The
          log does not say who sent the signal.
    cure compile one file at a time: each compiler process takes one GiB or more => MAX_JOBS=1
          CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1 COMMAND
    cure @check-kernel-log
  finding process-killed warning possible when told_by=docker build
    cure run fewer jobs at once in the build: each compiler process takes one GiB or more => ENV MAX_JOBS=1
          CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1  # of the Dockerfile
    cure @check-kernel-log
  finding process-killed warning possible when told_by=docker compose
    cure check whether the container reached its own limit => docker inspect --format '{{.State.OOMKilled}}'
          {container}
    cure @check-kernel-log
    cure set a memory limit for its service, so that only it fails, with a clear reason => mem_limit: SIZE  #
          of the service, in compose.yaml
  finding process-killed warning possible when told_by=kubectl
    cure check whether the pod reached its limit (OOMKilled) => kubectl describe pod POD
    cure raise the pod's limit => kubectl set resources deployment NAME -c CONTAINER --limits=memory=SIZE
  # Ollama has no setting for the load mode: with an integrated GPU it always passes --load-mode dio.
  finding process-killed warning first_cure_meets_cause when runtime=Ollama,
      board_used_bytes*20>board_bytes*19
    cause The kernel sends SIGKILL when memory runs out.[[ In the last line of tegrastats, {board_used_bytes}
          of {board_bytes} were used.]] The log does not say who sent the signal.[[if load_mode=dio: Ollama
          read the model's file with direct I/O: the part on the host then is memory that the kernel cannot
          drop.]]
    cure load the model without direct I/O, for which Ollama has no setting: use llama.cpp's server =>
          llama-server -m MODEL.gguf --load-mode mmap :: when load_mode=dio
    cure @check-kernel-log
    cure use a model with fewer bits or parameters (q4_K_M takes about half of q8_0) => ollama pull MODEL:TAG
    cure halve the context, or keep one model in memory => OLLAMA_MAX_LOADED_MODELS=1 OLLAMA_NUM_PARALLEL=1
          ollama serve
  finding process-killed warning possible first_cure_meets_cause when runtime=Ollama
  finding process-killed warning possible
    cause The kernel sends SIGKILL when memory runs out. Users, supervisors and schedulers send it too. The
          log does not say who sent the signal.
    cure @check-kernel-log
    cure set a memory limit, so that only this program fails, with a clear reason => [[sudo systemctl
          set-property {unit:shell} MemoryMax=SIZE]][[if !unit:headroom run --limit SIZE -- {run}]]

# How llama.cpp reads a model's file.
rule killed-context: context_of=killed
  line (load_mode = {load_mode:word}
  line direct_io = true) -> load_mode=dio

rule oom-daemon: from_outside repeats_kills
  line "{unit:service}: Failed with result 'oom-kill'" -> who=systemd; part=result; subject={unit}; is_of_unit
  line {unit:service}…killed by the OOM killer || killed by the OOM killer -> who=systemd; part=killed;
        subject={unit}; is_of_unit
  # Each unit that ends has such a line: "vision.service: Consumed 3min 2.1s CPU time, 6.1G memory peak."
  line "{unit:service}: Consumed " && {memory_peak_bytes} memory peak -> part=peak; subject={unit};
        is_addition
  finding process-killed-for-memory possible
    title [[if !unit:A process]][[if unit~.scope:{unit}]][[if unit~.slice:{unit}]][[if unit, !unit~.scope,
          !unit~.slice:The service {unit}]] was killed because memory ran out (reported by systemd)
    cause The machine or the control group had no memory left. The log does not say which process held it.[[
          The unit's peak was {memory_peak_bytes}.]]
    cure @read-kernel-report @see-holders
    cure check whether the unit has its own limit => systemctl show -p MemoryMax -p MemoryHigh -p
          MemorySwapMax [[{unit:shell}]]

rule earlyoom: from_outside repeats_kills
  # Before 1.2, in 1.2, later, and since 1.8.
  line illing process ' && "' with signal " && ", pid: {:int}, badness: " -> who=earlyoom; subject={victim};
        event=earlyoom {pid|0} {victim|}
  or illing process {:int} " && "" with signal " && ": badness "
  or sending SIG && " to process {:int} " && "": badness "
  or sending SIG && " to process {:int} " && "": oom_score "
    figures , pid: {pid:int} || illing process {pid:int} || " to process {pid:int}" || "illing process
          '{victim}' with signal " || ""{victim}" with signal " || ""{victim}": badness " || ""{victim}":
          oom_score " || VmRSS {resident_bytes} || VmRSS: {resident_bytes}
  finding process-killed-for-memory certain
    title {victim|A program} (process {pid}) was killed because memory ran out (reported by earlyoom)
    cause [[{available_bytes} of {ram_bytes} of memory were left]][[if swap_bytes>0:, and {swap_free_bytes} of
          {swap_bytes} of swap]][[if !available_bytes:Little memory and swap were left]]: earlyoom ends the
          largest process before the kernel's OOM killer has to act.[[if resident_bytes<ram_bytes/10: This
          process held {resident_bytes} in memory. It may hold more in swap, which earlyoom also counts, or
          other processes hold the memory.]]
    cure @see-holders
    cure make earlyoom prefer other processes => earlyoom --avoid {victim:shell|NAME}

rule earlyoom-context: context_of=earlyoom
  line mem avail: {available_bytes:MiB} of {ram_bytes:MiB}
    figures swap free: {swap_free_bytes:MiB} of {swap_bytes:MiB}

rule systemd-oomd: from_outside repeats_kills derive=derive_oomd
  figures who=systemd-oomd || part=systemd-oomd
  line "{unit:service}: systemd-oomd killed " && " in this unit" -> subject={unit}; event=systemd-oomd {unit}
  line systemd-oomd && " due to " -> call=read_oomd
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
      or when swap is nearly full. Its own log line says which.[[ The unit's peak was {memory_peak_bytes}.]]

# "Memory pressure for /system.slice is 85.03% > 80.00% for > 2s with reclaim activity", before systemd-oomd
# picks a group: the line of the kill may be cut before the pressure.
rule systemd-oomd-context: context_of=systemd-oomd
  line "Memory pressure for " && " is {pressure} for > " && with reclaim activity
)rules",
          {{"shorten_command", shorten_command},
           {"derive_killed", derive_killed},
           {"read_oomd", read_oomd},
           {"derive_oomd", derive_oomd}}};
}

}  // namespace headroom::doctor
