// Docker and the runtimes below it tell of a container that was killed for want of memory.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr const char *kDocker = "Docker", *kRunc = "runc", *kContainerd = "containerd", *kPodman = "conmon",
                     *kNomad = "Nomad", *kCrun = "crun";

LogMessage killed_container(std::string_view who, std::string_view container) {
  constexpr std::size_t kShown = 12;  // of an identifier of 64 digits
  constexpr std::size_t kIdentifier = 64;
  LogMessage message;
  const bool is_identifier = container.size() == kIdentifier;
  message.subject = container.substr(0, is_identifier ? kShown : container.size());
  message.add("who", who);
  message.add("container", message.subject);
  return message;
}

std::string_view word_at(std::string_view text) {
  return text.substr(0, std::min(text.find_first_of(" ,}\\\"()"), text.size()));
}

// What stands behind `"key":` in a line of JSON.
std::optional<std::string_view> value_of(std::string_view line, std::string_view key) {
  const auto rest = text_after(line, fmt::format("\"{}\":", key));
  return rest ? std::optional(trim(*rest)) : std::nullopt;
}

std::string_view name_in(std::string_view line) {
  const auto value = value_of(line, "Name");
  return value && value->starts_with("\"/") ? word_at(value->substr(2)) : std::string_view();
}

// Zero, and below it, is no limit.
void add_limit(LogMessage& message, std::string_view line, std::string_view key, std::string_view figure) {
  const auto value = value_of(line, key);
  if (const auto limit = value ? integer_after(*value, "") : std::nullopt; limit && *limit > 0)
    message.add(figure, Bytes{*limit});
}

void add_limits(LogMessage& message, std::string_view line) {
  add_limit(message, line, "Memory", "limit_bytes");
  add_limit(message, line, "MemorySwap", "memory_and_swap_limit_bytes");
}

// `docker events`, and `docker inspect`, its words without quotation marks where a format was asked for, all
// in a line where that was JSON's.
std::optional<LogMessage> read_docker(std::string_view line) {
  if (const auto oom = text_after(line, "container oom ")) {
    const auto name = text_after(*oom, "name=");
    return killed_container(kDocker, name ? word_at(*name) : std::string_view());
  }
  if (!has(line, "\"OOMKilled\": true") && !has(line, "\"OOMKilled\":true") && !has(line, "OOMKilled=true") &&
      !has(line, "OOMKilled: true"))
    return std::nullopt;
  LogMessage message = killed_container(kDocker, {});
  message.part = "killed";
  message.add("container", name_in(line));
  add_limits(message, line);
  return message;
}

// "ExitCode": 137 of `docker inspect`, behind whether it was for want of memory: where it was not, or Docker
// does not know it, somebody ended it by SIGKILL.
std::optional<LogMessage> read_exit_code(std::string_view line) {
  const auto value = value_of(line, "ExitCode");
  if (!value || integer_after(*value, "") != 137) return std::nullopt;
  LogMessage message;
  message.subject = message.part = "exit code";
  message.lines_from_whole = 4;  // "OOMKilled", "Dead", "Pid", "ExitCode"
  message.add("container", name_in(line));
  message.add("exit_code", std::optional<std::int64_t>(137));
  return message;
}

// What `docker inspect` says on later lines of the container whose state told of it: "Name": "/detector",
// "Memory": 536870912, "MemorySwap": 1073741824.
std::optional<LogMessage> read_inspected(std::string_view line) {
  LogMessage message;
  message.is_addition = message.is_vague = true;
  if (const std::string_view name = name_in(line); !name.empty()) {
    message.part = "name";
    message.add("container", name);
    return message;
  }
  message.part = value_of(line, "Memory") ? "memory" : "swap";
  if (!value_of(line, "Memory") && !value_of(line, "MemorySwap")) return std::nullopt;
  add_limits(message, line);
  return message;
}

// "container init was OOM-killed (memory limit too low?)": before the program itself has begun.
// crun's: "OOM: the memory limit could be too low: read from the init process".
std::optional<LogMessage> read_runc(std::string_view line) {
  if (has(line, "OOM: the memory limit could be too low")) return killed_container(kCrun, {});
  if (!has(line, "container init was OOM-killed")) return std::nullopt;
  return killed_container(kRunc, {});
}

// "msg="event forwarded" ns=k8s.io topic=/tasks/oom type=containerd.events.TaskOOM", which does not tell of
// which; `ctr events`: "… default /tasks/oom {"container_id":"4f2a9c…"}".
std::optional<LogMessage> read_events_of_containerd(std::string_view line) {
  const auto event = text_after(line, "/tasks/oom");
  if (!event) return std::nullopt;
  if (const auto id = text_after(*event, " {\"container_id\":\""))
    return killed_container(kContainerd, word_at(*id));
  if (!has(*event, "events.TaskOOM")) return std::nullopt;
  LogMessage message = killed_container(kContainerd, {});
  message.is_vague = true;
  message.part = "forwarded";
  return message;
}

// "msg="TaskOOM event &TaskOOM{ContainerID:4f2a9c…,XXX_unrecognized:[],}"", since 1.7 "msg="TaskOOM event
// container_id:\"4f2a9c…\""".
std::optional<LogMessage> read_containerd(std::string_view line) {
  const auto event = text_after(line, "TaskOOM event ");
  if (!event) return std::nullopt;
  for (const std::string_view key : {"ContainerID:", "container_id:"})
    if (auto id = text_after(*event, key)) {
      id = id->substr(std::min(id->find_first_not_of("\\\""), id->size()));
      LogMessage message = killed_container(kContainerd, word_at(*id));
      message.part = "event";
      return message;
    }
  return std::nullopt;
}

