#include "trace/attach_checks.h"

#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "trace/traced_command.h"

namespace headroom::trace {
namespace fs = std::filesystem;
namespace {

std::string user_name(std::int64_t id) {
  const passwd* const entry = ::getpwuid(static_cast<uid_t>(id));
  return entry != nullptr ? entry->pw_name : std::to_string(id);
}

// The letter in "State:	S (sleeping)".
char state_in(std::string_view status) {
  for (const std::string_view line : split(status, '\n'))
    if (line.starts_with("State:")) {
      const std::string_view value = trim(line.substr(6));
      return value.empty() ? '?' : value[0];
    }
  return '?';
}

std::string name_of_process(std::int64_t pid) {
  const auto name = read_small_file(fmt::format("/proc/{}/comm", pid));
  return name ? fmt::format("process {} ({})", pid, trim(*name)) : fmt::format("process {}", pid);
}

bool is_same_file(const fs::path& one, const fs::path& other) {
  struct stat a {
  }, b{};
  return ::stat(one.c_str(), &a) == 0 && ::stat(other.c_str(), &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

}  // namespace

std::string cannot_attach(pid_t pid) { return fmt::format("cannot attach to process {}", pid); }

AttachFacts facts_of(pid_t pid) {
  AttachFacts facts;
  facts.status = read_small_file(fmt::format("/proc/{}/status", pid)).value_or("");
  facts.own_status = read_small_file("/proc/self/status").value_or("");
  if (const auto scope = read_small_file("/proc/sys/kernel/yama/ptrace_scope"))
    facts.ptrace_scope = parse_number<int>(trim(*scope));
  facts.user = user_name(status_number(facts.status, "Uid:").value_or(0));
  facts.own_user = user_name(status_number(facts.own_status, "Uid:").value_or(0));
  return facts;
}

Status check_state(pid_t pid, const AttachFacts& facts) {
  if (facts.status.empty())
    return usage_error(cannot_attach(pid), "there is no such process", "check the number with ps or pgrep");
  const auto number = [&](std::string_view key) { return status_number(facts.status, key); };
  if (const auto group = number("Tgid:"); group && *group != pid)
    return usage_error(cannot_attach(pid), fmt::format("it is a thread of process {}", *group),
                       fmt::format("use --pid {}", *group));
  if (pid == ::getpid())
    return usage_error(cannot_attach(pid), "it is headroom itself", "name another process");
  const char state = state_in(facts.status);
  if (state == 'Z' || state == 'X')
    return usage_error(cannot_attach(pid), "it has ended", "check the number with ps or pgrep");
  if (!number("VmSize:"))
    return usage_error(cannot_attach(pid), "it is a thread of the kernel", "name a program's process");
  if (const auto tracer = number("TracerPid:"); tracer && *tracer != 0)
    return usage_error(cannot_attach(pid), fmt::format("{} traces it already", name_of_process(*tracer)),
                       "end that debugger or tracer first");
  if (state == 'T' || state == 't')
    return usage_error(cannot_attach(pid), "it is stopped",
                       fmt::format("continue it with kill -CONT {}", pid));
  // A container's own filter also applies to headroom in it, and allows what the recorder needs.
  const std::int64_t filter = number("Seccomp:").value_or(0);
  const std::int64_t filters = number("Seccomp_filters:").value_or(0);
  const std::int64_t own_filters = status_number(facts.own_status, "Seccomp_filters:").value_or(0);
  if (filter == 1 || filters > own_filters)
    return usage_error(cannot_attach(pid),
                       "its seccomp filter may end it at a system call that recording needs",
                       "start it without that filter (a sandbox), or trace another process");
  return {};
}

Error forbidden_by_kernel(pid_t pid, const AttachFacts& facts) {
  Error error{ErrorKind::usage, cannot_attach(pid), "", ""};
  const int scope = facts.ptrace_scope.value_or(0);
  if (scope >= 3) {
    error.why = "kernel.yama.ptrace_scope is 3, which forbids all attaching";
    error.fix = "remove that setting and restart the machine, or start the program with headroom trace --";
  } else if (facts.user != facts.own_user) {
    error.why = fmt::format("it belongs to user {}, and headroom runs as {}", facts.user, facts.own_user);
    error.fix = "run headroom with sudo, or as that user";
  } else if (scope > 0) {
    error.why = fmt::format("kernel.yama.ptrace_scope is {}, so only root may attach to it", scope);
    error.fix = scope == 1 ? "run sudo sysctl kernel.yama.ptrace_scope=0, or run headroom with sudo"
                           : "run headroom with sudo";
  } else {
    error.why =
        "the kernel forbids it: the process gained rights at its start, or the container lacks "
        "CAP_SYS_PTRACE";
    error.fix = "run headroom with sudo (in Docker: docker run --cap-add SYS_PTRACE)";
  }
  return error;
}

std::string recorder_in(const std::vector<Mapping>& mappings) {
  for (const Mapping& mapping : mappings) {
    const std::string name = fs::path(mapping.path).filename().string();
    if (name.starts_with("libheadroom_trace.so") || name.starts_with("libheadroom_trace_gpu.so") ||
        name.starts_with("libheadroom_memory_tracer.so"))
      return name;
  }
  return {};
}

Status check_program(const RemoteProcess& process, const fs::path& library) {
  const std::string what = cannot_attach(process.pid());
  const fs::path link = process.folder() / "exe";
  std::error_code code;
  fs::path program = fs::read_symlink(link, code);
  if (!is_same_file(program, link)) program = link;  // deleted, or in a container
  if (auto fine = check_elf_program(program, library); !fine) {
    fine.error().what = what;
    return fine;
  }
  const std::vector<Mapping> mappings = process.mappings();
  if (const std::string recorder = recorder_in(mappings); !recorder.empty())
    return usage_error(what, fmt::format("Headroom records it already ({})", recorder),
                       "use that recording, or start the program without it");
  if (process.base_of("libc.so.6") == 0 && process.base_of("libc-2.") == 0)
    return usage_error(what, "it has not loaded glibc, the C library that Headroom's library needs",
                       "trace another program");
  for (const Mapping& mapping : mappings)
    for (const std::string_view name : {"libasan.so", "libtsan.so", "libhwasan.so", "libclang_rt.asan"})
      if (fs::path(mapping.path).filename().string().starts_with(name))
        return usage_error(what, fmt::format("it has loaded {}, whose malloc must not be intercepted", name),
                           "start it without the sanitizer");
  if (!is_same_file(library, process.folder() / "root" / library.relative_path()))
    return usage_error(what, fmt::format("{} is not visible in it: it runs in a container", library.string()),
                       "mount Headroom's folder at the same path there, or run headroom in the container");
  return {};
}

}  // namespace headroom::trace
