#include "trace/traced_command.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/files.h"
#include "base/text.h"

namespace headroom::trace {
namespace fs = std::filesystem;
namespace {

constexpr std::array kForwarded{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

std::atomic<pid_t> g_child{0};
static_assert(std::atomic<pid_t>::is_always_lock_free, "a signal handler reads it");

// The terminal sends its signals (SI_KERNEL) to the whole group, so the command has already received those.
void forward(int number, siginfo_t* info, void* /*context*/) {
  const int error_before = errno;
  const pid_t child = g_child.load();
  if (child > 0 && info->si_code != SI_KERNEL) ::kill(child, number);
  errno = error_before;
}

// Stays installed for the rest of this process's life: signals after the command's end have no effect.
// `timeout` and other tools signal this process and then its group; the second signal must not end it while
// it finishes the recordings. Ignored signals stay ignored, also in the command (nohup).
void forward_signals() {
  for (const int number : kForwarded) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    struct sigaction ours {};
    ours.sa_sigaction = forward;
    ours.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&ours.sa_mask);
    ::sigaction(number, &ours, nullptr);
  }
}

void block_forwarded_signals() {
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int number : kForwarded) sigaddset(&blocked, number);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
}

// How often the kernel's out-of-memory killer struck on this machine, including limits of control groups.
std::int64_t out_of_memory_kills() {
  const auto text = read_small_file("/proc/vmstat");
  if (!text) return 0;
  for (const std::string_view line : split(*text, '\n'))
    if (line.starts_with("oom_kill ")) return parse_number<std::int64_t>(line.substr(9)).value_or(0);
  return 0;
}

int descriptor_or_none(int fd) { return ::fcntl(fd, F_GETFD) >= 0 ? fd : -1; }

void wait_until_over(pid_t child) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
}

constexpr const char* kDynamicFix = "link it dynamically, or trace another program";

std::string cannot_trace(const fs::path& program) { return fmt::format("cannot trace {}", program.string()); }

// Reads bytes at an offset; fewer at the end of the file.
std::string read_at(int fd, std::size_t bytes, std::uint64_t offset) {
  std::string content(bytes, '\0');
  const ssize_t got = ::pread(fd, content.data(), bytes, static_cast<off_t>(offset));
  content.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return content;
}

std::optional<ElfW(Ehdr)> elf_header(int fd) {
  const std::string bytes = read_at(fd, sizeof(ElfW(Ehdr)), 0);
  if (bytes.size() < EI_NIDENT + 4 || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) return std::nullopt;
  ElfW(Ehdr) header{};
  std::memcpy(&header, bytes.data(), bytes.size());
  return header;
}

// e_machine is at the same offset in 32-bit and 64-bit files.
std::string architecture_of(const ElfW(Ehdr) & header) {
  constexpr std::pair<int, const char*> kNames[] = {{EM_386, "x86 (32 bits)"}, {EM_X86_64, "x86-64"},
                                                    {EM_ARM, "Arm (32 bits)"}, {EM_AARCH64, "AArch64"},
                                                    {EM_RISCV, "RISC-V"},      {EM_PPC64, "PowerPC"}};
  if (header.e_machine == EM_X86_64 && header.e_ident[EI_CLASS] == ELFCLASS32) return "x32";
  for (const auto& [machine, name] : kNames)
    if (header.e_machine == machine) return name;
  return fmt::format("ELF machine {}", header.e_machine);
}

std::vector<ElfW(Phdr)> program_headers(int fd, const ElfW(Ehdr) & header) {
  const std::string table = read_at(fd, std::size_t{header.e_phnum} * sizeof(ElfW(Phdr)),
                                    static_cast<std::uint64_t>(header.e_phoff));
  std::vector<ElfW(Phdr)> headers(table.size() / sizeof(ElfW(Phdr)));
  std::memcpy(headers.data(), table.data(), headers.size() * sizeof(ElfW(Phdr)));
  return headers;
}

const ElfW(Phdr) * segment_of(const std::vector<ElfW(Phdr)>& headers, decltype(ElfW(Phdr)::p_type) type) {
  const auto found = std::ranges::find(headers, type, &ElfW(Phdr)::p_type);
  return found == headers.end() ? nullptr : &*found;
}

// The path of the dynamic loader that the program requests; empty if it requests none.
std::string loader_of(int fd, const std::vector<ElfW(Phdr)>& headers) {
  const ElfW(Phdr)* const segment = segment_of(headers, PT_INTERP);
  if (segment == nullptr) return {};
  return read_at(fd, std::min<std::size_t>(segment->p_filesz, 4096), segment->p_offset).c_str();
}

