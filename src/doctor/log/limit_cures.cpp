// Names of groups and processes come from a log, so each is quoted as one word of a command.
#include "doctor/log/limit_cures.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_report.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kServiceEnding = ".service", kSliceEnding = ".slice", kScopeEnding = ".scope",
                           kSession = "session-";
constexpr std::int64_t kMib = mebibytes(1).count;

// Units and containers may belong to a user.
std::string as_user(std::string_view user) {
  return user.empty() ? std::string() : fmt::format(" (run it as user {}, the owner)", user);
}

std::string raise_words(std::string_view whose, const std::optional<ContainerLimit>& limit) {
  return fmt::format("raise {} limit{}", whose,
                     limit ? " by a quarter, then check whether that is enough" : "");
}

std::string size_of(const std::optional<ContainerLimit>& limit, std::string_view unit) {
  return limit ? fmt::format("{}{}", limit->mib, unit) : "SIZE";
}

Cure of_pod(const std::optional<ContainerLimit>& limit) {
  return {raise_words("the container's", limit),
          fmt::format("kubectl set resources deployment NAME -c CONTAINER --limits=memory={}",
                      size_of(limit, "Mi"))};
}

Cure of_container(const std::optional<ContainerLimit>& limit, std::string_view name) {
  return {raise_words("the container's", limit),
          limit ? docker_update(*limit, name)
                : fmt::format("docker update --memory=SIZE --memory-swap=SIZE_WITH_SWAP {}", name)};
}

// Headroom removed the group: the next run has another one.
Cure of_own_run(const std::optional<ContainerLimit>& limit, std::string_view label) {
  const std::string size = size_of(limit, "MiB");
  return {raise_words("Headroom's own", limit),
          label == "run"
              ? fmt::format("headroom run --limit {} -- COMMAND", size)
              : fmt::format("headroom bench --model NAME=MODEL --source DIR --mem-limit {}", size)};
}

// Up to JetPack 5, control groups have version 1.
Cure of_group(const std::optional<ContainerLimit>& limit, std::string_view group, bool is_version_1) {
  const std::string file = is_version_1 ? fmt::format("/sys/fs/cgroup/memory{}/memory.limit_in_bytes", group)
                                        : fmt::format("/sys/fs/cgroup{}/memory.max", group);
  return {raise_words("the group's", limit),
          fmt::format("echo {} | sudo tee {}", size_of(limit, "M"), shell_word(file))};
}

constexpr std::size_t kContainerId = 64, kShownOfId = 12;
bool is_container_id(std::string_view name) {
  return name.size() == kContainerId && name.find_first_not_of("0123456789abcdef") == name.npos;
}

// "0123456789ab" of "libpod-0123….scope"; empty of any other unit.
std::string_view container_in(std::string_view unit, std::string_view prefix) {
  if (!unit.starts_with(prefix) || !unit.ends_with(kScopeEnding)) return {};
  const std::string_view id = unit.substr(prefix.size(), unit.size() - prefix.size() - kScopeEnding.size());
  return is_container_id(id) ? id.substr(0, kShownOfId) : std::string_view();
}

// A scope, or a unit that systemd-run named, ends with its processes. The next one has another name.
bool is_transient(std::string_view unit) {
  if (unit == "init.scope") return false;  // systemd itself
  return unit.ends_with(kScopeEnding) || (unit.starts_with("run-") && unit.ends_with(kServiceEnding));
}

// "sudo systemd-run --scope -p MemoryMax=640M COMMAND".
std::string start_with(std::string_view user, std::string_view unit, std::string_view properties) {
  // If the log does not name the owner of a scope: scopes of desktops belong to a user.
  const bool is_of_user = !user.empty() || unit.starts_with("app-") || unit.starts_with("vte-spawn-");
  std::string command = is_of_user ? "systemd-run --user" : "sudo systemd-run";
  if (unit.ends_with(kScopeEnding)) command += " --scope";
  if (unit.starts_with(kSession)) command += " --uid=$USER";
  for (const std::string_view property : split_words(properties)) command += fmt::format(" -p {}", property);
  return command + " COMMAND";
}

}  // namespace

std::optional<ContainerLimit> larger_limit(const LogMessage& message) {
  const auto limit = message.bytes("limit_bytes");
  if (!limit || is_impossible(*limit)) return std::nullopt;
  auto both = message.bytes("memory_and_swap_limit_bytes");
  if (const auto swap = message.bytes("swap_limit_bytes"); swap && !both) both = *limit + *swap;
  return ContainerLimit{std::max<std::int64_t>(1, limit->count / 4 * 5 / kMib), *limit, both};
}

