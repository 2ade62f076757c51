// Names of groups and processes come from a log, so each is quoted as one word of a command.
#include "doctor/log/oom_kill_cures.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_report.h"
#include "doctor/machine/machine_history.h"

namespace headroom::doctor {
namespace {

constexpr std::int64_t kMib = mebibytes(1).count;
constexpr std::string_view kScopeEnding = ".scope", kSession = "session-";

// Units and containers may belong to a user.
std::string as_user(std::string_view user) {
  return user.empty() ? std::string() : fmt::format(" (run it as user {}, the owner)", user);
}

// A quarter more is a first try, as the log does not say how much was missing. Nothing if the limit is
// unknown.
std::optional<ContainerLimit> larger_limit(const LogMessage& message) {
  const auto limit = message.bytes("limit_bytes");
  if (!limit || is_impossible(*limit)) return std::nullopt;
  auto both = message.bytes("memory_and_swap_limit_bytes");
  if (const auto swap = message.bytes("swap_limit_bytes"); swap && !both) both = *limit + *swap;
  return ContainerLimit{std::max<std::int64_t>(1, limit->count / 4 * 5 / kMib), *limit, both};
}

std::string raise_words(std::string_view whose, const std::optional<ContainerLimit>& limit) {
  return fmt::format("raise {} limit{}", whose,
                     limit ? " by a quarter, then check whether that is enough" : "");
}

std::string size_of(const std::optional<ContainerLimit>& limit, std::string_view unit) {
  return limit ? fmt::format("{}{}", limit->mib, unit) : "SIZE";
}

Cure of_pod(const std::optional<ContainerLimit>& limit) {
  return {raise_words("the container's", limit), set_pod_memory("limits", size_of(limit, "Mi"), {}, {})};
}

Cure of_container(const std::optional<ContainerLimit>& limit, std::string_view name) {
  return {raise_words("the container's", limit),
          limit ? docker_update(*limit, name)
                : fmt::format("docker update --memory=SIZE --memory-swap=SIZE_WITH_SWAP {}", name)};
}

// The runtime sets the limits when it starts a container, so the runtime must change them.
Cure of_podman(const std::optional<ContainerLimit>& limit, std::string_view user, std::string_view id) {
  return {
      fmt::format("{} (before Podman 5.1, only until the container stops){}",
                  raise_words("the container's", limit), as_user(user)),
      fmt::format("{}podman update --memory={} {}", user.empty() ? "sudo " : "", size_of(limit, "m"), id)};
}

Cure of_unit(const std::optional<ContainerLimit>& limit, std::string_view group, std::string_view unit) {
  return set_property(raise_words("the unit's", limit), user_of(group), unit,
                      "MemoryMax=" + size_of(limit, "M"));
}

// A session's scope and its limit end with the session.
Cure of_session(const std::optional<ContainerLimit>& limit, std::string_view slice) {
  return set_property("limit the user's slice instead: the session's scope and its limit are gone", {}, slice,
                      "MemoryMax=" + size_of(limit, "M"));
}

// Headroom removed the group: the next run has another one.
Cure of_own_run(const std::optional<ContainerLimit>& limit, std::string_view label) {
  const std::string size = size_of(limit, "MiB");
  return {raise_words("Headroom's own", limit),
          label == "run"
              ? fmt::format("headroom run --limit {} -- COMMAND", size)
              : fmt::format("headroom bench --model NAME=MODEL --source DIR --mem-limit {}", size)};
}

std::string write_to(std::string_view file, std::string_view size) {
  return fmt::format("echo {} | sudo tee {}", size, shell_word(file));
}

Cure of_group(const std::optional<ContainerLimit>& limit, std::string_view group) {
  return {raise_words("the group's", limit),
          write_to(fmt::format("/sys/fs/cgroup{}/memory.max", group), size_of(limit, "M"))};
}

// Up to JetPack 5. The limit of memory and swap together comes first: the kernel refuses a larger limit of
// memory.
Cure of_group_of_version_1(const std::optional<ContainerLimit>& limit, std::string_view group) {
  const std::string folder = fmt::format("/sys/fs/cgroup/memory{}/", group);
  std::string command = write_to(folder + "memory.limit_in_bytes", size_of(limit, "M"));
  if (limit && limit->memory_and_swap && !is_impossible(*limit->memory_and_swap)) {
    const std::int64_t swap = std::max<std::int64_t>(0, (*limit->memory_and_swap - limit->memory).count);
    const std::string both =
        write_to(folder + "memory.memsw.limit_in_bytes", fmt::format("{}M", limit->mib + swap / kMib));
    command = fmt::format("{} && {}", both, command);
  }
  return {raise_words("the group's", limit), command};
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
constexpr std::string_view kOfPodman = "libpod-", kOfDocker = "docker-";

// "user-1000.slice" of "/user.slice/user-1000.slice/session-2.scope".
std::string_view slice_of_session(std::string_view group) {
  const std::string_view name = name_in(group);
  if (!name.starts_with(kSession) || !name.ends_with(kScopeEnding) || name.size() >= group.size()) return {};
  const std::string_view slice = name_in(group.substr(0, group.size() - name.size() - 1));
  return slice.ends_with(".slice") ? slice : std::string_view();
}

// A scope, or a unit that systemd-run named, ends with its processes. The next one has another name.
bool is_transient(std::string_view unit) {
  if (unit == "init.scope") return false;  // systemd itself
  return unit.ends_with(kScopeEnding) || (unit.starts_with("run-") && unit.ends_with(".service"));
}

// If the log does not name the owner of a scope: scopes of desktops belong to a user.
bool is_of_a_user(std::string_view unit) {
  return unit.starts_with("app-") || unit.starts_with("vte-spawn-");
}

// "sudo systemd-run --scope -p MemoryMax=640M COMMAND".
std::string start_with(std::string_view user, std::string_view unit, std::string_view properties) {
  std::string command = !user.empty() || is_of_a_user(unit) ? "systemd-run --user" : "sudo systemd-run";
  if (unit.ends_with(kScopeEnding)) command += " --scope";
  if (unit.starts_with(kSession)) command += " --uid=$USER";
  for (const std::string_view property : split_words(properties)) command += fmt::format(" -p {}", property);
  return command + " COMMAND";
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

// Whether the largest process deserves a cure. A desktop is stopped as a whole, and less than a tenth of the
// memory that belongs to no process makes no difference.
bool is_largest_to_blame(const LogMessage& message) {
  const auto rss = message.bytes("largest_process_bytes");
  const std::string largest = message.text("largest_process");
  if (!rss || largest.empty() || is_of_desktop(largest)) return false;
  constexpr std::int64_t kPart = 10;
  return !is_much_unaccounted(message) || rss->count >= message.bytes("unaccounted_bytes")->count / kPart;
}

// The same cures, under the same conditions, as the finding desktop-running (machine/memory.cpp).
void add_desktop_cures(const LogMessage& message, Finding& finding) {
  const auto held = message.bytes("desktop_bytes"), total = message.bytes("ram_bytes");
  constexpr Bytes kLeast = mebibytes(32), kSmallMachine = gibibytes(33);
  if (!held || *held < kLeast || (total && *total > kSmallMachine)) return;
  finding.cures.push_back(
      {fmt::format("stop the desktop ({}): inference does not need it", message.text("desktop")),
       "sudo systemctl isolate multi-user.target", held});
  finding.cures.push_back(
      {"boot without the desktop from now on", "sudo systemctl set-default multi-user.target"});
}

void add_swap_cure(const LogMessage& message, Finding& finding) {
  const auto total = message.bytes("ram_bytes"), swap = message.bytes("swap_bytes"),
             free = message.bytes("swap_free_bytes");
  constexpr std::int64_t kPartInUse = 10;
  if (!swap || swap->count == 0)
    finding.cures.push_back(make_swap_file("add swap as a reserve", total));
  else if (free && free->count < swap->count / kPartInUse)
    finding.cures.push_back(make_swap_file(
        fmt::format("add swap: only {} of {} were free", format_bytes(*free), format_bytes(*swap)), total,
        SwapFile::another));
}

}  // namespace

std::string_view user_of(std::string_view group) {
  constexpr std::string_view kService = ".service/";
  const auto user = text_after(group, "/user@");
  const std::size_t end = user ? user->find(kService) : group.npos;
  if (end == group.npos || end + kService.size() == user->size()) return {};
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

bool is_container(std::string_view unit) {
  return !container_in(unit, kOfPodman).empty() || !container_in(unit, kOfDocker).empty() ||
         !container_in(unit, "cri-containerd-").empty() || !container_in(unit, "crio-").empty();
}

Cure limit_container(std::string_view user, std::string_view unit) {
  if (const auto id = container_in(unit, kOfPodman); !id.empty()) return of_podman({}, user, id);
  if (const auto id = container_in(unit, kOfDocker); !id.empty()) return of_container({}, id);
  return of_pod({});
}

std::string set_pod_memory(std::string_view which, std::string_view size, std::string_view name_space,
                           std::string_view container) {
  return fmt::format("kubectl set resources deployment NAME {}-c {} --{}=memory={}",
                     name_space.empty() ? "" : fmt::format("--namespace {} ", shell_word(name_space)),
                     container.empty() ? "CONTAINER" : shell_word(container), which, size);
}

Cure see_pods_of_node(std::string_view node) {
  return {"see which of the node's pods restarted: one of them was killed",
          fmt::format("kubectl get pods --all-namespaces --field-selector spec.nodeName={}",
                      node.empty() ? "NODE" : shell_word(node))};
}

std::vector<Cure> larger_limits(const LogMessage& message) {
  const std::string group = message.text("control_group");
  const auto limit = larger_limit(message);
  const std::string_view name = name_in(group), label = label_of_own_group(group);
  if (!label.empty() || (group.empty() && message.text("victim") == "headroom"))
    return {of_own_run(limit, label)};
  if (has(group, "kubepods")) return {of_pod(limit)};
  if (group.empty() && message.text("told_by") == kKubernetes)
    return {of_pod(limit), see_pods_of_node(message.text("node"))};
  if (const auto id = container_in(name, kOfPodman); !id.empty())
    return {of_podman(limit, user_of(group), id)};
  if (const auto id = container_in(name, kOfDocker); !id.empty()) return {of_container(limit, id)};
  if (has(group, "docker") && is_container_id(name)) return {of_container(limit, name.substr(0, kShownOfId))};
  if (const auto slice = slice_of_session(group); !slice.empty()) return {of_session(limit, slice)};
  if (name.ends_with(".service") || name.ends_with(kScopeEnding) || name.ends_with(".slice"))
    return {of_unit(limit, group, name)};
  if (!group.empty())
    return {message.number("control_groups_version") == 1 ? of_group_of_version_1(limit, group)
                                                          : of_group(limit, group)};
  return {of_container(limit, "CONTAINER"), of_unit(limit, {}, "UNIT")};
}

bool is_much_unaccounted(const LogMessage& message) {
  const auto hidden = message.bytes("unaccounted_bytes"), total = message.bytes("ram_bytes");
  return hidden && total && hidden->count > total->count / 10;
}

void add_machine_cures(const LogMessage& message, Finding& finding) {
  const bool is_much_hidden = is_much_unaccounted(message), is_largest = is_largest_to_blame(message);
  finding.cures.push_back({"see which processes hold the memory, including GPU memory", "headroom top",
                           is_much_hidden ? message.bytes("unaccounted_bytes") : std::nullopt});
  finding.first_cure_meets_cause = is_much_hidden;
  const std::string largest = message.text("largest_process");
  if (is_largest)
    finding.cures.push_back(
        {fmt::format("make {} smaller, or run it elsewhere: it held more than any other process", largest),
         "headroom trace -- COMMAND", message.bytes("largest_process_bytes")});
  add_desktop_cures(message, finding);
  finding.cures.push_back({"plan which programs run together, with a reserve", "headroom plan BUDGET.toml"});
  const auto room = is_largest ? room_for_largest(message) : std::nullopt;
  finding.cures.push_back(
      {room ? fmt::format("set a limit for {}, so that only it fails: with this size, 15 % of RAM stays free "
                          "for other programs",
                          largest)
            : "set a limit for the program, so that only it fails",
       fmt::format("headroom run --limit {} -- COMMAND",
                   room ? fmt::format("{}MiB", room->count / kMib) : "SIZE")});
  add_swap_cure(message, finding);
}

void add_node_cures(const LogMessage& message, Finding& finding) {
  finding.cures = {
      {"see which pods hold the node's memory", "kubectl top pods --all-namespaces --sort-by=memory"},
      see_pods_of_node(message.text("node")),
      {"set a limit for the container, so that only it fails", set_pod_memory("limits", "SIZE", {}, {})}};
}

}  // namespace headroom::doctor
