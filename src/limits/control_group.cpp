#include "limits/control_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/text.h"

namespace headroom::limits {
namespace fs = std::filesystem;

Status write_value(const fs::path& path, std::string_view value) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return failure(fmt::format("cannot open {}", path.string()), errno_text(errno));
  if (::write(fd.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
    return failure(fmt::format("cannot write {} to {}", value, path.string()), errno_text(errno));
  return {};
}

namespace {

// Absent if the file is missing, or if the kernel reports that there is no limit ("max", or a number near
// 2^63).
std::optional<Bytes> read_bytes(const fs::path& path) {
  const auto text = read_small_file(path);
  const auto number = text ? parse_number<std::int64_t>(trim(*text)) : std::nullopt;
  constexpr std::int64_t kUnlimited = std::int64_t{1} << 62;  // v1 writes 2^63 rounded down to a page
  return number && *number < kUnlimited ? std::optional<Bytes>(Bytes{*number}) : std::nullopt;
}

// The value of a "key value" line.
std::optional<std::int64_t> keyed_number(const fs::path& path, std::string_view key) {
  const auto text = read_small_file(path);
  if (!text) return std::nullopt;
  for (const std::string_view line : split(*text, '\n'))
    if (line.starts_with(key) && line.substr(key.size()).starts_with(' '))
      return parse_number<std::int64_t>(trim(line.substr(key.size())));
  return std::nullopt;
}

std::optional<Bytes> keyed_bytes(const fs::path& path, std::string_view key) {
  const auto number = keyed_number(path, key);
  return number ? std::optional<Bytes>(Bytes{*number}) : std::nullopt;
}

// True if `word` is in a list such as "cpu memory pids" or "rw,memory".
bool has_word(std::string_view list, std::string_view word, char separator) {
  for (const std::string_view entry : split(list, separator))
    if (trim(entry) == word) return true;
  return false;
}

constexpr const char* kFixVersionTwo =
    "use systemd-run --user --scope -p Delegate=yes headroom …, or run Headroom as root";
constexpr const char* kFixVersionOne = "run Headroom as root";

struct Mount {
  std::string root;  // the group at the mount point
  fs::path point;
  std::string type, options;
};

std::vector<Mount> cgroup_mounts(const std::string& mountinfo) {
  std::vector<Mount> mounts;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const auto words = split_words(line);
    std::size_t dash = 6;  // a dash ends the optional fields
    while (dash < words.size() && words[dash] != "-") ++dash;
    if (dash + 3 >= words.size() || !words[dash + 1].starts_with("cgroup")) continue;
    mounts.push_back({std::string(words[3]), fs::path(words[4]), std::string(words[dash + 1]),
                      std::string(words[dash + 3])});
  }
  return mounts;
}

// The folder of a group, if it is visible in this mount.
std::optional<fs::path> folder_through(const Mount& mount, std::string_view group) {
  if (mount.root != "/") {
    if (!group.starts_with(mount.root)) return std::nullopt;
    group.remove_prefix(mount.root.size());
    if (!group.empty() && !group.starts_with("/")) return std::nullopt;
  }
  if (group.starts_with("/..")) return std::nullopt;  // outside this cgroup namespace
  while (group.starts_with("/")) group.remove_prefix(1);
  const fs::path folder = group.empty() ? mount.point : mount.point / group;
  std::error_code code;
  return fs::is_directory(folder, code) ? std::optional<fs::path>(folder) : std::nullopt;
}

std::vector<pid_t> processes_of(const fs::path& folder) {
  std::vector<pid_t> pids;
  if (const auto text = read_small_file(folder / "cgroup.procs"))
    for (const std::string_view word : split_words(*text))
      if (const auto pid = parse_number<pid_t>(word)) pids.push_back(*pid);
  return pids;
}

// The parent is the fourth field of stat. It follows the name, which stands in parentheses and may contain
// parentheses.
pid_t parent_of(pid_t pid, const fs::path& proc) {
  const auto stat = read_small_file(proc / std::to_string(pid) / "stat");
  const std::size_t name_end = stat ? stat->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) return 0;
  const auto fields = split_words(std::string_view(*stat).substr(name_end + 1));
  return fields.size() > 1 ? parse_number<pid_t>(fields[1]).value_or(0) : 0;
}

bool descends_from_us(pid_t pid, const fs::path& proc) {
  const pid_t us = ::getpid();
  for (int generations = 0; pid > 1 && generations < 64; ++generations) {
    if (pid == us) return true;
    pid = parent_of(pid, proc);
  }
  return pid == us;
}

// Kills the processes of a group and removes it. Waits up to a second until the kernel has removed the
// processes.
void remove_group(const fs::path& folder) {
  // A process stays in its group until its memory is freed, some time after it was reaped.
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (::rmdir(folder.c_str()) == 0 || errno != EBUSY) return;
    for (const pid_t pid : processes_of(folder))
      if (pid > 1 && pid != ::getpid()) ::kill(pid, SIGKILL);  // 0: a process of another namespace
    ::poll(nullptr, 0, 10);
  }
}

