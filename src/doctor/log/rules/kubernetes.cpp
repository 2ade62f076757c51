// Kubernetes reports that a container was killed at its limit, or that pods were evicted from a node that was
// short of memory. kubectl prints the names of pods and containers on other lines (pod_names.h).
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "doctor/log/common_cures.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_kill_cures.h"
#include "doctor/log/pod_names.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

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
    message.subject = subject_of_pod(pod, {});
    message.is_vague = true;  // a row does not name the container
    message.add("who", kKubernetes);
    message.add("pod", pod);
    // A logger's prefix has other characters.
    if (i == 3 && words[0].find_first_not_of(kOfNames) == words[0].npos) message.add("namespace", words[0]);
    return message;
  }
  return std::nullopt;
}

// `"exitCode": 137,` before the reason (JSON, YAML), "Exit Code:    137" behind it (`kubectl describe`). If
// the reason is not OOMKilled, another process sent SIGKILL. Other programs print this key, too.
std::optional<LogMessage> read_exit_code_of_pod(std::string_view line) {
  constexpr std::int64_t kBlock = 4;  // lines: "exitCode", "finishedAt", "message", "reason"
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

std::optional<LogMessage> read_pod_or_row(std::string_view line) {
  auto names = read_pod_names(line);
  return names ? names : read_row(line);
}

void derive_pod(LogMessage& message) {
  const std::string container = message.text("container"), pod = message.text("pod"),
                    name_space = message.text("namespace"), victim = message.text("victim");
  const std::string name =
      fmt::format("{}{}", container.empty() ? "A container" : "The container " + container,
                  pod.empty() ? "" : " of the pod " + pod);
  message.add("container_name", name);
  if (!victim.empty())
    message.add("name", fmt::format("{} (process {})", victim, message.number("pid").value_or(0)));
  else
    message.add("name", pod.empty() && container.empty() ? "A process" : name);
  if (!pod.empty()) {
    message.add("evicted", "the pod " + pod);
    message.add("describe",
                fmt::format("kubectl describe pod {}{}",
                            name_space.empty() ? "" : fmt::format("--namespace {} ", shell_word(name_space)),
                            shell_word(pod)));
  }
  const auto a_quarter_more = [&](const char* figure) {
    const auto bytes = message.bytes(figure);
    if (!bytes || is_impossible(*bytes)) return std::string("SIZE");
    return fmt::format("{}Mi", std::max<std::int64_t>(1, bytes->count / 4 * 5 / mebibytes(1).count));
  };
  if (!message.text("eviction").empty()) {
    message.add("set_request",
                set_pod_memory("requests", a_quarter_more("resident_bytes"), name_space, victim));
    if (const auto request = message.bytes("request_bytes"); request && message.bytes("resident_bytes"))
      message.add("request", request->count > 0 ? format_bytes(*request) : "nothing");
  } else if (const auto limit = message.bytes("limit_bytes"); limit && !is_impossible(*limit)) {
    message.add("set_limit", set_pod_memory("limits", a_quarter_more("limit_bytes"), name_space, container));
  }
}

}  // namespace

