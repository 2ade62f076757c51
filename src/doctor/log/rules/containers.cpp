// Docker, containerd, runc, crun and Podman report that a container was killed because memory ran out.
// Kubernetes reports it, too, and that it evicted pods from a node that was short of memory.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/limit_cures.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// Identifiers have 64 digits, of which users see twelve.
void shorten_id(std::string_view, LogMessage& message) {
  constexpr std::size_t kIdentifier = 64, kShown = 12;
  message.subject = message.text("container");
  if (message.subject.size() != kIdentifier) return;
  message.subject.resize(kShown);
  message.set({"container", message.subject});
}

// "Memory": 536870912, "MemorySwap": 1073741824 of `docker inspect`. 0 and negative numbers mean no limit.
void add_limits(std::string_view line, LogMessage& message) {
  const auto add = [&](std::string_view key, std::string_view figure) {
    if (const auto limit = integer_after(line, key); limit && *limit > 0) message.add(figure, Bytes{*limit});
  };
  add("\"Memory\":", "limit_bytes");
  add("\"MemorySwap\":", "memory_and_swap_limit_bytes");
}

void derive_container(LogMessage& message) {
  const std::string container = message.text("container");
  if (const auto limit = larger_limit(message))
    message.add("update", docker_update(*limit, container.empty() ? "CONTAINER" : shell_word(container)));
}

// A metric of kube-state-metrics: a gauge for each reason, with the value 1 for the actual one.
constexpr std::string_view kOfMetric = "_reason{", kKilledAtLimit = "OOMKilled";

// "reason: OOMKilled", "\"reason\": \"OOMKilled\",", "reason=OOMKilled" and "Reason:       OOMKilled": a key
// and its value, not a sentence that contains the word.
bool is_reason(std::string_view line) {
  if (has(line, "\"reason\": \"OOM Killed\"")) return true;  // 2014
  const std::size_t at = line.find(kKilledAtLimit);
  if (at == line.npos || has(line, "OOMKilled=false") || has(line, "OOMKilled: false")) return false;
  std::string_view before = line.substr(0, at);
  if (before.ends_with('"')) before.remove_suffix(1);
  before = trim(before);
  if (!before.ends_with(':') && !before.ends_with('=')) return false;
  before.remove_suffix(1);
  if (before.ends_with('"')) before.remove_suffix(1);
  if (!before.ends_with("eason")) return false;
  if (!has(line, kOfMetric)) return true;
  const auto value = split_words(text_after(line, "}").value_or(""));
  return !value.empty() && value[0] == "1";
}

// The labels of `…_reason{namespace="robots",pod="det-0",container="detector",reason="OOMKilled"} 1`.
void add_labels(std::string_view line, LogMessage& message) {
  if (!has(line, kOfMetric)) return;
  for (const std::string_view label : {"namespace", "pod", "container"})
    for (const char before : {'{', ','})
      if (const auto value = text_after(line, fmt::format("{}{}=\"", before, label)))
        message.add(label, value->substr(0, value->find('"')));
}

// "detector-7d9f-abcde     0/1     OOMKilled   3 (25s ago)   2m11s": a row of `kubectl get pods`, or of
// `kubectl get all` with "pod/" before the name. With --all-namespaces, the namespace stands before it.
std::optional<LogMessage> read_row(std::string_view line) {
  if (!has(line, kKilledAtLimit)) return std::nullopt;
  const auto words = split_words(line);
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i] != kKilledAtLimit) continue;
    const std::string_view ready = words[i - 1];
    const std::size_t slash = ready.find('/');
    if (slash == ready.npos || slash == 0 || slash + 1 == ready.size() ||
        ready.find_first_not_of("0123456789/") != ready.npos)
      continue;
    std::string_view pod = words[i - 2];
    constexpr std::string_view kKind = "pod/", kOfNames = "abcdefghijklmnopqrstuvwxyz0123456789-";
    if (pod.starts_with(kKind)) pod.remove_prefix(kKind.size());
    LogMessage message;
    message.part = "row";
    message.subject = fmt::format("pod {} ", pod);
    message.is_vague = true;  // a row does not name the container
    message.add("who", "Kubernetes");
    message.add("pod", pod);
    // A logger's prefix has other characters.
    if (i == 3 && words[0].find_first_not_of(kOfNames) == words[0].npos) message.add("namespace", words[0]);
    return message;
  }
  return std::nullopt;
}

