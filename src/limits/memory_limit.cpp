#include "limits/memory_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "limits/control_group.h"

namespace headroom::limits {
namespace {

// Less than this cannot even start a process of Headroom's.
constexpr Bytes kSmallestLimit = mebibytes(8);

class GroupLimit : public MemoryLimit {
 public:
  GroupLimit(ControlGroup group, Bytes bytes) : group_(std::move(group)), bytes_(bytes) {}
  LimitMechanism mechanism() const override { return group_.version(); }
  Bytes bytes() const override { return bytes_; }
  std::function<int()> entry() override {
    const int fd = group_.entry_fd();
    return [fd] { return ::write(fd, "0", 1) == 1 ? 0 : errno; };
  }
  CgroupMemory account() const override { return group_.account(); }
  bool reset_peak() override { return group_.reset_peak(); }

 private:
  ControlGroup group_;
  Bytes bytes_;
};

// RLIMIT_DATA counts private writable memory (heap, anonymous maps) and refuses more; unlike RLIMIT_AS it
// lets a GPU runtime reserve the address space that it needs. Shared memory escapes it, so it is watched
// besides.
class DataLimit : public MemoryLimit {
 public:
  explicit DataLimit(Bytes bytes) : bytes_(bytes) {}
  LimitMechanism mechanism() const override { return LimitMechanism::rlimit_data; }
  Bytes bytes() const override { return bytes_; }
  std::function<int()> entry() override {
    const auto bound = static_cast<rlim_t>(bytes_.count);
    return [bound] {
      const rlimit limit{bound, bound};
      return ::setrlimit(RLIMIT_DATA, &limit) == 0 ? 0 : errno;
    };
  }
  CgroupMemory account() const override { return {}; }
  bool reset_peak() override { return false; }

 private:
  Bytes bytes_;
};

// Enforces nothing: the conductor samples, counts and reports.
class WatchedLimit : public MemoryLimit {
 public:
  WatchedLimit(LimitMechanism mechanism, Bytes bytes) : mechanism_(mechanism), bytes_(bytes) {}
  LimitMechanism mechanism() const override { return mechanism_; }
  Bytes bytes() const override { return bytes_; }
  std::function<int()> entry() override { return {}; }
  CgroupMemory account() const override { return {}; }
  bool reset_peak() override { return false; }

 private:
  LimitMechanism mechanism_;
  Bytes bytes_;
};

Result<ControlGroup> make_group(std::string_view label, std::optional<Bytes> bytes) {
  auto place = find_own_group();
  if (!place) return forward_error(place);
  static bool cleaned = false;
  if (!cleaned) remove_stale_groups(*place);
  cleaned = true;
  static int count = 0;
  std::string name = fmt::format("headroom-{}-{}-{}", ::getpid(), ++count, label);
  for (char& c : name)
    if (c == '/' || c == '\n' || c == ' ') c = '_';
  return ControlGroup::create(*place, name.substr(0, 200), bytes);
}

}  // namespace

Result<std::unique_ptr<MemoryLimit>> make_memory_limit(std::string_view label, std::optional<Bytes> bytes,
                                                       std::string_view forced, std::string& note) {
  using Made = std::unique_ptr<MemoryLimit>;
  if (bytes && *bytes < kSmallestLimit)
    return usage_error(fmt::format("a memory limit of {} is too small", format_bytes(*bytes)),
                       "no process of Headroom's starts in it",
                       fmt::format("give at least {}", format_bytes(kSmallestLimit)));
  const bool automatic = forced.empty() || forced == "auto";
  if (automatic || forced == "cgroup") {
    auto group = make_group(label, bytes);
    if (group) return Made(new GroupLimit(std::move(*group), bytes.value_or(Bytes{})));
    if (!automatic) return forward_error(group);
    note = group.error().sentence();
  }
  if (!bytes || forced == "none")
    return Made(new WatchedLimit(LimitMechanism::none, bytes.value_or(Bytes{})));
  if (forced == "watchdog") return Made(new WatchedLimit(LimitMechanism::watchdog, *bytes));
  return Made(new DataLimit(*bytes));
}

}  // namespace headroom::limits
