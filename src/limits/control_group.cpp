#include "limits/control_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/text.h"

namespace headroom::limits {
namespace fs = std::filesystem;
namespace {

std::optional<Bytes> read_from_start(int fd) {
  std::array<char, 32> buffer;
  const ssize_t got = fd < 0 ? -1 : ::pread(fd, buffer.data(), buffer.size(), 0);
  if (got <= 0) return std::nullopt;
  const auto number = parse_number<std::int64_t>(trim({buffer.data(), static_cast<std::size_t>(got)}));
  return number ? std::optional<Bytes>(Bytes{*number}) : std::nullopt;
}

}  // namespace

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
  const fs::path peak =
      folder / (version == LimitMechanism::cgroup_v2 ? "memory.peak" : "memory.max_usage_in_bytes");
  group.peak_ = UniqueFd(::open(peak.c_str(), O_RDWR | O_CLOEXEC));
  if (!group.peak_) group.peak_ = UniqueFd(::open(peak.c_str(), O_RDONLY | O_CLOEXEC));
  return group;
}

ControlGroup::ControlGroup(ControlGroup&& other) noexcept
    : version_(other.version_),
      folder_(std::exchange(other.folder_, fs::path())),
      procs_(std::move(other.procs_)),
      peak_(std::move(other.peak_)) {}

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
  CgroupMemory account;
  account.peak = read_from_start(peak_.get());
  if (version_ == LimitMechanism::cgroup_v2) {
    account.current = read_bytes(folder_ / "memory.current");
    account.limit = read_bytes(folder_ / "memory.max");
    account.anonymous = keyed_bytes(folder_ / "memory.stat", "anon");
    account.file_backed = keyed_bytes(folder_ / "memory.stat", "file");
    account.oom_kills = keyed_number(folder_ / "memory.events", "oom_kill");
  } else {
    account.current = read_bytes(folder_ / "memory.usage_in_bytes");
    account.limit = read_bytes(folder_ / "memory.limit_in_bytes");
    account.anonymous = keyed_bytes(folder_ / "memory.stat", "rss");
    account.file_backed = keyed_bytes(folder_ / "memory.stat", "cache");
    account.oom_kills = keyed_number(folder_ / "memory.oom_control", "oom_kill");  // since Linux 4.13
  }
  return account;
}

bool ControlGroup::reset_peak() { return peak_ && ::pwrite(peak_.get(), "0", 1, 0) == 1; }

}  // namespace headroom::limits