bool gives_memory_to_children(const fs::path& folder) {
  const auto enabled = read_small_file(folder / "cgroup.subtree_control");
  return enabled && has_word(*enabled, "memory", ' ');
}

bool has_a_limit(const fs::path& folder) {
  return read_bytes(folder / "memory.max").has_value() || read_bytes(folder / "memory.high").has_value();
}

bool writable(const fs::path& path) { return ::access(path.c_str(), W_OK) == 0; }

// Moves this process and its descendants into a leaf group. Changes nothing if the group holds other
// processes.
Result<fs::path> move_into_leaf(const fs::path& folder, const fs::path& proc,
                                const GroupParent::Write& write) {
  const std::vector<pid_t> processes = processes_of(folder);
  for (const pid_t pid : processes)
    if (!descends_from_us(pid, proc))
      return failure("cannot create a memory control group",
                     "Headroom's control group has other processes in it", kFixVersionTwo);
  fs::path leaf = folder / fmt::format("{}{}-conductor", kGroupPrefix, ::getpid());
  if (::mkdir(leaf.c_str(), 0755) != 0 && errno != EEXIST)
    return failure("cannot create a memory control group", errno_text(errno), kFixVersionTwo);
  for (const pid_t pid : processes)
    if (auto moved = write(leaf / "cgroup.procs", std::to_string(pid)); !moved && pid == ::getpid()) {
      ::rmdir(leaf.c_str());
      return failure("cannot create a memory control group", moved.error().why, kFixVersionTwo);
    }
  return leaf;
}

}  // namespace

Result<OwnGroup> find_own_group(const fs::path& proc) {
  const auto groups = read_small_file(proc / "self/cgroup");
  const auto mountinfo = read_small_file(proc / "self/mountinfo");
  if (!groups || !mountinfo) return failure("no control groups found", "the kernel does not list any");
  const std::vector<Mount> mounts = cgroup_mounts(*mountinfo);
  std::optional<OwnGroup> unified;
  for (const std::string_view line : split(*groups, '\n')) {  // "4:cpu,memory:/path" or "0::/path"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    for (const Mount& mount : mounts) {
      const auto folder = folder_through(mount, line.substr(second + 1));
      if (!folder) continue;
      if (mount.type == "cgroup" && has_word(controllers, "memory", ',') &&
          has_word(mount.options, "memory", ','))
        return OwnGroup{LimitMechanism::cgroup_v1, *folder, mount.point};
      if (mount.type == "cgroup2" && controllers.empty())
        unified = OwnGroup{LimitMechanism::cgroup_v2, *folder, mount.point};
    }
  }
  if (!unified)
    return failure("no memory control groups found", "none is mounted with the memory controller");
  const auto controllers = read_small_file(unified->folder / "cgroup.controllers");
  if (!controllers || !has_word(*controllers, "memory", ' '))
    return failure("no memory control groups found",
                   "the memory controller is not enabled for Headroom's control group", kFixVersionTwo);
  return *unified;
}

Result<GroupParent> GroupParent::prepare(const OwnGroup& own, const fs::path& proc, Write write) {
  if (own.version == LimitMechanism::cgroup_v1) {
    if (writable(own.folder)) return GroupParent(own.version, own.folder, std::move(write));
    return failure("cannot create a memory control group",
                   fmt::format("{}: {}", own.folder.string(), errno_text(errno)), kFixVersionOne);
  }
  if (writable(own.folder) && (gives_memory_to_children(own.folder) ||
                               write(own.folder / "cgroup.subtree_control", "+memory").has_value()))
    return GroupParent(own.version, own.folder, std::move(write));

  std::optional<Error> why;
  if (auto leaf = move_into_leaf(own.folder, proc, write)) {
    GroupParent parent(own.version, own.folder, write);
    parent.leaf_ = *leaf;  // from here on, the destructor moves this process back
    auto enabled = write(own.folder / "cgroup.subtree_control", "+memory");
    if (enabled) return parent;
    why =
        Error{ErrorKind::failed, "cannot create a memory control group", enabled.error().why, kFixVersionTwo};
  } else {
    why = std::move(leaf.error());
  }
  for (fs::path folder = own.folder; folder != own.top && !has_a_limit(folder);) {
    folder = folder.parent_path();
    // A child can enter a group below `folder` only if this process may write cgroup.procs of both.
    if (writable(folder) && writable(folder / "cgroup.procs") && gives_memory_to_children(folder))
      return GroupParent(own.version, folder, std::move(write));
  }
  return tl::unexpected<Error>(std::move(*why));
}