// The names of all dynamic symbols and libraries, separated by NULs.
std::string dynamic_names(int fd, const std::vector<ElfW(Phdr)>& headers) {
  constexpr std::size_t kMostBytes = 64 << 20;  // a browser has 10 MB
  const ElfW(Phdr)* const dynamic = segment_of(headers, PT_DYNAMIC);
  if (dynamic == nullptr) return {};
  const std::string entries =
      read_at(fd, std::min<std::size_t>(dynamic->p_filesz, 1 << 16), dynamic->p_offset);
  std::uint64_t address = 0, bytes = 0;
  for (std::size_t at = 0; at + sizeof(ElfW(Dyn)) <= entries.size(); at += sizeof(ElfW(Dyn))) {
    ElfW(Dyn) entry{};
    std::memcpy(&entry, entries.data() + at, sizeof entry);
    if (entry.d_tag == DT_STRTAB) address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) bytes = entry.d_un.d_val;
  }
  for (const ElfW(Phdr) & segment : headers)
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz)
      return read_at(fd, std::min<std::size_t>(bytes, kMostBytes),
                     segment.p_offset + (address - segment.p_vaddr));
  return {};
}

// These sanitizers bring their own malloc. With another library before it, AddressSanitizer ends the program,
// and ThreadSanitizer crashes. UBSan and the stand-alone leak check have no such problem.
std::string_view sanitizer_of(const std::string& names) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kEntries{
      {{"__asan_init", "AddressSanitizer"},
       {"__hwasan_init", "HWAddressSanitizer"},
       {"__msan_init", "MemorySanitizer"},
       {"__tsan_init", "ThreadSanitizer"}}};
  for (const auto& [entry, name] : kEntries)
    if (names.find('\0' + std::string(entry) + '\0') != std::string::npos) return name;
  return {};
}

Status check_elf(const fs::path& program, int fd, const ElfW(Ehdr) & header, const fs::path& library) {
  const UniqueFd library_fd(::open(library.c_str(), O_RDONLY | O_CLOEXEC));
  const auto expected = library_fd ? elf_header(library_fd.get()) : std::nullopt;
  if (expected &&
      (header.e_machine != expected->e_machine || header.e_ident[EI_CLASS] != expected->e_ident[EI_CLASS] ||
       header.e_ident[EI_DATA] != expected->e_ident[EI_DATA]))
    return usage_error(cannot_trace(program),
                       fmt::format("it is a program for {}, and Headroom's library is for {}",
                                   architecture_of(header), architecture_of(*expected)),
                       "use a Headroom build for that architecture");
  const std::vector<ElfW(Phdr)> segments = program_headers(fd, header);
  const std::string loader = loader_of(fd, segments);
  // The loader itself, with the program as its argument, requests no loader but honors LD_PRELOAD.
  if (loader.empty() && program.filename().string().starts_with("ld-linux")) return {};
  if (loader.empty())
    return usage_error(cannot_trace(program), "it is statically linked, so no library can be loaded into it",
                       kDynamicFix);
  if (loader.find("ld-musl") != std::string::npos)
    return usage_error(
        cannot_trace(program),
        fmt::format("it uses the C library musl ({}), and Headroom's library needs glibc", loader),
        "build it for glibc, or trace another program");
  if (const std::string_view sanitizer = sanitizer_of(dynamic_names(fd, segments)); !sanitizer.empty())
    return usage_error(cannot_trace(program),
                       fmt::format("it was built with {}, whose malloc must not be intercepted", sanitizer),
                       "build it without -fsanitize, or trace another program");
  return {};
}

// If a program gains rights when it starts, the loader ignores LD_PRELOAD. No program gains rights on a file
// system mounted nosuid, or if it is set to the current user.
Status check_rights(const fs::path& program) {
  struct stat info {};
  struct statvfs mount {};
  if (::stat(program.c_str(), &info) != 0) return {};
  if (::statvfs(program.c_str(), &mount) == 0 && (mount.f_flag & ST_NOSUID) != 0) return {};
  const char* fix = "run it as the user or group that it is set to";
  const auto refuse = [&](const char* what) {
    return usage_error(cannot_trace(program),
                       fmt::format("it {}, and the loader ignores LD_PRELOAD for such programs", what), fix);
  };
  if ((info.st_mode & S_ISUID) != 0 && info.st_uid != ::getuid()) return refuse("is setuid");
  const bool setgid = (info.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP);
  if (setgid && info.st_gid != ::getgid()) return refuse("is setgid");
  if (::getuid() != 0 && ::getxattr(program.c_str(), "security.capability", nullptr, 0) > 0) {
    fix = "run it as root, or trace a copy (copies have no capabilities)";
    return refuse("has file capabilities");
  }
  return {};
}

// "#!/usr/bin/env python3" → "/usr/bin/env"; empty if the script names none.
std::string interpreter_of(std::string_view first_bytes) {
  const std::string_view line = first_bytes.substr(2, first_bytes.find('\n') - 2);
  const auto words = split_words(line);
  return words.empty() ? std::string() : std::string(words.front());
}

