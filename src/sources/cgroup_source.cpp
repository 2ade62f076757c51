// The control group of the sampler's process, which in a container is the container's. Supports version 2
// and the memory controller of version 1.
#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

class Cgroup {
 public:
  Cgroup(const fs::path& folder, bool is_v2) : is_v2_(is_v2) {
    const auto open = [&](const char* v2, const char* v1) { return RereadFile(folder / (is_v2 ? v2 : v1)); };
    current_ = open("memory.current", "memory.usage_in_bytes");
    peak_ = open("memory.peak", "memory.max_usage_in_bytes");
    limit_ = open("memory.max", "memory.limit_in_bytes");
    if (is_v2) high_ = RereadFile(folder / "memory.high");
    if (is_v2) swapped_ = RereadFile(folder / "memory.swap.current");  // version 1 has it in memory.stat
    stat_ = open("memory.stat", "memory.stat");
    events_ = open("memory.events", "memory.oom_control");
  }
  bool exists() const { return current_.exists(); }

  bool operator()(SystemSample& sample) {
    CgroupMemory group;
    group.current = current_.read_bytes();
    if (!group.current) return false;
    group.peak = peak_.read_bytes();
    group.limit = limit_.read_bytes();
    group.high = high_.read_bytes();
    const std::string_view stat = stat_.read();
    group.anonymous = bytes_line(stat, is_v2_ ? "anon " : "total_rss ");
    group.file_backed = bytes_line(stat, is_v2_ ? "file " : "total_cache ");
    group.inactive_file = bytes_line(stat, is_v2_ ? "inactive_file " : "total_inactive_file ");
    group.swapped = is_v2_ ? swapped_.read_bytes() : bytes_line(stat, "total_swap ");
    const std::string_view events = events_.read();
    if (const auto kills = bytes_line(events, "oom_kill ")) group.oom_kills = kills->count;
    if (const auto high = bytes_line(events, "high ")) group.high_events = high->count;
    sample.cgroup = group;
    return true;
  }

 private:
  // `key` includes the space, because "anon" is also the beginning of "anon_thp", and "oom_kill" of
  // "oom_kill_disable".
  static std::optional<Bytes> bytes_line(std::string_view text, std::string_view key) {
    const auto rest = rest_of_line(text, key);
    const auto value = rest ? parse_number<std::int64_t>(trim(*rest)) : std::nullopt;
    return value ? std::optional<Bytes>(Bytes{*value}) : std::nullopt;
  }

  bool is_v2_;
  RereadFile current_, peak_, limit_, high_, swapped_, stat_, events_;
};

// The path is "0::/user.slice" in version 2 and "5:memory:/docker/…" in version 1. A container sees its
// group at the mount point itself.
SourcePointer open_group(const fs::path& mount, std::string_view path, bool is_v2) {
  while (path.starts_with("/")) path.remove_prefix(1);
  for (const fs::path& folder : {mount / path, mount}) {
    Cgroup group(folder, is_v2);
    if (group.exists()) return make_source("control group " + folder.string(), std::move(group));
  }
  return nullptr;
}

}  // namespace

SourcePointer make_cgroup_source(const fs::path& root) {
  const auto groups = read_small_file(root / "proc/self/cgroup");
  if (!groups) return nullptr;
  for (const std::string_view line : split(*groups, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() < 3) continue;
    const std::string_view path = line.substr(static_cast<std::size_t>(fields[2].data() - line.data()));
    SourcePointer source;
    if (fields[1].empty()) {
      source = open_group(root / "sys/fs/cgroup", path, true);
      if (!source) source = open_group(root / "sys/fs/cgroup/unified", path, true);
    }
    for (const std::string_view controller : split(fields[1], ','))
      if (controller == "memory") source = open_group(root / "sys/fs/cgroup/memory", path, false);
    if (source) return source;
  }
  return nullptr;
}

}  // namespace headroom::sources