LogRule kubernetes_kill_rule() {
  constexpr LineTraits kVague{.is_vague = true};
  // The limit of `kubectl describe pod`: "Limits:", "  memory: 512Mi". A container without a limit has its
  // request or the next container's size first: these headings end the search.
  constexpr LineTraits kLimit{.is_vague = true, .is_addition = true};
  constexpr CureRow kSeePod{"see the limit and the events of the pod", "{describe}"};
  constexpr std::string_view kTitle =
      "{name} was killed because memory ran out (reported by Kubernetes)[[: its limit was {limit_bytes}]]";
  return {
      .name = "kubernetes-kill",
      .anchors = {"OOMKilled", "\"OOM Killed\"", "Name:   ", "Namespace:   ", "Containers:",
                  "\"kind\": \"Pod\"", "kind: Pod", "containerStatuses", "containerID", "\"exitCode\": 137",
                  "\"exitCode\":137", "exitCode: 137", "Exit Code:    137",
                  "exceeds its request of "},  // kubectl may break the line before it
      .read_first = read_pod_or_row,
      .from_outside = true,
      .repeats_kills = true,
      .read_behind = read_names_behind,
      .lines_behind = 100,  // a container's state, volumes and limits
      .wordings = {{.all = {"^Requests:$"}, .subject = kOfPod, .part = "memory", .traits = kLimit},
                   {.all = {"^Container ID:"}, .subject = kOfPod, .part = "memory", .traits = kLimit},
                   {.all = {"^memory:  "},
                    .figures = {"memory:  {limit_bytes:quantity}"},
                    .subject = kOfPod,
                    .part = "memory",
                    .traits = kLimit},
                   // kubelet's log; a node's events, and older versions.
                   {.all = {"System OOM encountered, victim process: "},
                    .figures = {"who=Kubernetes", "victim process: {victim},", ", pid: {pid:int}"},
                    .subject = "node {victim}"},
                   {.all = {"SystemOOM", "System OOM encountered"},
                    .figures = {"who=Kubernetes"},
                    .subject = "node ",
                    .traits = kVague},
                   {.all = {"System OOM encountered$"},
                    .figures = {"who=Kubernetes"},
                    .subject = "node ",
                    .traits = kVague},
                   {.all = {"The node was low on resource: memory"},
                    .figures = {"who=Kubernetes", "eviction=node", "Container {victim} was using",
                                "Threshold quantity: {threshold_bytes:quantity}",
                                "available: {available_bytes:quantity}",
                                " was using {resident_bytes:quantity}", "request is {request_bytes:quantity}",
                                "exceeds its request of {request_bytes:quantity}"},
                    .subject = "{victim|}",
                    .check = tells_one_eviction,
                    .add = add_evicted_pod},
                   // kubelet, before it picks a pod.
                   {.all = {"must evict pod(s) to reclaim"},
                    .any = {"resourceName=\"memory\"", "reclaim memory"},
                    .figures = {"who=Kubernetes", "eviction=node"}},
                   {.all = {},
                    .any = {"OOMKilled", "\"OOM Killed\""},
                    .figures = {"who=Kubernetes"},
                    .subject = kOfPod,
                    .part = kPodReason,
                    .traits = kVague,
                    .check = is_reason,
                    .add = add_labels},
                   {.all = {},
                    .any = {"Exit Code:", "exitCode"},
                    .check = [](std::string_view line) { return read_exit_code_of_pod(line).has_value(); },
                    .add = [](std::string_view line,
                              LogMessage& message) { message = *read_exit_code_of_pod(line); }}},
      .explanations =
          {{.when = "!who, !told_by",
            .id = "process-killed",
            .severity = Severity::warning,
            .confidence = Confidence::possible,
            .title = "A program or a container ended by SIGKILL (exit code 137)",
            .cause = kSigkillCause,
            .cures = {kCheckKernelLog}},
           {.when = "!who",
            .id = "process-killed",
            .severity = Severity::warning,
            .confidence = Confidence::possible,
            .title = "{container_name} ended by SIGKILL (exit code 137)",
            .cause = "Kubernetes does not report that the container reached its limit. The kernel may have "
                     "killed it because the node's memory was full. Kubernetes also kills after a failed "
                     "liveness probe or a slow shutdown.",
            .cures = {{"see the events of the pod", "{describe|kubectl describe pod POD}"},
                      {"read the kernel's report on the pod's node", "journalctl -k | headroom doctor -"}}},
           {.when = "eviction",
            .id = kKilledForMemory,
            .confidence = Confidence::certain,
            .title =
                "Kubernetes evicted {evicted|a pod}[[ (container {victim})]]: its node ran low on memory",
            .cause = "The node had {available_bytes|too little} available[[, and the container held "
                     "{resident_bytes}]][[ and had requested {request}]]. Kubernetes first evicts pods that "
                     "use more than they requested.",
            .cures = {{"request as much as the container needs, so that Kubernetes picks a node with that "
                       "much free",
                       "{set_request}"},
                      {"see which pods hold the node's memory",
                       "kubectl top pods --all-namespaces --sort-by=memory"}}},
           {.when = "set_limit",
            .id = kKilledForMemory,
            .title = kTitle,
            .cause = kContainerLimitCause,
            .cures = {{"raise its limit by a quarter, then check whether that is enough", "{set_limit}"},
                      kReadKernelReport,
                      kSeeHolders,
                      kSeePod}},
           {.id = kKilledForMemory,
            .confidence = Confidence::possible,
            .title = kTitle,
            .cause = kNoMemoryLeftCause,
            .cures = {kReadKernelReport, kSeeHolders, kSeePod}}},
      .derive = derive_pod};
}

}  // namespace headroom::doctor