Status check_executable(const std::string& name, const fs::path& path) {
  const std::string what = fmt::format("cannot run {}", name);
  std::error_code code;
  if (fs::is_directory(path, code)) return usage_error(what, "it is a folder", "give the path of a program");
  if (::access(path.c_str(), F_OK) != 0) return usage_error(what, errno_text(errno), "check the path");
  if (::access(path.c_str(), X_OK) != 0)
    return usage_error(what, "it is not executable", "check the path, or make it executable with chmod +x");
  return {};
}

}  // namespace

Result<CommandEnd> run_command(const std::vector<std::string>& command, const Environment& environment,
                               const std::function<int()>& before_exec) {
  SpawnOptions options;
  options.command = command;
  options.environment = environment;
  options.stdin_fd = descriptor_or_none(STDIN_FILENO);
  options.stdout_fd = descriptor_or_none(STDOUT_FILENO);
  options.stderr_fd = descriptor_or_none(STDERR_FILENO);
  options.before_exec = before_exec;
  options.new_process_group = false;
  options.die_with_parent = false;

  const std::int64_t kills_before = out_of_memory_kills();
  const Nanoseconds start = monotonic_now();
  forward_signals();
  Subprocess child;
  {
    const SavedSignalMask mask;
    block_forwarded_signals();  // until the child's PID is known
    auto spawned = Subprocess::spawn(options);
    if (!spawned) {
      spawned.error().kind = ErrorKind::usage;
      return forward_error(spawned);
    }
    child = std::move(*spawned);
    g_child = child.pid();
  }
  // The child's PID is not reused until the child is reaped, so a late signal cannot hit another process.
  wait_until_over(child.pid());
  g_child = 0;
  CommandEnd end;
  end.status = child.wait();
  end.duration = monotonic_now() - start;
  end.out_of_memory = end.status.signal == SIGKILL && out_of_memory_kills() > kills_before;
  return end;
}

Result<fs::path> find_program(const std::string& name) {
  if (name.empty()) return usage_error("cannot run a command without a name", "", "name a program after --");
  if (name.find('/') != std::string::npos) {
    if (auto status = check_executable(name, name); !status) return forward_error(status);
    return fs::path(name);
  }
  const char* path = std::getenv("PATH");
  std::optional<Error> found_but_unfit;
  for (const std::string_view folder : split(path != nullptr ? path : "/bin:/usr/bin", ':')) {
    fs::path candidate = (folder.empty() ? fs::path(".") : fs::path(folder)) / name;
    std::error_code code;
    if (!fs::exists(candidate, code)) continue;
    auto status = check_executable(candidate.string(), candidate);
    if (status) return candidate;
    if (!found_but_unfit) found_but_unfit = std::move(status.error());
  }
  if (found_but_unfit) return tl::unexpected<Error>(std::move(*found_but_unfit));
  std::error_code code;
  const bool here = fs::is_regular_file(name, code);
  return usage_error(fmt::format("cannot run {}", name), "it is not in PATH",
                     here ? fmt::format("to run the one in this folder, write ./{}", name)
                          : "check its name, or give its path");
}

Status check_elf_program(const fs::path& program, const fs::path& library) {
  const UniqueFd fd(::open(program.c_str(), O_RDONLY | O_CLOEXEC));
  const auto header = fd ? elf_header(fd.get()) : std::nullopt;
  return header ? check_elf(program, fd.get(), *header, library) : Status{};
}

Status check_traceable(const fs::path& program, const fs::path& library) {
  constexpr int kMostInterpreters = 5;  // Linux's limit
  fs::path path = program;
  for (int depth = 0; depth <= kMostInterpreters; ++depth) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const auto header = fd ? elf_header(fd.get()) : std::nullopt;
    // The setuid bits of a script have no effect. Those of a program do, even if it cannot be read.
    if (!fd || header)
      if (auto status = check_rights(path); !status) return status;
    if (!fd) return {};
    if (header) return check_elf(path, fd.get(), *header, library);
    const std::string first_bytes = read_at(fd.get(), 256, 0);
    std::string interpreter = "/bin/sh";  // execvp runs files that are not programs with this
    if (first_bytes.starts_with("#!")) interpreter = interpreter_of(first_bytes);
    std::error_code code;
    if (!fs::exists(interpreter, code))
      return usage_error(cannot_trace(program),
                         fmt::format("its interpreter '{}' does not exist", interpreter),
                         "correct the script's first line");
    path = interpreter;
  }
  return usage_error(cannot_trace(program), "its interpreters are scripts that refer to each other in a loop",
                     "correct the script's first line");
}

}  // namespace headroom::trace
