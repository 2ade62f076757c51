// Docker, containerd, runc, crun and Podman report that a container was killed because memory ran out.
#include <algorithm>
#include <string>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/common_cures.h"
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

Wording killed_container(std::vector<std::string_view> all, std::vector<std::string_view> figures,
                         std::string_view part = {}, LineTraits traits = {}) {
  return {.all = std::move(all),
          .figures = std::move(figures),
          .part = part,
          .traits = traits,
          .add = shorten_id};
}

void derive_container(LogMessage& message) {
  const std::string container = message.text("container");
  const std::string name = container.empty() ? "CONTAINER" : shell_word(container);
  message.add("name", container.empty() ? "A container" : "The container " + container);
  message.add("word", name);
  const auto limit = message.bytes("limit_bytes");
  if (!limit || is_impossible(*limit)) return;
  const std::int64_t larger = std::max<std::int64_t>(1, limit->count / 4 * 5 / mebibytes(1).count);
  message.add("update", docker_update({larger, *limit, message.bytes("memory_and_swap_limit_bytes")}, name));
}

Explanation killed_at_limit(std::string_view when, bool is_certainly_limit, const CureRow& raise) {
  return {.when = when,
          .id = kKilledForMemory,
          .confidence = is_certainly_limit ? Confidence::likely : Confidence::possible,
          .title =
              "{name} was killed because memory ran out (reported by {who})[[: its limit was {limit_bytes}]]",
          .cause = is_certainly_limit ? kContainerLimitCause
                                      : "The container reached its limit, or the machine had no memory left. "
                                        "The log does not say which.",
          .cures = {raise, kReadKernelReport, kMeasureNeed}};
}

}  // namespace

LogRule container_kill_rule() {
  constexpr std::string_view kName = "\"Name\": \"/{container}\"", kNameOfJson = "\"Name\":\"/{container}\"";
  constexpr LineTraits kInspected{.is_vague = true, .is_addition = true};
  return {
      .name = "container-kill",
      .from_outside = true,
      .repeats_kills = true,
      .wordings =
          {// `docker events`.
           killed_container({"container oom "}, {"who=Docker", "name={container:word}"}),
           // `docker inspect`, with and without a format.
           {.all = {"OOMKilled"},
            .any = {"\"OOMKilled\": true", "\"OOMKilled\":true", "OOMKilled=true", "OOMKilled: true"},
            .figures = {"who=Docker", kName, kNameOfJson},
            .part = "killed",
            .add = add_limits},
           // Behind "OOMKilled", "Dead" and "Pid". If OOMKilled is false, another process sent the signal.
           {.all = {"\"ExitCode\":{exit_code:int=137}"},
            .figures = {kName, kNameOfJson},
            .subject = "exit code",
            .part = "exit code",
            .traits = {.lines_from_whole = 4}},
           // Later lines of the same container.
           {.all = {kName}, .part = "name", .traits = kInspected},
           {.all = {kNameOfJson}, .part = "name", .traits = kInspected},
           {.all = {"\"Memory\":"}, .part = "memory", .traits = kInspected, .add = add_limits},
           {.all = {"\"MemorySwap\":"}, .part = "swap", .traits = kInspected, .add = add_limits},
           // The container had not started its program yet.
           killed_container({"OOM: the memory limit could be too low"}, {"who=crun"}),
           killed_container({"container init was OOM-killed"}, {"who=runc"}),
           // containerd's log up to 1.6, since 1.7; `ctr events`; an event without the container.
           killed_container({"TaskOOM event ", "ContainerID:"},
                            {"who=containerd", "ContainerID:{container},"}, "event"),
           killed_container(
               {"TaskOOM event ", "container_id:"},
               {"who=containerd", "container_id:\\\"{container}\\\"", "container_id:\"{container}\""},
               "event"),
           killed_container({"/tasks/oom", " {\"container_id\":"},
                            {"who=containerd", "_id\":\"{container}\""}),
           killed_container({"/tasks/oom", "events.TaskOOM"}, {"who=containerd"}, "forwarded",
                            {.is_vague = true}),
           // Podman and CRI-O.
           killed_container({"conmon {:word} <ninfo>: OOM ", " received$"},
                            {"who=conmon", "conmon {container:word} <ninfo>: OOM "})},
      .explanations =
          {{.when = "!who",
            .id = "process-killed",
            .severity = Severity::warning,
            .confidence = Confidence::possible,
            .title = "{name} ended by SIGKILL (exit code 137)",
            .cause = "Docker does not report that memory ran out. The kernel may have killed a process in "
                     "the container because the machine's memory was full. `docker stop` and `docker kill` "
                     "end a container in the same way.",
            .cures = {kCheckKernelLog,
                      {"check whether `docker kill` or `docker stop` ended it",
                       "docker events --since 24h --until 0s --filter event=kill"}}},
           killed_at_limit("who=containerd", false,
                           {"see its limit, and which container it is", "crictl inspect {word}"}),
           killed_at_limit("who=conmon", false, {"raise its limit", "podman update --memory=SIZE {word}"}),
           killed_at_limit("who=runc", true,
                           {"raise its limit: a container needs some MiB before its program starts",
                            "docker run --memory=SIZE IMAGE"}),
           killed_at_limit("who=crun", true,
                           {"raise its limit: a container needs some MiB before its program starts",
                            "podman run --memory=SIZE IMAGE"}),
           killed_at_limit("update", true,
                           {"raise its limit by a quarter, then check whether that is enough", "{update}"}),
           killed_at_limit(
               "", false,
               {"raise its limit", "docker update --memory=SIZE --memory-swap=SIZE_WITH_SWAP {word}"})},
      .derive = derive_container};
}

}  // namespace headroom::doctor
