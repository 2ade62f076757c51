#include "limits/memory_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "limits/control_group.h"

namespace headroom::limits {
namespace {

// With less, no Headroom process can start.
constexpr Bytes kSmallestLimit = mebibytes(8);

class GroupLimit : public MemoryLimit {
 public:
  GroupLimit(ControlGroup group, Bytes bytes) : group_(std::move(group)), bytes_(bytes) {}
  LimitMechanism mechanism() const override { return group_.version(); }
  Bytes bytes() const override { return bytes_; }
  std::function<int()> entry() override {
    const int fd = group_.entry_fd();
    return [fd] { return ::write(fd, "0", 1) == 1 ? 0 : errno; };  // 0 means the writing process
  }
  CgroupMemory account() const override { return group_.account(); }
  bool reset_peak() override { return group_.reset_peak(); }

 private:
  ControlGroup group_;
  Bytes bytes_;
};

// RLIMIT_DATA counts private writable memory (heap, anonymous maps) and refuses more. Unlike RLIMIT_AS, it
// lets a GPU runtime reserve address space. Shared memory escapes it, and it applies to each process
// separately, so the conductor also samples the memory.
class DataLimit : public MemoryLimit {
 public:
  explicit DataLimit(Bytes bytes) : bytes_(bytes) {}
  LimitMechanism mechanism() const override { return LimitMechanism::rlimit_data; }
  Bytes bytes() const override { return bytes_; }
  std::function<int()> entry() override {
    const auto bound = static_cast<rlim_t>(bytes_.count);
    return [bound] {
      // The session may have a lower hard limit (ulimit -Hd), which only root can raise. Then that limit
      // applies.
      rlimit limit{};
      if (::getrlimit(RLIMIT_DATA, &limit) != 0) return errno;
      if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > bound) limit.rlim_max = bound;
      limit.rlim_cur = limit.rlim_max;
      return ::setrlimit(RLIMIT_DATA, &limit) == 0 ? 0 : errno;
    };
  }
  CgroupMemory account() const override { return {}; }
  bool reset_peak() override { return false; }

 private:
  Bytes bytes_;
};

// Enforces nothing: the conductor samples, counts and reports (watchdog), or only reports (none).
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

Result<GroupParent> prepare_parent() {
  const auto own = find_own_group();
  if (!own) return tl::unexpected<Error>(own.error());
  auto parent = GroupParent::prepare(*own);
  if (parent) remove_stale_groups(parent->folder());
  return parent;
}

Result<ControlGroup> make_group(std::string_view label, std::optional<Bytes> bytes) {
  // Once per process: with cgroup v2, this process may have to move to another group.
  static const Result<GroupParent> parent = prepare_parent();
  if (!parent) return tl::unexpected<Error>(parent.error());
  static int count = 0;
  std::string name = fmt::format("{}{}-{}-{}", kGroupPrefix, ::getpid(), ++count, label.substr(0, 150));
  for (char& c : name)
    if (c == '/' || c == '\n' || c == ' ') c = '_';
  return ControlGroup::create(*parent, name, bytes);
}

std::string note_on_size(Bytes bytes) {
  const Bytes ram{::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE)};
  if (bytes <= ram) return {};
  return fmt::format("the limit of {} is more than this machine's memory of {}", format_bytes(bytes),
                     format_bytes(ram));
}

std::string note_on_session_limit(Bytes bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_max == RLIM_INFINITY ||
      limit.rlim_max >= static_cast<rlim_t>(bytes.count))
    return {};
  return fmt::format("this session allows at most {} per process (ulimit -Hd), which applies instead of {}",
                     format_bytes(Bytes{static_cast<std::int64_t>(limit.rlim_max)}), format_bytes(bytes));
}

void append_sentence(std::string& note, std::string_view sentence) {
  if (sentence.empty()) return;
  if (!note.empty()) note += "; ";
  note += sentence;
}

}  // namespace

Result<std::unique_ptr<MemoryLimit>> make_memory_limit(std::string_view label, std::optional<Bytes> bytes,
                                                       std::string_view forced, std::string& note) {
  using LimitPointer = std::unique_ptr<MemoryLimit>;
  constexpr std::array<std::string_view, 6> kMechanisms{"", "auto", "cgroup", "rlimit", "watchdog", "none"};
  if (std::find(kMechanisms.begin(), kMechanisms.end(), forced) == kMechanisms.end())
    return usage_error(fmt::format("unknown --limit-mechanism '{}'", forced), "",
                       "use auto, cgroup, rlimit, watchdog or none");
  if (bytes && *bytes < kSmallestLimit)
    return usage_error(fmt::format("the memory limit of {} is too small", format_bytes(*bytes)),
                       "no Headroom process can start with it",
                       fmt::format("use at least {}", format_bytes(kSmallestLimit)));
  note.clear();
  if (bytes) append_sentence(note, note_on_size(*bytes));

  const bool automatic = forced.empty() || forced == "auto";
  if (automatic || forced == "cgroup") {
    auto group = make_group(label, bytes);
    if (group) return LimitPointer(new GroupLimit(std::move(*group), bytes.value_or(Bytes{})));
    if (!automatic) return forward_error(group);
    if (bytes) append_sentence(note, group.error().sentence());
  }
  if (!bytes) return LimitPointer(new WatchedLimit(LimitMechanism::none, Bytes{}));
  if (forced == "none") return LimitPointer(new WatchedLimit(LimitMechanism::none, *bytes));
  if (forced == "watchdog") return LimitPointer(new WatchedLimit(LimitMechanism::watchdog, *bytes));
  append_sentence(note, note_on_session_limit(*bytes));
  return LimitPointer(new DataLimit(*bytes));
}

}  // namespace headroom::limits