std::string_view user_of(std::string_view group) {
  constexpr std::string_view kInService = ".service/";
  const auto user = text_after(group, "/user@");
  const std::size_t end = user ? user->find(kInService) : group.npos;
  if (end == group.npos || end + kInService.size() == user->size()) return {};
  const std::string_view number = user->substr(0, end);
  return parse_number<std::int64_t>(number) ? number : std::string_view();
}

Cure set_property(std::string what, std::string_view user, std::string_view unit,
                  std::string_view properties) {
  if (is_transient(unit))
    return {fmt::format("{}: start it with this setting, because its unit is gone{}", what, as_user(user)),
            start_with(user, unit, properties)};
  return {what + as_user(user),
          fmt::format("{}set-property {} {}", user.empty() ? "sudo systemctl " : "systemctl --user ",
                      shell_word(unit), properties)};
}

std::string_view name_in(std::string_view group) {
  constexpr std::string_view kInScope = "/container";
  if (group.ends_with(".scope/container")) group.remove_suffix(kInScope.size());
  return group.substr(group.rfind('/') + 1);
}

std::optional<Cure> limit_container(const std::optional<ContainerLimit>& limit, std::string_view user,
                                    std::string_view unit) {
  if (const auto id = container_in(unit, "libpod-"); !id.empty())
    return Cure{
        fmt::format("{} (before Podman 5.1, only until the container stops){}",
                    raise_words("the container's", limit), as_user(user)),
        fmt::format("{}podman update --memory={} {}", user.empty() ? "sudo " : "", size_of(limit, "m"), id)};
  if (const auto id = container_in(unit, "docker-"); !id.empty()) return of_container(limit, id);
  const bool is_pod = !container_in(unit, "cri-containerd-").empty() || !container_in(unit, "crio-").empty();
  return is_pod ? std::optional(of_pod(limit)) : std::nullopt;
}

std::vector<Cure> larger_limits(const LogMessage& message) {
  const std::string group = message.text("control_group");
  const auto limit = larger_limit(message);
  const std::string_view name = name_in(group), label = label_of_own_group(group);
  if (!label.empty() || (group.empty() && message.text("victim") == "headroom"))
    return {of_own_run(limit, label)};
  if (has(group, "kubepods") || (group.empty() && message.text("told_by") == "Kubernetes"))
    return {of_pod(limit)};
  if (auto cure = limit_container(limit, user_of(group), name)) return {std::move(*cure)};
  if (has(group, "docker") && is_container_id(name)) return {of_container(limit, name.substr(0, kShownOfId))};
  const auto of_unit = [&limit](std::string_view user, std::string_view unit) {
    return set_property(raise_words("the unit's", limit), user, unit, "MemoryMax=" + size_of(limit, "M"));
  };
  if (name.ends_with(kServiceEnding) || name.ends_with(kScopeEnding) || name.ends_with(kSliceEnding))
    return {of_unit(user_of(group), name)};
  if (!group.empty()) return {of_group(limit, group, message.number("control_groups_version") == 1)};
  return {of_container(limit, "CONTAINER"), of_unit({}, "UNIT")};
}

std::string_view unit_of(std::string_view line) {
  for (const std::string_view kind : {kServiceEnding, kScopeEnding, kSliceEnding}) {
    const std::size_t end = line.find(std::string(kind) + ": ");
    if (end == line.npos) continue;
    const std::string_view before = line.substr(0, end + (kind == kServiceEnding ? 0 : kind.size()));
    return before.substr(before.rfind(' ') + 1);
  }
  return {};
}

std::string_view without_service(std::string_view unit) {
  return unit.substr(0, unit.size() - (unit.ends_with(kServiceEnding) ? kServiceEnding.size() : 0));
}

bool is_in_slice(std::string_view slice, std::string_view unit) {
  if (!slice.ends_with(kSliceEnding) || slice == unit) return false;
  const std::string_view name = slice.substr(0, slice.size() - kSliceEnding.size());
  if (unit.ends_with(kSliceEnding)) return unit.starts_with(fmt::format("{}-", name)) || name == "-";
  const bool is_of_user = unit.starts_with("user@") || unit.ends_with(kScopeEnding);
  if (name == "system") return !is_of_user;
  if (name == "user") return is_of_user;
  constexpr std::string_view kUser = "user-";
  if (!name.starts_with(kUser)) return name == "-" || unit.starts_with(fmt::format("{}-", name));
  return unit.ends_with(kScopeEnding) ||
         without_service(unit) == fmt::format("user@{}", name.substr(kUser.size()));
}

}  // namespace headroom::doctor
