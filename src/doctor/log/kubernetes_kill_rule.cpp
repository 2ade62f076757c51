// Kubernetes tells of a container that was killed at its limit, and of pods that it evicted because their
// node was short of memory.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_kill_cures.h"
#include "doctor/log/pod_names.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// Before the names in messages' subjects: what tells no name goes with one of its kind.
constexpr std::string_view kOfNode = "node ";

// kube-state-metrics': a gauge for each reason, 1 of the one that it was.
constexpr std::string_view kOfMetric = "_reason{";

// "reason: OOMKilled", "\"reason\": \"OOMKilled\",", "reason=OOMKilled" and "Reason:       OOMKilled": a key
// and its value, not words that name it. A metric has the reason as a label, and counts.
bool is_reason(std::string_view line) {
  const std::size_t at = line.find("OOMKilled");
  std::string_view before = line.substr(0, at);
  const std::string_view rest = line.substr(at + std::string_view("OOMKilled").size());
  if (before.ends_with('"')) before.remove_suffix(1);
  before = trim(before);
  if (!before.ends_with(':') && !before.ends_with('=')) return false;
  before.remove_suffix(1);
  if (before.ends_with('"')) before.remove_suffix(1);
  if (!before.ends_with("eason")) return false;
  if (!has(line, kOfMetric)) return true;
  const auto value = split_words(text_after(rest, "}").value_or(""));
  return !value.empty() && value[0] == "1";
}

// `detector` of `…_reason{namespace="robots",pod="det-0",container="detector",reason="OOMKilled"} 1`.
std::string_view label_of(std::string_view line, std::string_view label) {
  for (const char before : {'{', ','})
    if (const auto value = text_after(line, fmt::format("{}{}=\"", before, label)))
      return value->substr(0, value->find('"'));
  return {};
}

void read_labels(std::string_view line, LogMessage& message) {
  if (!has(line, kOfMetric)) return;
  for (const std::string_view label : {"namespace", "pod", "container"})
    message.add(label, label_of(line, label));
}

// "detector-7d9f-abcde     0/1     OOMKilled   3 (25s ago)   2m11s": a row of `kubectl get pods`, or of
// `kubectl get all` with "pod/" before the name, which `kubectl describe pod` refuses; with --all-namespaces
// the namespace stands before it.
struct PodRow {
  std::string_view pod, name_space;
};
std::optional<PodRow> pod_of_row(std::string_view line) {
  const auto words = split_words(line);
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i] != "OOMKilled") continue;
    const std::string_view ready = words[i - 1];
    const std::size_t slash = ready.find('/');
    const bool is_ready = slash != ready.npos && slash > 0 && slash + 1 < ready.size() &&
                          ready.find_first_not_of("0123456789/") == ready.npos;
    if (!is_ready) continue;
    PodRow row{words[i - 2], {}};
    constexpr std::string_view kKind = "pod/", kOfNames = "abcdefghijklmnopqrstuvwxyz0123456789-";
    if (row.pod.starts_with(kKind)) row.pod.remove_prefix(kKind.size());
    // What a logger puts before a row has other letters in it.
    if (i == 3 && words[0].find_first_not_of(kOfNames) == words[0].npos) row.name_space = words[0];
    return row;
  }
  return std::nullopt;
}

// `"exitCode": 137,` before the reason (JSON, YAML), "Exit Code:    137" behind it (`kubectl describe`):
// where that is not OOMKilled, somebody ended the container by SIGKILL. JSON and YAML of other programs have
// the key, too.
std::optional<LogMessage> read_exit_code(std::string_view line) {
  constexpr std::int64_t kBlock = 4;  // of lines: "exitCode", "finishedAt", "message", "reason"
  LogMessage message;
  auto code = integer_after(line, "Exit Code:  ");
  if (code) {
    message.lines_from_whole = kBlock;
    message.add("told_by", kKubernetes);
  } else {
    code = integer_after(line, "\"exitCode\":");
    if (constexpr std::string_view kOfYaml = "exitCode: "; trim(line).starts_with(kOfYaml))
      code = integer_after(line, kOfYaml);
    message.lines_to_whole = kBlock;
    if (has(line, "\"containerID\"") || has(line, "\"containerStatuses\"") || has(line, "\"lastState\""))
      message.add("told_by", kKubernetes);
  }
  if (code != 137) return std::nullopt;
  message.subject = message.part = kPodExitCode;
  message.add("exit_code", code);
  return message;
}

// "robots  5m  Warning  Evicted  pod/redis-0  The node was low …" of `kubectl get events`, which has the
// namespace with --all-namespaces only.
void read_pod_of_event(std::string_view before, LogMessage& message) {
  const auto words = split_words(before);
  constexpr std::string_view kKind = "pod/";
  if (words.size() < 3 || !words.back().starts_with(kKind) || words[words.size() - 2] != "Evicted") return;
  message.add("pod", words.back().substr(kKind.size()));
  if (words.size() == 5) message.add("namespace", words[0]);
}

