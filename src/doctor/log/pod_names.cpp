// Names of pods and containers, as kubectl prints them.
#include "doctor/log/pod_names.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_kill_cures.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// LogMessage::part of lines with names.
constexpr std::string_view kPodNames = "names", kNewPod = "new pod", kNewContainer = "new container",
                           kHeadings = "headings", kHeading = "heading";

LogMessage names(std::string_view part) {
  LogMessage message;
  message.part = part;
  message.is_addition = true;
  message.lines_to_whole = 1;  // it belongs to a later message, at any distance
  return message;
}

bool is_name(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-.";
  return !text.empty() && text.find_first_not_of(kLetters) == text.npos;
}

// The value behind `"key": ` or `key: `.
std::optional<std::string_view> value_of(std::string_view text, std::string_view key) {
  const bool is_json = text.starts_with('"');
  if (is_json) text.remove_prefix(1);
  const std::string_view colon = is_json ? "\":" : ":";
  if (!text.starts_with(key) || !text.substr(key.size()).starts_with(colon)) return std::nullopt;
  return trim(text.substr(key.size() + colon.size()));
}

// "det-0" of `"name": "det-0",` and of "name: det-0"; empty if it is no Kubernetes name.
std::string_view name_of(std::string_view text, std::string_view key) {
  std::string_view value = value_of(text, key).value_or("");
  if (value.ends_with(',')) value.remove_suffix(1);
  if (value.size() > 1 && value.starts_with('"') && value.ends_with('"'))
    value = value.substr(1, value.size() - 2);
  return is_name(value) ? value : std::string_view();
}

// The head of `kubectl describe pod`: "Name:             detector-7d9f8c-abcde", "Namespace:        robots".
// Behind "Containers:", the names of containers are headings.
std::optional<LogMessage> read_head(std::string_view line) {
  if (trim(line) == "Containers:" || trim(line) == "Init Containers:") return names(kHeadings);
  constexpr std::string_view kName = "Name:   ", kSpace = "Namespace:   ";
  const bool is_pod = line.starts_with(kName);
  if (!is_pod && !line.starts_with(kSpace)) return std::nullopt;
  const std::string_view value = trim(line.substr(is_pod ? kName.size() : kSpace.size()));
  if (!is_name(value)) return std::nullopt;
  LogMessage message = names(is_pod ? kNewPod : kPodNames);
  message.add(is_pod ? "pod" : "namespace", value);
  return message;
}

// `"kind": "Pod",`, `"containerStatuses": [`, "- containerID: containerd://4f2a" in JSON and YAML of
// Kubernetes.
std::optional<LogMessage> read_key(std::string_view line) {
  std::string_view text = trim(line);
  const bool is_element = text.starts_with("- ");
  if (is_element) text = trim(text.substr(2));
  std::string_view part = is_element ? kNewContainer : kPodNames;
  if (const auto kind = value_of(text, "kind"); kind && (*kind == "Pod" || *kind == "\"Pod\","))
    part = kNewPod;
  else if (value_of(text, "containerStatuses"))
    part = kNewContainer;
  else if (!value_of(text, "containerID"))
    return std::nullopt;
  LogMessage message = names(part);
  message.add("told_by", kKubernetes);
  return message;
}

// "  detector:" of `kubectl describe pod`.
std::optional<LogMessage> read_heading(std::string_view line) {
  if (!line.starts_with("  ")) return std::nullopt;
  const std::string_view text = line.substr(2, line.find_last_not_of(" \r") - 1);
  if (!text.ends_with(':') || !is_name(text.substr(0, text.size() - 1))) return std::nullopt;
  LogMessage message = names(kHeading);
  message.add("container", text.substr(0, text.size() - 1));
  return message;
}

// `"lastState": {` in JSON and YAML of Kubernetes.
std::optional<LogMessage> read_context(std::string_view line) {
  if (!value_of(trim(line), "lastState")) return std::nullopt;
  LogMessage message;
  message.add("told_by", kKubernetes);
  return message;
}

}  // namespace

std::optional<LogMessage> read_pod_names(std::string_view line) {
  auto head = read_head(line);
  return head ? head : read_key(line);
}

