#include "limits/control_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/text.h"

namespace headroom::limits {
namespace fs = std::filesystem;
namespace {

constexpr const char* kHowToDelegate =
    "run as root, or under a delegated group: systemd-run --user --scope -p Delegate=yes headroom …";
constexpr std::string_view kPrefix = "headroom-";

Status write_value(const fs::path& path, std::string_view value) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return failure(fmt::format("cannot open {}", path.string()), errno_text(errno));
  if (::write(fd.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
    return failure(fmt::format("cannot write {}", path.string()), errno_text(errno));
  return {};
}

std::optional<std::int64_t> read_number(const fs::path& path) {
  const auto text = read_small_file(path);
  return text ? parse_number<std::int64_t>(trim(*text)) : std::nullopt;
}

std::optional<Bytes> read_bytes(const fs::path& path) {
  const auto number = read_number(path);
  return number ? std::optional<Bytes>(Bytes{*number}) : std::nullopt;
}

// The value of "key value" lines.
std::optional<std::int64_t> keyed_number(const fs::path& path, std::string_view key) {
  const auto text = read_small_file(path);
  if (!text) return std::nullopt;
  for (const std::string_view line : split(*text, '\n')) {
    const auto words = split_words(line);
    if (words.size() == 2 && words[0] == key) return parse_number<std::int64_t>(words[1]);
  }
  return std::nullopt;
}

std::optional<Bytes> keyed_bytes(const fs::path& path, std::string_view key) {
  const auto number = keyed_number(path, key);
  return number ? std::optional<Bytes>(Bytes{*number}) : std::nullopt;
}

// /proc/self/mountinfo writes a space as \040.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

struct Mount {
  std::string root, point, type, options;
};

std::vector<Mount> cgroup_mounts(const std::string& mountinfo) {
  std::vector<Mount> mounts;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const auto words = split_words(line);
    std::size_t dash = 6;
    while (dash < words.size() && words[dash] != "-") ++dash;
    if (dash + 3 >= words.size() || !words[dash + 1].starts_with("cgroup")) continue;
    mounts.push_back(
        {unescape(words[3]), unescape(words[4]), std::string(words[dash + 1]), std::string(words[dash + 3])});
  }
  return mounts;
}

bool has_word(std::string_view list, std::string_view word, char separator) {
  for (const std::string_view entry : split(list, separator))
    if (trim(entry) == word) return true;
  return false;
}

// The folder of a group: its path as seen from the mount's root.
fs::path folder_below(const Mount& mount, std::string_view group) {
  if (mount.root != "/" && group.starts_with(mount.root)) group.remove_prefix(mount.root.size());
  while (group.starts_with("/")) group.remove_prefix(1);
  return group.empty() ? fs::path(mount.point) : fs::path(mount.point) / group;
}

// cgroup v2 lets a group have processes or controlled children, not both. When all processes of our group are
// ours, this process moves into a leaf and the group can have children.
Status enable_controller_v2(const fs::path& folder) {
  const auto enabled = read_small_file(folder / "cgroup.subtree_control");
  if (enabled && has_word(*enabled, "memory", ' ')) return {};
  if (write_value(folder / "cgroup.subtree_control", "+memory")) return {};
  const auto processes = read_small_file(folder / "cgroup.procs");
  const std::string own = std::to_string(::getpid());
  if (!processes || trim(*processes) != own)
    return failure("a memory group cannot be made", "the group of this process has other processes in it",
                   kHowToDelegate);
  const fs::path leaf = folder / fmt::format("{}{}-conductor", kPrefix, own);
  if (::mkdir(leaf.c_str(), 0755) != 0 && errno != EEXIST)
    return failure("a memory group cannot be made", errno_text(errno), kHowToDelegate);
  if (auto moved = write_value(leaf / "cgroup.procs", own); !moved) return moved;
  if (auto written = write_value(folder / "cgroup.subtree_control", "+memory"); !written)
    return failure("the memory controller cannot be enabled", written.error().why, kHowToDelegate);
  return {};
}

Status set_limit(LimitMechanism version, const fs::path& folder, Bytes limit) {
  const std::string value = std::to_string(limit.count);
  if (version == LimitMechanism::cgroup_v2) {
    if (auto written = write_value(folder / "memory.max", value); !written) return written;
    // Without swap accounting the file is absent, and then nothing of the group is swapped out past the
    // limit.
    if (fs::exists(folder / "memory.swap.max")) return write_value(folder / "memory.swap.max", "0");
    return {};
  }
  if (auto written = write_value(folder / "memory.limit_in_bytes", value); !written) return written;
  if (fs::exists(folder / "memory.memsw.limit_in_bytes"))
    return write_value(folder / "memory.memsw.limit_in_bytes", value);
  return {};
}

}  // namespace

Result<ControlGroupPlace> find_own_group(const fs::path& proc) {
  const auto groups = read_small_file(proc / "self/cgroup");
  const auto mountinfo = read_small_file(proc / "self/mountinfo");
  if (!groups || !mountinfo)
    return failure("control groups are not available here", "the kernel does not list them");
  const std::vector<Mount> mounts = cgroup_mounts(*mountinfo);
  std::optional<ControlGroupPlace> unified;
  for (const std::string_view line : split(*groups, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = line.substr(second + 1);
    for (const Mount& mount : mounts) {
      if (mount.type == "cgroup" && has_word(controllers, "memory", ',') &&
          has_word(mount.options, "memory", ','))
        return ControlGroupPlace{LimitMechanism::cgroup_v1, folder_below(mount, group)};
      if (mount.type == "cgroup2" && controllers.empty())
        unified = ControlGroupPlace{LimitMechanism::cgroup_v2, folder_below(mount, group)};
    }
  }
  if (!unified)
    return failure("control groups are not available here", "none is mounted with the memory controller");
  const auto controllers = read_small_file(unified->folder / "cgroup.controllers");
  if (!controllers || !has_word(*controllers, "memory", ' '))
    return failure("memory control groups are not available here",
                   "the memory controller is not given to this group", kHowToDelegate);
  return *unified;
}

Result<ControlGroup> ControlGroup::create(const ControlGroupPlace& place, const std::string& name,
                                          std::optional<Bytes> limit) {
  if (place.version == LimitMechanism::cgroup_v2)
    if (auto enabled = enable_controller_v2(place.folder); !enabled) return forward_error(enabled);
  ControlGroup group;
  group.version_ = place.version;
  const fs::path folder = place.folder / name;
  if (::mkdir(folder.c_str(), 0755) != 0)
    return failure(fmt::format("the memory group {} cannot be made", folder.string()), errno_text(errno),
                   kHowToDelegate);
  group.folder_ = folder;
  if (limit)
    if (auto set = set_limit(place.version, folder, *limit); !set) return forward_error(set);
  group.procs_ = UniqueFd(::open((folder / "cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  if (!group.procs_)
    return failure(fmt::format("the memory group {} cannot be entered", folder.string()), errno_text(errno),
                   kHowToDelegate);
  return group;
}

ControlGroup& ControlGroup::operator=(ControlGroup&& other) noexcept {
  std::swap(version_, other.version_);
  std::swap(folder_, other.folder_);
  std::swap(procs_, other.procs_);
  return *this;
}

ControlGroup::~ControlGroup() { remove(); }

void ControlGroup::remove() {
  if (folder_.empty()) return;
  procs_.reset();
  // A process that has just been reaped can stay in the group for a moment.
  for (int attempt = 0; attempt < 100 && ::rmdir(folder_.c_str()) != 0 && errno == EBUSY; ++attempt) {
    if (const auto processes = read_small_file(folder_ / "cgroup.procs"))
      for (const std::string_view word : split_words(*processes))
        if (const auto pid = parse_number<pid_t>(word)) ::kill(*pid, SIGKILL);
    ::poll(nullptr, 0, 10);
  }
  folder_.clear();
}

CgroupMemory ControlGroup::account() const {
  CgroupMemory account;
  if (version_ == LimitMechanism::cgroup_v2) {
    account.current = read_bytes(folder_ / "memory.current");
    account.peak = read_bytes(folder_ / "memory.peak");
    account.limit = read_bytes(folder_ / "memory.max");
    account.anonymous = keyed_bytes(folder_ / "memory.stat", "anon");
    account.file_backed = keyed_bytes(folder_ / "memory.stat", "file");
    account.oom_kills = keyed_number(folder_ / "memory.events", "oom_kill");
  } else {
    account.current = read_bytes(folder_ / "memory.usage_in_bytes");
    account.peak = read_bytes(folder_ / "memory.max_usage_in_bytes");
    account.limit = read_bytes(folder_ / "memory.limit_in_bytes");
    account.anonymous = keyed_bytes(folder_ / "memory.stat", "rss");
    account.file_backed = keyed_bytes(folder_ / "memory.stat", "cache");
    account.oom_kills = keyed_number(folder_ / "memory.oom_control", "oom_kill");
  }
  return account;
}

bool ControlGroup::reset_peak() {
  const char* file = version_ == LimitMechanism::cgroup_v2 ? "memory.peak" : "memory.max_usage_in_bytes";
  return write_value(folder_ / file, "0").has_value();
}

void remove_stale_groups(const ControlGroupPlace& place) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(place.folder, code)) {
    std::string_view name = entry.path().filename().native();
    if (!name.starts_with(kPrefix)) continue;
    name.remove_prefix(kPrefix.size());
    const auto pid = parse_number<pid_t>(name.substr(0, name.find('-')));
    if (pid && ::kill(*pid, 0) != 0 && errno == ESRCH) ::rmdir(entry.path().c_str());
  }
}

}  // namespace headroom::limits