std::optional<LogMessage> read_kubernetes(std::string_view line) {
  LogMessage message;
  // kubelet's: "System OOM encountered, victim process: infer, pid: 99123"
  if (const auto name = text_after(line, "System OOM encountered, victim process: ")) {
    message.add("who", kKubernetes);
    const std::string_view victim = name->substr(0, name->find(','));
    message.subject = fmt::format("{}{}", kOfNode, victim);
    message.add("victim", victim);
    message.add("pid", integer_after(line, ", pid: "));
    return message;
  }
  // As older versions and a node's events have it: "Warning  SystemOOM  17m  kubelet, node1  System OOM
  // encountered".
  if (has(line, "System OOM encountered")) {
    if (!has(line, "SystemOOM") && !trim(line).ends_with("System OOM encountered")) return std::nullopt;
    message.add("who", kKubernetes);
    message.subject = kOfNode;
    message.is_vague = true;
    return message;
  }
  // "The node was low on resource: memory. Threshold quantity: 100Mi, available: 92112Ki. Container detector
  // was using 3012340Ki, request is 0, has larger consumption of memory."
  if (auto evicted = text_after(line, "The node was low on resource: memory")) {
    evicted = evicted->substr(0, evicted->find("The node was low on resource"));
    message.add("who", kKubernetes);
    message.add("eviction", "node");
    read_pod_of_event(line.substr(0, line.find("The node was low")), message);
    if (const auto container = text_after(*evicted, "Container ")) {
      message.subject = container->substr(0, container->find(' '));
      message.add("victim", message.subject);
    }
    message.add("threshold_bytes", quantity_after(*evicted, "Threshold quantity: "));
    message.add("available_bytes", quantity_after(*evicted, "available: "));
    message.add("resident_bytes", quantity_after(*evicted, " was using "));
    const auto request = quantity_after(*evicted, "request is ");
    message.add("request_bytes", request ? request : quantity_after(*evicted, "exceeds its request of "));
    message.may_go_on = !message.bytes("request_bytes");  // kubectl breaks it
    return message;
  }
  // kubelet, before it chooses whom: "Eviction manager: must evict pod(s) to reclaim" resourceName="memory"
  if (has(line, "must evict pod(s) to reclaim")) {
    if (!has(line, "resourceName=\"memory\"") && !has(line, "reclaim memory")) return std::nullopt;
    message.add("who", kKubernetes);
    message.add("eviction", "node");
    return message;
  }
  // False, with a reason of its own.
  if (has(line, "OOMKilled=false") || has(line, "OOMKilled: false")) return std::nullopt;
  const auto pod = has(line, "OOMKilled") ? pod_of_row(line) : std::nullopt;
  const bool is_told =
      (has(line, "OOMKilled") && is_reason(line)) || has(line, "\"reason\": \"OOM Killed\"");  // 2014
  if (!pod && !is_told) return read_exit_code(line);
  message.add("who", kKubernetes);
  message.subject = kOfPod;
  message.part = pod ? "row" : kPodReason;
  message.is_vague = true;  // of which container a row does not tell
  if (pod) {
    message.subject = subject_of_pod(pod->pod, {});
    message.add("pod", pod->pod);
    message.add("namespace", pod->name_space);
  } else {
    read_labels(line, message);
  }
  return message;
}

// What `kubectl describe pod` says of the container behind "Reason: OOMKilled": "Limits:", "  memory: 512Mi".
// Where it has no limit the first size would be what it requests, or the next container's: their headings end
// the search.
std::optional<LogMessage> read_limit(std::string_view line) {
  const std::string_view text = trim(line);
  LogMessage message;
  message.subject = kOfPod;
  message.is_vague = true;  // it goes with a row of that pod, too
  message.is_addition = true;
  message.part = "memory";
  if (text == "Requests:" || text.starts_with("Container ID:")) return message;
  constexpr std::string_view kMemory = "memory:  ";
  if (!text.starts_with(kMemory)) return std::nullopt;
  message.add("limit_bytes", leading_quantity(text.substr(kMemory.size())));
  return message;
}

// A pod has more names than its container; what it asked for is what the scheduler keeps free for it.
Finding explain_eviction(const LogMessage& message, Finding finding) {
  const auto held = message.bytes("resident_bytes"), available = message.bytes("available_bytes"),
             request = message.bytes("request_bytes");
  const std::string victim = message.text("victim"), pod = message.text("pod");
  finding.title = fmt::format("Kubernetes evicted {}{}: its node ran low on memory",
                              pod.empty() ? "a pod" : "the pod " + pod,
                              victim.empty() ? "" : fmt::format(" (container {})", victim));
  finding.cause = fmt::format(
      "The node had {} available{}{}. Kubernetes first evicts pods that use more than they requested.",
      words_for(available, "too little"),
      held ? fmt::format(", and the container held {}", format_bytes(*held)) : "",
      held && request ? fmt::format(" and had requested {}",
                                    request->count > 0 ? format_bytes(*request) : std::string("nothing"))
                      : "");
  finding.confidence = Confidence::certain;
  const std::string size =
      held && !is_impossible(*held) ? fmt::format("{}Mi", held->count / 4 * 5 / mebibytes(1).count) : "SIZE";
  finding.cures = {
      {"request as much as the container needs, so that Kubernetes picks a node with that much free",
       set_pod_memory("requests", size, message.text("namespace"), victim),
       {}},
      {"see which pods hold the node's memory", "kubectl top pods --all-namespaces --sort-by=memory", {}}};
  return finding;
}