std::optional<LogMessage> read_names_behind(std::string_view line) {
  if (auto heading = read_heading(line)) return heading;
  std::string_view text = trim(line);
  const bool is_element = text == "{" || text.starts_with("- ");
  if (text.starts_with("- ")) text = trim(text.substr(2));
  LogMessage message = names(is_element ? kNewContainer : kPodNames);
  message.add("name", name_of(text, "name"));
  message.add("namespace", name_of(text, "namespace"));
  if (is_element || !message.figures.empty()) return message;
  // `"metadata": { "name": "det-0", "namespace": "robots" },`
  const auto metadata = value_of(text, "metadata");
  if (!metadata || !metadata->starts_with("{ ")) return std::nullopt;
  const auto quoted = [&](std::string_view key) {
    const auto value = text_after(*metadata, key);
    const std::string_view name = value ? value->substr(0, value->find('"')) : std::string_view();
    return is_name(name) ? name : std::string_view();
  };
  message.add("pod", quoted("\"name\": \""));
  message.add("namespace", quoted("\"namespace\": \""));
  return message;
}

std::string subject_of_pod(std::string_view pod, std::string_view container) {
  std::string subject(kOfPod);
  for (const std::string_view name : {pod, container})
    if (!name.empty()) subject.append(name).append(" ");
  return subject;
}

bool PodNames::are_told_by(const LogMessage& message) {
  return message.is_addition && message.lines_to_whole > 0;
}

void PodNames::begin(const LogMessage& line, const LogPlace& at) {
  const bool is_new_pod = line.part == kNewPod;
  if (at.file != file_ || is_new_pod) *this = {};
  file_ = at.file;
  if (is_new_pod) waits_for_pod_ = line.text("pod").empty();
  if (line.part == kHeadings) has_headings_ = true;
  if (line.part != kNewContainer && line.part != kHeading && line.part != kHeadings) return;
  container_.clear();
  waiting_.reset();
}

void PodNames::set_container(const std::string& name, std::int64_t line) {
  container_ = name;
  container_line_ = line;
}

// The first name of a pod is its own, or a label's before that. Later names are of containers.
void PodNames::read_name(const std::string& name, std::int64_t line) {
  last_name_ = name;
  last_name_line_ = line;
  if (std::exchange(waits_for_pod_, false))
    pod_ = name;
  else
    set_container(name, line);
}

// Keys are sorted: a pod's name stands right before its namespace.
void PodNames::read_namespace(const std::string& name, std::int64_t line) {
  namespace_ = name;
  if (last_name_.empty() || line != last_name_line_ + 1) return;
  pod_ = last_name_;
  container_.clear();
}

std::optional<std::size_t> PodNames::read(const LogMessage& line, const LogPlace& at) {
  begin(line, at);
  if (!line.text("told_by").empty()) is_of_kubernetes_ = true;
  if (const std::string pod = line.text("pod"); !pod.empty()) {
    pod_ = pod;
    waits_for_pod_ = false;
  }
  if (line.part == kHeading && has_headings_) set_container(line.text("container"), at.line);
  if (const std::string name_space = line.text("namespace"); !name_space.empty())
    read_namespace(name_space, at.line);
  const std::string name = line.text("name");
  if (name.empty()) return std::nullopt;
  read_name(name, at.line);
  return container_.empty() ? std::nullopt : std::exchange(waiting_, std::nullopt);
}

bool PodNames::knows_container(const LogPlace& at) const {
  constexpr std::int64_t kLongest = 100;  // lines about one container
  return !container_.empty() && at.line - container_line_ <= kLongest;
}

void PodNames::explain(LogMessage& message, const LogPlace& at) const {
  const bool is_reason = message.part == kPodReason, is_exit = message.part == kPodExitCode;
  const bool is_eviction = !message.text("eviction").empty();
  if (!is_reason && !is_exit && !is_eviction) return;
  if (at.file == file_ && message.text("pod").empty() && message.text("container").empty()) {
    message.add("pod", pod_);
    message.add("namespace", namespace_);
    if (!is_eviction && knows_container(at)) message.add("container", container_);
    if (is_exit && is_of_kubernetes_ && message.text("told_by").empty()) message.add("told_by", kKubernetes);
  }
  const std::string pod = message.text("pod"), container = message.text("container");
  if (is_eviction || pod.empty()) return;
  message.subject = subject_of_pod(pod, container);
  if (is_exit) message.subject.insert(0, fmt::format("{} ", kPodExitCode));
  message.is_vague = is_reason && container.empty();
}

void PodNames::wait_for_container(const LogMessage& message, std::size_t group) {
  if (message.part != kPodReason && message.part != kPodExitCode) return;
  waiting_ = message.text("container").empty() ? std::optional(group) : std::nullopt;
}

LogRule kubernetes_context_rule() {
  LogRule rule{
      "kubernetes-context", {"lastState"}, read_context, [](const LogMessage&) { return Finding(); }};
  rule.context_of = "kubernetes-kill";
  return rule;
}

}  // namespace headroom::doctor
