// What is a limit worth? Children under the same mechanism try to take twice a small limit, each by one
// route. They stop at their target even if nothing stops them, so the probe never fills the machine.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "base/files.h"
#include "base/json.h"
#include "base/subprocess.h"
#include "limits/memory_limit.h"

namespace headroom::limits {
namespace {

// Small enough to be quick (16,000 pages to touch), large enough that a process with its libraries fits.
constexpr Bytes kProbeLimit = mebibytes(64);
constexpr std::size_t kStep = std::size_t{1} << 20;
constexpr Nanoseconds kProbeTimeout{5'000'000'000};
constexpr int kRefusedExit = 10;  // a probe child's exit code when an allocation was refused

void touch(void* memory) {
  std::memset(memory, 1, kStep);
  // The compiler may drop an allocation that nobody reads; here it must believe that somebody does.
  asm volatile("" : : "r"(memory) : "memory");
}

bool take_malloc() {
  void* memory = std::malloc(kStep);
  if (memory == nullptr) return false;
  touch(memory);
  return true;
}

bool take_mapping(int flags, int fd, off_t offset) {
  void* memory = ::mmap(nullptr, kStep, PROT_READ | PROT_WRITE, flags, fd, offset);
  if (memory == MAP_FAILED) return false;
  touch(memory);
  return true;
}

bool take_brk() {
  void* memory = ::sbrk(static_cast<intptr_t>(kStep));
  if (memory == reinterpret_cast<void*>(-1)) return false;
  touch(memory);
  return true;
}

bool take_from_file(int fd, std::int64_t taken) {
  return ::ftruncate(fd, taken + static_cast<std::int64_t>(kStep)) == 0 &&
         take_mapping(MAP_SHARED, fd, taken);
}

// Takes a step at a time until refused or done; returns what was taken.
template <class Take>
std::int64_t take_until(Bytes target, Take take) {
  std::int64_t taken = 0;
  while (taken < target.count && take(taken)) taken += static_cast<std::int64_t>(kStep);
  return taken;
}

// Two processes that each stay below the limit, together above it: is it one account for the whole tree?
std::int64_t take_by_fork(Bytes target) {
  const Bytes each{target.count * 3 / 10};
  auto ready = Pipe::create();
  auto hold = Pipe::create();
  if (!ready || !hold) return 0;
  std::array<pid_t, 2> children{};
  for (pid_t& child : children) {
    child = ::fork();
    if (child != 0) continue;
    hold->write_end.reset();
    const std::int64_t taken = take_until(each, [](std::int64_t) { return take_malloc(); });
    [[maybe_unused]] const auto told = write_all(ready->write_end.get(), taken >= each.count ? "y" : "n");
    char byte = 0;
    [[maybe_unused]] const ssize_t released =
        ::read(hold->read_end.get(), &byte, 1);  // until the parent closes it
    ::_exit(0);
  }
  ready->write_end.reset();
  int whole = 0;
  char byte = 0;
  // Ends when both have answered, or when those that were killed have closed their ends and the rest
  // answered.
  for (int answers = 0; answers < 2; ++answers) {
    pollfd polled{ready->read_end.get(), POLLIN, 0};
    if (::poll(&polled, 1, 2000) <= 0 || ::read(ready->read_end.get(), &byte, 1) != 1) break;
    whole += byte == 'y' ? 1 : 0;
  }
  hold->write_end.reset();
  for (const pid_t child : children)
    if (child > 0) ::waitpid(child, nullptr, 0);
  return whole == 2 ? target.count : whole * each.count;
}

std::int64_t take_by(std::string_view route, Bytes target) {
  if (route == "malloc_touch") return take_until(target, [](std::int64_t) { return take_malloc(); });
  if (route == "mmap_private")
    return take_until(target, [](std::int64_t) { return take_mapping(MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); });
  if (route == "mmap_shared")
    return take_until(target, [](std::int64_t) { return take_mapping(MAP_SHARED | MAP_ANONYMOUS, -1, 0); });
  if (route == "brk") return take_until(target, [](std::int64_t) { return take_brk(); });
  if (route == "fork") return take_by_fork(target);
  if (route == "memfd") {
    UniqueFd fd(::memfd_create("headroom-probe", MFD_CLOEXEC));
    return fd ? take_until(target, [&](std::int64_t taken) { return take_from_file(fd.get(), taken); }) : 0;
  }
  return 0;
}

// --- the conductor's side
// -----------------------------------------------------------------------------------

LimitRoute judge(const std::string& route, const std::optional<ExitStatus>& status, const std::string& said) {
  LimitRoute result{route, "not_tried", ""};
  if (!status) {
    result.detail = "the probe gave no answer in time";
    return result;
  }
  if (status->signal == SIGKILL) {
    result.outcome = "killed";
    result.detail = "by the kernel";
    return result;
  }
  const auto answer = parse_json(said, "a probe's answer");
  const auto taken = answer ? get_bytes(*answer, "taken_bytes") : std::nullopt;
  if (!taken) {
    result.detail = fmt::format("the probe ended with {}", status->describe());
    return result;
  }
  result.outcome = status->exit_code == kRefusedExit ? "refused" : "escaped";
  result.detail = fmt::format("after {}", format_bytes(*taken));
  return result;
}

LimitRoute try_route(const std::string& route, MemoryLimit& limit) {
  auto output = Pipe::create();
  if (!output) return {route, "not_tried", output.error().sentence()};
  SpawnOptions options;
  options.command = {(executable_folder() / "headroom").string(), "_probe", "--route", route, "--target",
                     std::to_string(2 * kProbeLimit.count)};
  options.stdout_fd = output->write_end.get();
  options.before_exec = limit.entry();
  auto child = Subprocess::spawn(options);
  if (!child) return {route, "not_tried", child.error().sentence()};
  output->write_end.reset();
  auto status = child->wait_for(kProbeTimeout);
  if (!status) {
    child->signal(SIGKILL);
    child->wait();
    return judge(route, std::nullopt, "");
  }
  std::array<char, 512> buffer;
  const ssize_t got = ::read(output->read_end.get(), buffer.data(), buffer.size());
  return judge(route, status,
               std::string(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(0, got))));
}

LimitType classify(const std::vector<LimitRoute>& routes, LimitMechanism mechanism) {
  if (mechanism == LimitMechanism::none) return LimitType::unavailable;
  if (mechanism == LimitMechanism::watchdog) return LimitType::soft;
  const auto held = [](const LimitRoute& route) {
    return route.outcome == "refused" || route.outcome == "killed";
  };
  return std::all_of(routes.begin(), routes.end(), held) ? LimitType::hard : LimitType::soft;
}

}  // namespace

std::vector<std::string> probe_routes() {
  return {"malloc_touch", "mmap_private", "mmap_shared", "brk", "memfd", "fork"};
}

int run_limit_probe(std::string_view route, Bytes target) {
  const std::int64_t taken = take_by(route, target);
  Json answer;
  answer["route"] = route;
  answer["taken_bytes"] = taken;
  [[maybe_unused]] const auto sent = write_all(STDOUT_FILENO, to_line(answer) + "\n");
  return taken >= target.count ? 0 : kRefusedExit;
}

Result<Limit> probe_limit(Bytes bytes, std::string_view forced) {
  Limit result;
  result.bytes = bytes;
  // The real limit is made once too: it must be possible, and its own refusal is the person's to read.
  auto real = make_memory_limit("check", bytes, forced, result.note);
  if (!real) return forward_error(real);
  result.mechanism = (*real)->mechanism();
  real->reset();
  for (const std::string& route : probe_routes()) {
    std::string note;
    auto limit = make_memory_limit("probe", kProbeLimit, forced, note);
    if (!limit) return forward_error(limit);
    const bool enforces =
        result.mechanism != LimitMechanism::none && result.mechanism != LimitMechanism::watchdog;
    result.routes.push_back(enforces ? try_route(route, **limit)
                                     : LimitRoute{route, "not_tried", "nothing here refuses memory"});
  }
  result.type = classify(result.routes, result.mechanism);
  return result;
}

}  // namespace headroom::limits