// "robots  5m  Warning  Evicted  pod/redis-0  The node was low …" of `kubectl get events`. Only with
// --all-namespaces has it the namespace. kubectl may break the line before the request.
void add_evicted_pod(std::string_view line, LogMessage& message) {
  message.may_go_on = !message.bytes("request_bytes");
  const auto words = split_words(line.substr(0, line.find("The node was low")));
  constexpr std::string_view kKind = "pod/";
  if (words.size() < 3 || !words.back().starts_with(kKind) || words[words.size() - 2] != "Evicted") return;
  message.add("pod", words.back().substr(kKind.size()));
  if (words.size() == 5) message.add("namespace", words[0]);
}

// A message of another eviction is not the rest of this one.
bool tells_one_eviction(std::string_view line) {
  constexpr std::string_view kBegin = "The node was low on resource";
  return line.find(kBegin) == line.rfind(kBegin);
}

constexpr std::string_view kContainersText = R"rules(
cures report-and-need
  cure read the kernel's report of the kill => journalctl -k | headroom doctor -
  cure measure how much memory it needs => headroom trace -- COMMAND

rule container-kill
  flags from_outside repeats_kills
  derive derive_container
  line "container oom " -> who=Docker; add=shorten_id
    figures name={container:word}
  line OOMKilled -> who=Docker; part=killed; add=add_limits
    any "OOMKilled": true || "OOMKilled":true || OOMKilled=true || OOMKilled: true
    figures ""Name": "/{container}"" || ""Name":"/{container}""
  # Behind "OOMKilled", "Dead" and "Pid". If OOMKilled is false, another process sent the signal.
  line "ExitCode":{exit_code:int=137} -> part=exit code
    figures ""Name": "/{container}"" || ""Name":"/{container}""
  line ""Name": "/{container}"" -> part=name; is_vague; is_addition
  line ""Name":"/{container}"" -> part=name; is_vague; is_addition
  line "Memory": -> part=memory; is_vague; is_addition; add=add_limits
  line "MemorySwap": -> part=swap; is_vague; is_addition; add=add_limits
  # The container had not started its program yet.
  line OOM: the memory limit could be too low -> who=crun; add=shorten_id
  line container init was OOM-killed -> who=runc; add=shorten_id
  # containerd's log up to 1.6, since 1.7; `ctr events`; an event without the container.
  line "TaskOOM event " && ContainerID: -> who=containerd; part=event; add=shorten_id
    figures ContainerID:{container},
  line "TaskOOM event " && container_id: -> who=containerd; part=event; add=shorten_id
    figures container_id:\"{container}\" || container_id:"{container}"
  line /tasks/oom && " {"container_id":" -> who=containerd; add=shorten_id
    figures _id":"{container}"
  line /tasks/oom && events.TaskOOM -> who=containerd; part=forwarded; is_vague; add=shorten_id
  line "conmon {:word} <ninfo>: OOM " && " received$" -> who=conmon; add=shorten_id
    figures "conmon {container:word} <ninfo>: OOM "
  finding process-killed warning possible when !who
    title [[The container {container}]][[if !container:A container]] ended by SIGKILL (exit code 137)
    cause Docker does not report that memory ran out. The kernel may have killed a process in the container
          because the machine's memory was full. `docker stop` and `docker kill` end a container in the same
          way.
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
  finding process-killed-for-memory when who=runc
    cause The container reached its limit. Either the limit is smaller than the peak of its processes, or a
          process keeps growing.
    cure raise its limit: a container needs some MiB before its program starts => docker run --memory=SIZE
          IMAGE
    cure @report-and-need
  finding process-killed-for-memory when who=crun
    cure raise its limit: a container needs some MiB before its program starts => podman run --memory=SIZE
          IMAGE
    cure @report-and-need
  finding process-killed-for-memory when update
    cure raise its limit by a quarter, then check whether that is enough => {update}
    cure @report-and-need
  finding process-killed-for-memory possible
    cause The container reached its limit, or the machine had no memory left. The log does not say which.
    cure raise its limit => docker update --memory=SIZE --memory-swap=SIZE_WITH_SWAP
          {container:shell|CONTAINER}
    cure @report-and-need