// Podman's and CRI-O's: "conmon 4f2a9c <ninfo>: OOM event received", "conmon[812]: conmon 4f2a9c <ninfo>: OOM
// received".
std::optional<LogMessage> read_conmon(std::string_view line) {
  const std::size_t end = line.find(" <ninfo>: OOM ");
  if (end == line.npos || !line.substr(end).ends_with(" received")) return std::nullopt;
  const std::string_view before = line.substr(0, end);
  const std::size_t begin = before.rfind("conmon ");
  if (begin == before.npos) return std::nullopt;
  return killed_container(kPodman, before.substr(begin + std::string_view("conmon ").size()));
}

std::optional<LogMessage> read_nomad(std::string_view line) {
  if (!has(line, "Exit Message: \"OOM Killed\"")) return std::nullopt;
  return killed_container(kNomad, {});
}

std::optional<LogMessage> read(std::string_view line) {
  for (const auto& read_form : {read_docker, read_exit_code, read_inspected, read_runc, read_containerd,
                                read_events_of_containerd, read_conmon, read_nomad})
    if (auto message = read_form(line)) return message;
  return std::nullopt;
}

// By whoever made the container; a quarter more is a first try.
Cure larger_limit(const LogMessage& message) {
  const std::string who = message.text("who"), container = message.text("container");
  const std::string name = container.empty() ? "CONTAINER" : shell_word(container);
  if (who == kNomad)
    return {"raise its limit", "resources { memory_max = SIZE_IN_MB }  # of the task, in its job", {}};
  if (who == kContainerd) return {"see its limit, and which container it is", "crictl inspect " + name, {}};
  if (who == kPodman) return {"raise its limit", "podman update --memory=SIZE " + name, {}};
  if (who == kRunc || who == kCrun)
    return {"raise its limit: a container needs some MiB before its program starts",
            fmt::format("{} run --memory=SIZE IMAGE", who == kRunc ? "docker" : "podman"),
            {}};
  const auto limit = message.bytes("limit_bytes");
  if (!limit || is_impossible(*limit))
    return {"raise its limit",
            fmt::format("docker update --memory=SIZE --memory-swap=SIZE_WITH_SWAP {}", name),
            {}};
  const ContainerLimit larger{std::max<std::int64_t>(1, limit->count / 4 * 5 / mebibytes(1).count), *limit,
                              message.bytes("memory_and_swap_limit_bytes")};
  return {"raise its limit by a quarter, then check whether that is enough", docker_update(larger, name), {}};
}

Finding explain_exit(const LogMessage& message) {
  const std::string container = message.text("container");
  Finding finding;
  finding.id = "process-killed";
  finding.severity = Severity::warning;
  finding.title = fmt::format("{} ended by SIGKILL (exit code 137)",
                              container.empty() ? "A container" : "The container " + container);
  finding.cause =
      "Docker does not report that memory ran out. The kernel may have killed a process in the container "
      "because the machine's memory was full. `docker stop` and `docker kill` end a container in the same "
      "way.";
  finding.confidence = Confidence::possible;
  finding.cures = {{"check whether the kernel's OOM killer did it", "journalctl -k | headroom doctor -", {}},
                   {"check whether `docker kill` or `docker stop` ended it",
                    "docker events --since 24h --until 0s --filter event=kill",
                    {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  if (message.text("who").empty()) return explain_exit(message);
  const std::string who = message.text("who"), container = message.text("container");
  const auto limit = message.bytes("limit_bytes");
  Finding finding;
  finding.id = "process-killed-for-memory";
  finding.severity = Severity::severe;
  finding.title = fmt::format("{} was killed because memory ran out (reported by {}){}",
                              container.empty() ? "A container" : "The container " + container, who,
                              limit ? fmt::format(": its limit was {}", format_bytes(*limit)) : "");
  finding.confidence = Confidence::possible;
  finding.cause =
      "The container reached its limit, or the machine had no memory left. The log does not say which.";
  if (limit || who == kRunc || who == kCrun) {
    finding.cause =
        "The container reached its limit. Either the limit is smaller than the peak of its processes, or a "
        "process keeps growing.";
    finding.confidence = Confidence::likely;
  }
  finding.cures = {larger_limit(message),
                   {"read the kernel's report of the kill", "journalctl -k | headroom doctor -", {}},
                   {"measure how much memory it needs", "headroom trace -- COMMAND", {}}};
  return finding;
}

}  // namespace

LogRule container_kill_rule() {
  LogRule rule{"container-kill",
               {"container oom ", "OOMKilled", "\"Name\": \"/", "\"Name\":\"/", "\"Memory\":",
                "\"MemorySwap\":", "init was OOM-killed", "TaskOOM event ", "/tasks/oom", "<ninfo>: OOM ",
                "Exit Message: \"OOM", "OOM: the memory limit", "\"ExitCode\": 137", "\"ExitCode\":137"},
               read,
               explain};
  rule.from_outside = rule.repeats_kills = true;
  return rule;
}

}  // namespace headroom::doctor