// "The container detector of the pod det-0", as far as it is told.
std::string container_words(const LogMessage& message) {
  const std::string container = message.text("container"), pod = message.text("pod");
  return fmt::format("{}{}", container.empty() ? "A container" : "The container " + container,
                     pod.empty() ? "" : " of the pod " + pod);
}

std::string describe_pod(const LogMessage& message) {
  const std::string name_space = message.text("namespace");
  return fmt::format("kubectl describe pod {}{}",
                     name_space.empty() ? "" : fmt::format("--namespace {} ", shell_word(name_space)),
                     shell_word(message.text("pod")));
}

Finding explain_exit(const LogMessage& message, Finding finding) {
  const std::string pod = message.text("pod");
  finding.id = "process-killed";
  finding.severity = Severity::warning;
  if (message.text("told_by").empty()) {
    finding.title = "A program or a container ended by SIGKILL (exit code 137)";
    finding.cause =
        "The kernel sends SIGKILL when memory runs out. Users, supervisors and schedulers send it too. The "
        "log does not say who sent the signal.";
    finding.confidence = Confidence::possible;
    finding.cures = {
        {"check whether the kernel's OOM killer did it", "journalctl -k | headroom doctor -", {}}};
    return finding;
  }
  finding.title = fmt::format("{} ended by SIGKILL (exit code 137)", container_words(message));
  finding.cause =
      "Kubernetes does not report that the container reached its limit. The kernel may have killed it "
      "because the node's memory was full. Kubernetes also kills after a failed liveness probe or a slow "
      "shutdown.";
  finding.confidence = Confidence::possible;
  finding.cures = {{"see the events of the pod",
                    pod.empty() ? std::string("kubectl describe pod POD") : describe_pod(message),
                    {}},
                   {"read the kernel's report on the pod's node", "journalctl -k | headroom doctor -", {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  const std::string victim = message.text("victim"), pod = message.text("pod");
  Finding finding;
  finding.id = "process-killed-for-memory";
  finding.severity = Severity::severe;
  if (message.text("who").empty()) return explain_exit(message, std::move(finding));
  if (!message.text("eviction").empty()) return explain_eviction(message, finding);
  const auto limit = message.bytes("limit_bytes");
  const std::string name = !victim.empty()
                               ? fmt::format("{} (process {})", victim, message.number("pid").value_or(0))
                           : !pod.empty() || !message.text("container").empty() ? container_words(message)
                                                                                : "A process";
  finding.title = fmt::format("{} was killed because memory ran out (reported by {}){}", name, kKubernetes,
                              limit ? fmt::format(": its limit was {}", format_bytes(*limit)) : "");
  finding.cause =
      "The machine or the control group had no memory left. The log does not say which process held it.";
  finding.confidence = Confidence::possible;
  finding.cures = {{"read the kernel's report of the kill", "journalctl -k | headroom doctor -", {}},
                   {"see which processes hold the memory", "headroom top", {}}};
  if (!pod.empty())
    finding.cures.push_back({"see the limit and the events of the pod", describe_pod(message), {}});
  if (!limit || is_impossible(*limit)) return finding;
  finding.cause =
      "The container reached its limit. Either the limit is smaller than the peak of its processes, or a "
      "process keeps growing.";
  finding.confidence = Confidence::likely;
  const std::int64_t larger = std::max<std::int64_t>(1, limit->count / 4 * 5 / mebibytes(1).count);
  finding.cures.insert(finding.cures.begin(),
                       {"raise its limit by a quarter, then check whether that is enough",
                        set_pod_memory("limits", fmt::format("{}Mi", larger), message.text("namespace"),
                                       message.text("container")),
                        {}});
  return finding;
}

std::optional<LogMessage> read(std::string_view line) {
  for (const auto& read_form : {read_pod_names, read_limit, read_kubernetes})
    if (auto message = read_form(line)) return message;
  return std::nullopt;
}

constexpr std::string_view kName = "kubernetes-kill";

}  // namespace

LogRule kubernetes_kill_rule() {
  LogRule rule{kName,
               {"System OOM encountered",
                "OOMKilled",
                "\"OOM Killed\"",
                "low on resource: memory",
                "pod(s) to reclaim",
                "exceeds its request of ",
                "Requests:",
                "Container ID:",
                "memory:  ",
                "\"exitCode\": 137",
                "\"exitCode\":137",
                "exitCode: 137",
                "Exit Code:    137",
                "Name:   ",
                "Namespace:   ",
                "Containers:",
                "\"kind\": \"Pod\"",
                "kind: Pod",
                "containerStatuses",
                "containerID"},
               read,
               explain};
  rule.from_outside = rule.repeats_kills = true;
  rule.read_behind = read_names_behind;
  rule.lines_behind = 100;  // a container's state, volumes and limits
  return rule;
}

}  // namespace headroom::doctor
