// Docker, containerd, runc, crun and Podman report that a container was killed because memory ran out.
// Kubernetes reports it, too, and that it evicted pods from a node that was short of memory.
#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/limit_cures.h"
#include "doctor/log/rule_text.h"

namespace headroom::doctor {
namespace {

// Identifiers have 64 digits, of which users see twelve.
void shorten_id(std::string_view, LogMessage& message) {
  constexpr std::size_t kIdentifier = 64, kShown = 12;
  const std::string container = message.text("container");
  if (container.size() == kIdentifier) message.set({"container", container.substr(0, kShown)});
}

void derive_container(std::string_view, LogMessage& message) {
  const std::string container = message.text("container");
  if (const auto limit = larger_limit(message))
    message.add("update", docker_update(*limit, container.empty() ? "CONTAINER" : shell_word(container)));
}

}  // namespace

RuleFamily containers_rules() {
  return {R"rules(
cures report-and-need
  cure read the kernel's report of the kill => journalctl -k | headroom doctor -
  cure measure how much memory it needs => headroom trace -- COMMAND

# Of `docker inspect`. 0 and negative numbers mean no limit.
figures of-inspect
  ""Memory":{limit_bytes:int>0}" || ""MemorySwap":{memory_and_swap_limit_bytes:int>0}"
  ""Name": "/{container}"" || ""Name":"/{container}""
rule container-kill: from_outside repeats_kills derive=derive_container call=shorten_id
  line "container oom " -> who=Docker; subject={container}; figures=name={container:word}
  line "OOMKilled": true || "OOMKilled":true || OOMKilled=true || OOMKilled: true -> who=Docker; part=killed;
        figures=@of-inspect
  # Behind "OOMKilled", "Dead" and "Pid". If OOMKilled is false, another process sent the signal.
  line "ExitCode":{exit_code:int=137} -> part=exit code; figures=@of-inspect
  line ""Name": "/{container}"" || ""Name":"/{container}"" -> part=name; is_vague; is_addition
  line "Memory": -> part=memory; is_vague; is_addition; figures=@of-inspect
  line "MemorySwap": -> part=swap; is_vague; is_addition; figures=@of-inspect
  # The container had not started its program yet.
  line OOM: the memory limit could be too low -> who=crun
  line container init was OOM-killed -> who=runc
  # containerd's log up to 1.6, since 1.7; `ctr events`; an event without the container.
  line "TaskOOM event " && ContainerID: -> who=containerd; part=event; subject={container}
  or "TaskOOM event " && container_id:
    figures ContainerID:{container}, || container_id:\"{container}\" || container_id:"{container}"
  line /tasks/oom && " {"container_id":" -> who=containerd; subject={container}; figures=_id":"{container}"
  line /tasks/oom && events.TaskOOM -> who=containerd; part=forwarded; is_vague
  line "conmon {:word} <ninfo>: OOM " && " received$" -> who=conmon; subject={container}
    figures "conmon {container:word} <ninfo>: OOM "
  finding process-killed warning possible when !who
    title [[The container {container}]][[if !container:A container]] ended by SIGKILL (exit code 137)
    cause Docker does not report that memory ran out. The kernel may have killed a process in the container
      because the machine's memory was full. `docker stop` and `docker kill` end a container in the same way.
    cure @check-kernel-log
    cure check whether `docker kill` or `docker stop` ended it => docker events --since 24h --until 0s
          --filter event=kill
  finding process-killed-for-memory possible when who=containerd
    title [[The container {container}]][[if !container:A container]] was killed because memory ran out
          (reported by {who})[[: its limit was {limit_bytes}]]
    cause The container reached its limit, or the machine had no memory left. The log does not say which.
    cure see its limit, and which container it is => crictl inspect {container:shell|CONTAINER}
    cure @report-and-need
  finding process-killed-for-memory possible when who=conmon
    cure raise its limit => podman update --memory=SIZE {container:shell|CONTAINER}
    cure @report-and-need
  finding process-killed-for-memory when who~run
    cause The container reached its limit. Either the limit is smaller than the peak of its processes, or a
          process keeps growing.
    cure raise its limit: a container needs some MiB before its program starts => [[if who=runc:docker]][[if
          who=crun:podman]] run --memory=SIZE IMAGE
    cure @report-and-need
  finding process-killed-for-memory when update
    cure raise its limit by a quarter, then check whether that is enough => {update}
    cure @report-and-need
  finding process-killed-for-memory possible
    cause The container reached its limit, or the machine had no memory left. The log does not say which.
    cure raise its limit => docker update --memory=SIZE --memory-swap=SIZE_WITH_SWAP
          {container:shell|CONTAINER}
    cure @report-and-need

# The kernel runs without the memory controller of control groups, as Raspberry Pi OS and some boards' kernels
# do by default. Docker then starts containers without their limits; k3s, kubeadm and crun do not start.
cures memory-controller
  cure enable the memory controller on the kernel's command line, then restart (Raspberry Pi:
        /boot/firmware/cmdline.txt; Jetson: APPEND in /boot/extlinux/extlinux.conf) => cgroup_enable=memory
  cure check whether it is enabled: the last figure is 1 (a kernel without CONFIG_MEMCG has no such line) =>
        grep memory /proc/cgroups; cat /sys/fs/cgroup/cgroup.controllers
rule memory-controller: from_outside is_not_of_memory
  line kernel does not support memory limit capabilities -> who=Docker; lost=limit
    figures ! {container:word} Your kernel
  line WARNING: No memory limit support -> who=Docker; lost=limit
  line kernel does not support swap limit capabilities || WARNING: No swap limit support -> who=Docker;
        lost=swap; subject=swap; figures=! {container:word} Your kernel
  line ailed to find memory cgroup -> who=k3s; lost=start; subject=start
    figures level=error => part=error || level=fatal => part=fatal
  line missing required cgroups: memory || missing required cgroups…: memory || CGROUPS_MEMORY: missing ->
        who=kubeadm; lost=start; subject=start
  line cgroup controller `memory` is not available -> who=crun; lost=start; subject=start
  finding memory-limit-ignored note certain when lost=swap
    title Docker limits the containers' memory, but not their swap
    cause The kernel does not count swap for control groups. A container at its limit goes on in swap, and gets
          slow before it fails.
    cure count swap, too: on the kernel's command line, then restart => swapaccount=1
  finding memory-limit-ignored severe certain when lost=start
    title {who} did not start: the kernel's memory controller is off
    cause Memory did not run out. Without the controller, no container can have a memory limit.
    cure @memory-controller
  finding memory-limit-ignored warning certain
    title Docker ignores the memory limits of containers: the kernel's memory controller is off
    cause A container can use all of the machine's memory. If it grows, the kernel kills a process of the
          machine, which may be another one.
    cure @memory-controller
    cure until then, limit the program itself inside the container => headroom run --limit SIZE -- COMMAND

# "robots  5m  Warning  Evicted  pod/redis-0  The node was low …" of `kubectl get events`. Only with
# --all-namespaces has it the namespace.
figures of-eviction
  who=Kubernetes || eviction=node || Container {victim} was using
  Threshold quantity: {threshold_bytes:quantity} || available: {available_bytes:quantity}
  " was using {resident_bytes:quantity}"
  request is {request_bytes:quantity} || exceeds its request of {request_bytes:quantity}
  if !request_bytes => may_go_on || "Evicted  pod/{pod:word}  The node was low"
  "^{namespace:word}  {:word}  {:word}  Evicted  pod/"
rule kubernetes-kill: from_outside repeats_kills
  # kubectl may break the line before the request.
  anchors "exceeds its request of "
  # A row of `kubectl get pods`, or of `kubectl get all` with "pod/" before the name. With --all-namespaces,
  # the namespace stands before it. A row does not name the container.
  line "{:word}  {:int}/{:int}  OOMKilled  " -> who=Kubernetes; subject="pod {pod} "; part=row; is_vague
    figures "pod/{pod:word}  {:int}/{:int}  OOMKilled" || "{pod:word}  {:int}/{:int}  OOMKilled" ||
          "^{namespace:word}  {:word}  {:int}/{:int}  OOMKilled"
  # The limit of `kubectl describe pod`: "Limits:", "  memory: 512Mi". A container without a limit has its
  # request or the next container's size first: these headings end the search.
  line ^Requests:$ || ^Container ID: || "^memory:  " -> subject="pod "; part=memory; is_vague; is_addition
    figures memory:  {limit_bytes:quantity}
  line "System OOM encountered, victim process: " -> who=Kubernetes; subject=node {victim}
    figures victim process: {victim}, || , pid: {pid:int}
  line SystemOOM && System OOM encountered -> who=Kubernetes; subject="node "; is_vague
  or System OOM encountered$
  # A message of another eviction is not the rest of this one.
  line The node was low on resource: memory -> figures=@of-eviction; subject={victim|}
    none The node was low…The node was low
  line must evict pod(s) to reclaim -> who=Kubernetes; eviction=node
    any resourceName="memory" || reclaim memory
  line "eason:  OOMKilled" || "eason: OOMKilled" || eason=OOMKilled || eason":"OOMKilled" || eason":
        "OOMKilled" -> who=Kubernetes; subject="pod "; part=reason; is_vague
  # Behind the reason in `kubectl describe`, before it in JSON and YAML. If the reason is not OOMKilled,
  # another process sent SIGKILL. Other programs print this key, too.
  line Exit Code:  {:int=137} -> told_by=Kubernetes; exit_code=137; subject="pod "; part=exit code; is_vague
  line "exitCode":{:int=137} || ^exitCode: {:int=137} -> exit_code=137; subject="pod "; part=exit code;
        is_vague
  finding process-killed warning possible when !who, !told_by
    title A program or a container ended by SIGKILL (exit code 137)
    cause The kernel sends SIGKILL when memory runs out. Users, supervisors and schedulers send it too. The
          log does not say who sent the signal.
    cure @check-kernel-log
  finding process-killed warning possible when !who
    title [[The container {container}]][[if !container:A container]][[ of the pod {pod}]] ended by SIGKILL
          (exit code 137)
    cause Kubernetes does not report that the container reached its limit. The kernel may have killed it
          because the node's memory was full. Kubernetes also kills after a failed liveness probe or a slow
          shutdown.
    cure see the events of the pod => kubectl describe pod [[--namespace {namespace:shell} ]]{pod:shell|POD}
    cure read the kernel's report on the pod's node => journalctl -k | headroom doctor -
  finding process-killed-for-memory certain when eviction
    title Kubernetes evicted [[the pod {pod}]][[if !pod:a pod]][[ (container {victim})]]: its node ran low on
          memory
    cause The node had {available_bytes|too little} available[[, and the container held {resident_bytes}]][[if
          resident_bytes, request_bytes>0: and had requested {request_bytes}]][[if resident_bytes,
          request_bytes<1: and had requested nothing]]. Kubernetes first evicts pods that use more than they
          requested.
    cure request as much as the container needs, so that Kubernetes picks a node with that much free =>
          kubectl set resources deployment NAME [[--namespace {namespace:shell} ]]-c {victim:shell|CONTAINER}
          --requests=memory=[[{resident_bytes/4*5:mib}Mi]][[if !resident_bytes:SIZE]]
    cure see which pods hold the node's memory => kubectl top pods --all-namespaces --sort-by=memory
  finding process-killed-for-memory when limit_bytes
    title [[{victim} (process {pid})]][[if !victim, container:The container {container}]][[if !victim,
          !container, pod:A container]][[if !victim, !container, !pod:A process]][[if !victim, pod: of the pod
          {pod}]] was killed because memory ran out (reported by Kubernetes)[[: its limit was {limit_bytes}]]
    cause The container reached its limit. Either the limit is smaller than the peak of its processes, or a
          process keeps growing.
    cure raise its limit by a quarter, then check whether that is enough => kubectl set resources deployment
          NAME [[--namespace {namespace:shell} ]]-c {container:shell|CONTAINER}
          --limits=memory={limit_bytes/4*5:mib}Mi
    cure @read-kernel-report @see-holders
    cure see the limit and the events of the pod => kubectl describe pod [[--namespace {namespace:shell}
          ]]{pod:shell}
  finding process-killed-for-memory possible
    cause The machine or the control group had no memory left. The log does not say which process held it.

# The head of `kubectl describe pod`, and keys that only Kubernetes has.
rule kubernetes-context: context_of=kubernetes-kill
  line "^Name:  {pod}$"
  line "^Namespace:  {namespace}$"
  line "lastState": || ^lastState: || "containerStatuses": || "containerID": || "^- containerID: " ->
        told_by=Kubernetes
)rules",
          {{"derive_container", derive_container}, {"shorten_id", shorten_id}}};
}

}  // namespace headroom::doctor