GroupParent::GroupParent(GroupParent&& other) noexcept
    : version_(other.version_),
      folder_(std::move(other.folder_)),
      write_(std::move(other.write_)),
      leaf_(std::exchange(other.leaf_, std::nullopt)) {}

GroupParent::~GroupParent() {
  if (!leaf_) return;
  // Restores the original state. If a step fails (a group below is still in use), the next start cleans up.
  [[maybe_unused]] const Status disabled = write_(folder_ / "cgroup.subtree_control", "-memory");
  for (const pid_t pid : processes_of(*leaf_))
    [[maybe_unused]] const Status moved = write_(folder_ / "cgroup.procs", std::to_string(pid));
  ::rmdir(leaf_->c_str());
}

void remove_stale_groups(const fs::path& folder) {
  std::vector<fs::path> stale;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kGroupPrefix)) continue;
    const std::string_view rest = std::string_view(name).substr(kGroupPrefix.size());
    const auto pid = parse_number<pid_t>(rest.substr(0, rest.find('-')));
    if (pid && *pid > 0 && ::kill(*pid, 0) != 0 && errno == ESRCH) stale.push_back(entry.path());
  }
  for (const fs::path& group : stale) remove_group(group);
}

Result<ControlGroup> ControlGroup::create(const GroupParent& parent, const std::string& name,
                                          std::optional<Bytes> limit) {
  const fs::path folder = parent.folder() / name;
  if (::mkdir(folder.c_str(), 0755) != 0)
    return failure(fmt::format("cannot create the control group {}", folder.string()), errno_text(errno),
                   "run as root");
  return adopt(parent.version(), folder, limit);
}

Result<ControlGroup> ControlGroup::adopt(LimitMechanism version, const fs::path& folder,
                                         std::optional<Bytes> limit) {
  ControlGroup group(version, folder);
  if (limit)
    if (auto set = group.set_limit(*limit); !set) return forward_error(set);
  group.procs_ = UniqueFd(::open((folder / "cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  if (!group.procs_)
    return failure(fmt::format("cannot open the control group {}", folder.string()), errno_text(errno));
  return group;
}

ControlGroup::ControlGroup(ControlGroup&& other) noexcept
    : version_(other.version_),
      folder_(std::exchange(other.folder_, fs::path())),
      procs_(std::move(other.procs_)) {}

ControlGroup::~ControlGroup() {
  if (!folder_.empty()) remove_group(folder_);
}

// The limit includes swap: a process that is swapped out instead of refused has not been limited. The swap
// files are missing if the kernel does not account for swap.
Status ControlGroup::set_limit(Bytes limit) {
  const std::string value = std::to_string(limit.count);
  const auto write_if_it_exists = [&](const char* file, std::string_view text) -> Status {
    return fs::exists(folder_ / file) ? write_value(folder_ / file, text) : Status{};
  };
  if (version_ == LimitMechanism::cgroup_v2) {
    if (auto written = write_value(folder_ / "memory.max", value); !written) return written;
    return write_if_it_exists("memory.swap.max", "0");
  }
  if (auto written = write_value(folder_ / "memory.limit_in_bytes", value); !written) return written;
  if (fs::exists(folder_ / "memory.memsw.limit_in_bytes"))
    return write_value(folder_ / "memory.memsw.limit_in_bytes", value);
  return write_if_it_exists("memory.swappiness", "0");
}

CgroupMemory ControlGroup::account() const {
  const bool is_v2 = version_ == LimitMechanism::cgroup_v2;
  const auto file = [&](const char* v2, const char* v1) { return folder_ / (is_v2 ? v2 : v1); };
  CgroupMemory account;
  account.current = read_bytes(file("memory.current", "memory.usage_in_bytes"));
  account.peak = read_bytes(file("memory.peak", "memory.max_usage_in_bytes"));  // v2: since Linux 5.19
  account.limit = read_bytes(file("memory.max", "memory.limit_in_bytes"));
  account.anonymous = keyed_bytes(folder_ / "memory.stat", is_v2 ? "anon" : "rss");
  account.file_backed = keyed_bytes(folder_ / "memory.stat", is_v2 ? "file" : "cache");
  // v1: since Linux 4.13
  account.oom_kills = keyed_number(file("memory.events", "memory.oom_control"), "oom_kill");
  return account;
}

}  // namespace headroom::limits
