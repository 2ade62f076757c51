#include "limits/memory_limit.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/files.h"
#include "base/json.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "limits/control_group.h"

namespace headroom::limits {
namespace {

// With less, no Headroom process can start.
constexpr Bytes kSmallestLimit = mebibytes(8);

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

std::function<int()> MemoryLimit::entry() const {
  if (group_) {
    const int fd = group_->entry_fd();
    return [fd] { return ::write(fd, "0", 1) == 1 ? 0 : errno; };  // 0 means the writing process
  }
  if (mechanism_ != LimitMechanism::rlimit_data) return {};
  // RLIMIT_DATA counts private writable memory (heap, anonymous maps) and refuses more. Unlike RLIMIT_AS, it
  // lets a GPU runtime reserve address space. Shared memory escapes it, and it applies to each process
  // separately, so the conductor also samples the memory.
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

Result<std::unique_ptr<MemoryLimit>> make_memory_limit(std::string_view label, std::optional<Bytes> bytes,
                                                       std::string_view forced, std::string& note) {
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
    if (group) return std::make_unique<MemoryLimit>(std::move(*group), bytes.value_or(Bytes{}));
    if (!automatic) return forward_error(group);
    if (bytes) append_sentence(note, group.error().sentence());
  }
  // These enforce nothing: the conductor samples, counts and reports (watchdog), or only reports (none).
  if (!bytes || forced == "none")
    return std::make_unique<MemoryLimit>(LimitMechanism::none, bytes.value_or(Bytes{}));
  if (forced == "watchdog") return std::make_unique<MemoryLimit>(LimitMechanism::watchdog, *bytes);
  append_sentence(note, note_on_session_limit(*bytes));
  return std::make_unique<MemoryLimit>(LimitMechanism::rlimit_data, *bytes);
}

// The probe shows how well a limit is enforced. For each route (probe_routes.cpp), a child under the same
// mechanism tries to allocate twice a small limit. The children run one after another, so at most 128 MiB are
// allocated at any time.

namespace {

// All routes take 0.5 s on two 2.5 GHz cores. This timeout is for a child that hangs.
constexpr Nanoseconds kTimeForAll{10'000'000'000};

// What a route's trial shows about the limit.
enum class Evidence {
  held,      // refused or killed at the limit
  escaped,   // the child allocated more than the limit
  no_route,  // this machine does not have the route, so nothing can escape by it
  nothing,   // the trial did not work
};

struct Trial {
  LimitRoute route;
  Evidence evidence = Evidence::nothing;
};

Trial not_tried(const std::string& route, Evidence evidence, std::string detail) {
  return {{route, "not_tried", std::move(detail)}, evidence};
}

// The child's last report. The child may have been killed in the middle of a line.
struct LastReport {
  std::optional<Bytes> taken;
  int stopped_by = 0;
};

LastReport last_report(std::string_view output) {
  LastReport report;
  for (const std::string_view line : split(output, '\n')) {
    const auto json = parse_json(line, "a probe's line");
    if (!json) continue;
    if (const auto taken = get_bytes(*json, "taken_bytes")) report.taken = taken;
    report.stopped_by = static_cast<int>(get_integer(*json, "stopped_by").value_or(0));
  }
  return report;
}

bool means_no_such_route(int error_number) {
  return error_number == ENOSYS || error_number == EOPNOTSUPP || error_number == ENOENT ||
         error_number == EACCES || error_number == EPERM || error_number == EROFS || error_number == EISDIR;
}

// `oom_kills` is the group's own count. SIGKILL alone is no proof, because any process can send it. Kernels
// before 4.13 do not count.
Trial judge(const std::string& route, const ExitStatus& status, const LastReport& report, Bytes limit,
            std::optional<std::int64_t> oom_kills) {
  if (!report.taken)
    return not_tried(route, Evidence::nothing,
                     fmt::format("the probe did not start under a limit of {}: {}", format_bytes(limit),
                                 status.describe()));
  const std::string taken = format_bytes(*report.taken);
  if (*report.taken > limit)
    return {{route, "escaped", fmt::format("allocated {} under a limit of {}", taken, format_bytes(limit))},
            Evidence::escaped};
  const bool counted = oom_kills.value_or(0) > 0;
  if (counted || (status.signal == SIGKILL && !oom_kills))
    return {{route, "killed", fmt::format("by the kernel's OOM killer after {}", taken)}, Evidence::held};
  if (status.signal != 0 || report.stopped_by == 0)
    return not_tried(route, Evidence::nothing,
                     fmt::format("the probe ended with {} after {}", status.describe(), taken));
  const std::string why = errno_text(report.stopped_by);
  if (*report.taken == Bytes{} && means_no_such_route(report.stopped_by))
    return not_tried(route, Evidence::no_route, fmt::format("not available on this machine: {}", why));
  return {{route, "refused", fmt::format("{} after {}", why, taken)}, Evidence::held};
}

std::string read_available(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    pollfd polled{fd, POLLIN, 0};
    // a descendant that outlived the child may hold the pipe open
    if (::poll(&polled, 1, 0) <= 0) return text;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

Trial try_route(const std::string& route, std::vector<std::string> command, MemoryLimit& limit,
                Nanoseconds deadline) {
  auto output = Pipe::create();
  if (!output) return not_tried(route, Evidence::nothing, output.error().sentence());
  const std::string target = std::to_string(2 * limit.bytes().count);
  command.insert(command.end(), {"--route", route, "--target", target});
  SpawnOptions options;
  options.command = std::move(command);
  options.stdout_fd = output->write_end.get();
  // A dynamic linker that runs out of memory prints long messages. They go to the same pipe, and only JSON
  // lines are parsed.
  options.stderr_fd = output->write_end.get();
  options.before_exec = limit.entry();
  auto child = Subprocess::spawn(options);
  if (!child) return not_tried(route, Evidence::nothing, child.error().sentence());
  output->write_end.reset();
  const auto status = child->wait_for(deadline - monotonic_now());
  if (!status) return not_tried(route, Evidence::nothing, "the probe did not end in time");
  const LastReport report = last_report(read_available(output->read_end.get()));
  return judge(route, *status, report, limit.bytes(), limit.account().oom_kills);
}

std::string names_of(const std::vector<Trial>& trials, Evidence evidence) {
  std::string names;
  for (const Trial& trial : trials)
    if (trial.evidence == evidence) names += (names.empty() ? "" : ", ") + trial.route.name;
  return names;
}

// A limit is hard only if every route of this machine is proved.
void classify(const std::vector<Trial>& trials, Limit& limit) {
  const std::string escaped = names_of(trials, Evidence::escaped);
  const std::string unproved = names_of(trials, Evidence::nothing);
  limit.type = escaped.empty() && unproved.empty() ? LimitType::hard : LimitType::soft;
  if (!escaped.empty()) append_sentence(limit.note, "memory escapes the limit by " + escaped);
  if (!unproved.empty()) append_sentence(limit.note, "the probe could not try " + unproved);
}

Limit without_enforcement(Limit limit) {
  limit.type = limit.mechanism == LimitMechanism::watchdog ? LimitType::soft : LimitType::unavailable;
  for (const std::string& route : probe_routes())
    limit.routes.push_back({route, "not_tried", "this mechanism does not refuse memory"});
  return limit;
}

}  // namespace

Result<Limit> probe_limit(Bytes bytes, std::string_view forced, std::vector<std::string> child_command) {
  if (child_command.empty()) child_command = {own_executable().string(), "_probe"};
  Limit limit;
  limit.bytes = bytes;
  // The real limit is made once, too: it must be possible, and the user must see its error.
  auto real = make_memory_limit("check", bytes, forced, limit.note);
  if (!real) return forward_error(real);
  limit.mechanism = (*real)->mechanism();
  if (limit.mechanism == LimitMechanism::none || limit.mechanism == LimitMechanism::watchdog)
    return without_enforcement(std::move(limit));
  real->reset();

  const Nanoseconds deadline = monotonic_now() + kTimeForAll;
  std::vector<Trial> trials;
  for (const std::string& route : probe_routes()) {
    std::string note;
    auto small = make_memory_limit("probe-" + route, std::min(bytes, kLargestProbe), forced, note);
    trials.push_back(small ? try_route(route, child_command, **small, deadline)
                           : not_tried(route, Evidence::nothing, small.error().sentence()));
    limit.routes.push_back(trials.back().route);
  }
  classify(trials, limit);
  return limit;
}

void note_unproved_cuda_memory(Limit& limit) {
  limit.routes.push_back({std::string(kCudaRoute), "not_tried", std::string(kCudaNotProved)});
  if (limit.type == LimitType::unavailable) return;
  limit.type = LimitType::soft;
  append_sentence(limit.note, kCudaNotProved);
}

}  // namespace headroom::limits