rule kubernetes-kill
  flags from_outside repeats_kills
  read_first read_row
  # kubectl may break the line before the request.
  anchors OOMKilled || ""OOM Killed"" || "exceeds its request of "
  # The limit of `kubectl describe pod`: "Limits:", "  memory: 512Mi". A container without a limit has its
  # request or the next container's size first: these headings end the search.
  line ^Requests:$ -> subject="pod "; part=memory; is_vague; is_addition
  line ^Container ID: -> subject="pod "; part=memory; is_vague; is_addition
  line "^memory:  " -> subject="pod "; part=memory; is_vague; is_addition
    figures memory:  {limit_bytes:quantity}
  line "System OOM encountered, victim process: " -> who=Kubernetes; subject=node {victim}
    figures victim process: {victim}, || , pid: {pid:int}
  line SystemOOM && System OOM encountered -> who=Kubernetes; subject="node "; is_vague
  line System OOM encountered$ -> who=Kubernetes; subject="node "; is_vague
  line The node was low on resource: memory -> who=Kubernetes; eviction=node; subject={victim|};
        check=tells_one_eviction; add=add_evicted_pod
    figures Container {victim} was using || Threshold quantity: {threshold_bytes:quantity} || available:
          {available_bytes:quantity} || " was using {resident_bytes:quantity}" || request is
          {request_bytes:quantity} || exceeds its request of {request_bytes:quantity}
  line must evict pod(s) to reclaim -> who=Kubernetes; eviction=node
    any resourceName="memory" || reclaim memory
  line -> who=Kubernetes; subject="pod "; part=reason; is_vague; check=is_reason; add=add_labels
    any OOMKilled || ""OOM Killed""
  # Behind the reason in `kubectl describe`, before it in JSON and YAML. If the reason is not OOMKilled,
  # another process sent SIGKILL. Other programs print this key, too.
  line Exit Code:  {:int=137} -> told_by=Kubernetes; exit_code=137; subject="pod "; part=exit code; is_vague
  line "exitCode":{:int=137} -> exit_code=137; subject="pod "; part=exit code; is_vague
  line ^exitCode: {:int=137} -> exit_code=137; subject="pod "; part=exit code; is_vague
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
    cure @read-kernel-report
    cure @see-holders
    cure see the limit and the events of the pod => kubectl describe pod [[--namespace {namespace:shell}
          ]]{pod:shell}
  finding process-killed-for-memory possible
    cause The machine or the control group had no memory left. The log does not say which process held it.
    cure @read-kernel-report
    cure @see-holders
    cure see the limit and the events of the pod => kubectl describe pod [[--namespace {namespace:shell}
          ]]{pod:shell}

# The head of `kubectl describe pod`, and keys that only Kubernetes has.
rule kubernetes-context
  context_of kubernetes-kill
  line "^Name:   {pod}$"
  line "^Namespace:   {namespace}$"
  line "lastState": -> told_by=Kubernetes
  line ^lastState: -> told_by=Kubernetes
  line "containerStatuses": -> told_by=Kubernetes
  line "containerID": -> told_by=Kubernetes
  line "^- containerID: " -> told_by=Kubernetes
)rules";

}  // namespace

RuleFamily containers_rules() {
  return {kContainersText,
          {{"derive_container", derive_container},
           {"shorten_id", shorten_id},
           {"add_limits", add_limits},
           {"read_row", read_row},
           {"tells_one_eviction", tells_one_eviction},
           {"add_evicted_pod", add_evicted_pod},
           {"is_reason", is_reason},
           {"add_labels", add_labels}}};
}

}  // namespace headroom::doctor
