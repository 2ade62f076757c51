#include "trace/attach_thread.h"

#include <elf.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/text.h"

namespace headroom::trace {
namespace fs = std::filesystem;
namespace {

constexpr int kSystemCallStop = SIGTRAP | 0x80;  // with PTRACE_O_TRACESYSGOOD
constexpr int kEventStop = 128;  // PTRACE_EVENT_STOP, which not all versions of the C library define
constexpr Nanoseconds kCallTimeout{30'000'000'000};

void* as_pointer(std::uintptr_t number) { return reinterpret_cast<void*>(number); }

// --- the two machines

#if defined(__x86_64__)
using Registers = user_regs_struct;
constexpr int kVectorSets[] = {NT_X86_XSTATE, NT_PRFPREG};
constexpr std::uint8_t kSystemCallCode[] = {0x0f, 0x05};  // syscall
constexpr std::uint64_t kRedZone = 128;

std::uint64_t pc_of(const Registers& r) { return r.rip; }
std::uint64_t sp_of(const Registers& r) { return r.rsp; }
// At the entry of a system call, the kernel has moved the number from rax to orig_rax.
std::uint64_t returned_at_landing(const Registers& r) { return r.orig_rax; }

void set_call(Registers& r, std::uint64_t function, std::uint64_t stack,
              const std::vector<std::uint64_t>& arguments) {
  unsigned long long* const places[] = {&r.rdi, &r.rsi, &r.rdx, &r.rcx, &r.r8, &r.r9};
  for (std::size_t i = 0; i < arguments.size(); ++i) *places[i] = arguments[i];
  r.rax = 0;
  r.rip = function;
  r.rsp = stack;
  r.eflags &= ~std::uint64_t{0x400};  // the direction flag is clear at a call
  r.orig_rax = ~std::uint64_t{0};     // the kernel must not restart the interrupted call now
}
#elif defined(__aarch64__)
using Registers = user_regs_struct;
#ifndef NT_ARM_SVE
#define NT_ARM_SVE 0x405
#endif
constexpr int kVectorSets[] = {NT_ARM_SVE, NT_PRFPREG};
constexpr std::uint8_t kSystemCallCode[] = {0x01, 0x00, 0x00, 0xd4};  // svc #0
constexpr std::uint64_t kRedZone = 128;  // the platform has none; code of a just-in-time compiler may
constexpr int kLinkRegister = 30, kNumberRegister = 8;

std::uint64_t pc_of(const Registers& r) { return r.pc; }
std::uint64_t sp_of(const Registers& r) { return r.sp; }
std::uint64_t returned_at_landing(const Registers& r) { return r.regs[0]; }

void set_call(Registers& r, std::uint64_t function, std::uint64_t stack,
              const std::vector<std::uint64_t>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) r.regs[i] = arguments[i];
  r.pc = function;
  r.sp = stack;
}
#else
#error "attaching is defined for x86-64 and AArch64"
#endif

bool read_set(pid_t thread, int set, std::vector<std::uint8_t>& bytes) {
  bytes.resize(64 << 10);  // AVX-512 with AMX needs 11 KiB, SVE up to 17 KiB
  iovec place{bytes.data(), bytes.size()};
  if (::ptrace(PTRACE_GETREGSET, thread, as_pointer(static_cast<unsigned>(set)), &place) != 0) return false;
  bytes.resize(place.iov_len);
  return !bytes.empty();
}
bool write_set(pid_t thread, int set, const void* bytes, std::size_t size) {
  iovec place{const_cast<void*>(bytes), size};
  return ::ptrace(PTRACE_SETREGSET, thread, as_pointer(static_cast<unsigned>(set)), &place) == 0;
}
bool write_registers(pid_t thread, const Registers& registers) {
  return write_set(thread, NT_PRSTATUS, &registers, sizeof registers);
}

Registers registers_in(const std::vector<std::uint8_t>& bytes) {
  Registers registers{};
  std::memcpy(&registers, bytes.data(), std::min(bytes.size(), sizeof registers));
  return registers;
}
std::optional<Registers> read_registers(pid_t thread) {
  std::vector<std::uint8_t> bytes;
  if (!read_set(thread, NT_PRSTATUS, bytes) || bytes.size() < sizeof(Registers)) return std::nullopt;
  return registers_in(bytes);
}

// At the entry of a system call: the kernel skips it.
bool skip_system_call(pid_t thread) {
#if defined(__x86_64__)
  auto registers = read_registers(thread);
  if (!registers) return false;
  registers->orig_rax = ~std::uint64_t{0};
  return write_registers(thread, *registers);
#else
  const int none = -1;
  return write_set(thread, NT_ARM_SYSTEM_CALL, &none, sizeof none);
#endif
}

// Most stops come within microseconds.
void pause_briefly(Nanoseconds waited) {
  constexpr Nanoseconds kSoon{1'000'000};
  const timespec time{0, 100'000};
  if (waited < kSoon)
    ::sched_yield();
  else
    ::nanosleep(&time, nullptr);
}

// The thread's next change of state; nothing if there is none within the time.
std::optional<int> wait_for_thread(pid_t thread, Nanoseconds timeout) {
  const Nanoseconds start = monotonic_now();
  for (;;) {
    int status = 0;
    const pid_t changed = ::waitpid(thread, &status, __WALL | WNOHANG);
    if (changed == thread) return status;
    if (changed < 0 && errno != EINTR) return std::nullopt;
    const Nanoseconds waited = monotonic_now() - start;
    if (waited > timeout) return std::nullopt;
    pause_briefly(waited);
  }
}

int event_of(int status) { return status >> 16; }

// Waits for the stop that PTRACE_INTERRUPT causes. Signals that arrive before it are delivered.
bool wait_for_interrupt(pid_t thread, Nanoseconds timeout) {
  for (;;) {
    const auto status = wait_for_thread(thread, timeout);
    if (!status || !WIFSTOPPED(*status)) return false;
    if (event_of(*status) == kEventStop) return true;
    const int signal = WSTOPSIG(*status);
    const bool is_signal = event_of(*status) == 0 && signal != kSystemCallStop;
    if (::ptrace(PTRACE_CONT, thread, nullptr, as_pointer(is_signal ? static_cast<unsigned>(signal) : 0u)) !=
        0)
      return false;
  }
}

bool is_any_of(std::int64_t number, std::initializer_list<long> calls) {
  return std::ranges::any_of(calls, [&](long call) { return call == number; });
}

// Calls that end with EINTR at any stop, and that may be made again then: they have done nothing.
bool may_be_repeated(std::int64_t number) {
#ifdef SYS_epoll_wait
  if (is_any_of(number, {SYS_epoll_wait, SYS_accept})) return true;
#endif
#ifdef SYS_epoll_pwait2
  if (number == SYS_epoll_pwait2) return true;
#endif
  return is_any_of(number, {SYS_epoll_pwait, SYS_accept4, SYS_recvfrom, SYS_recvmsg, SYS_sendto, SYS_sendmsg,
                            SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_rt_sigtimedwait, SYS_semop,
                            SYS_semtimedop, SYS_msgrcv, SYS_msgsnd, SYS_io_getevents});
}

// A signal that waits to be delivered to the thread.
bool has_pending_signal(pid_t thread) {
  const auto status = read_small_file(fmt::format("/proc/{}/status", thread));
  if (!status) return true;
  const auto mask = [&](std::string_view key) {
    return static_cast<std::uint64_t>(status_number(*status, key, 16).value_or(0));
  };
  return ((mask("SigPnd:") | mask("ShdPnd:")) & ~mask("SigBlk:")) != 0;
}

}  // namespace

std::optional<SystemCall> parse_system_call(std::string_view text) {
  const auto words = split_words(text);
  if (words.empty()) return std::nullopt;
  SystemCall call;
  const auto result = std::from_chars(words[0].data(), words[0].data() + words[0].size(), call.number);
  if (result.ec != std::errc()) return std::nullopt;  // "running"
  for (std::size_t i = 0; call.number >= 0 && i < call.arguments.size() && i + 1 < words.size(); ++i) {
    const std::string_view word = words[i + 1];
    if (word.starts_with("0x"))
      std::from_chars(word.data() + 2, word.data() + word.size(), call.arguments[i], 16);
  }
  return call;
}

std::optional<SystemCall> system_call_of(pid_t thread) {
  const auto text = read_small_file(fmt::format("/proc/{}/syscall", thread));
  return text ? parse_system_call(*text) : std::nullopt;
}

bool is_safe_wait(const RemoteProcess& process, const SystemCall& call) {
  // Condition variables, semaphores and joins wait for a bit set; a locked mutex of the C library does not.
  if (call.number == SYS_futex) return (call.arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
  if (call.number == SYS_read) {  // the loader reads files
    std::error_code code;
    const std::string file =
        fs::read_symlink(process.folder() / "fd" / std::to_string(call.arguments[0]), code).string();
    return file.starts_with("socket:") || file.starts_with("pipe:") || file.starts_with("anon_inode:") ||
           file.starts_with("/dev/");
  }
#ifdef SYS_poll
  if (is_any_of(call.number, {SYS_poll, SYS_select, SYS_epoll_wait, SYS_pause, SYS_accept})) return true;
#endif
#ifdef SYS_epoll_pwait2
  if (call.number == SYS_epoll_pwait2) return true;
#endif
  return is_any_of(call.number,
                   {SYS_ppoll, SYS_pselect6, SYS_epoll_pwait, SYS_nanosleep, SYS_clock_nanosleep, SYS_accept4,
                    SYS_recvfrom, SYS_recvmsg, SYS_wait4, SYS_waitid, SYS_rt_sigsuspend, SYS_rt_sigtimedwait,
                    SYS_msgrcv, SYS_semtimedop, SYS_io_getevents});
}

std::optional<StoppedThread> StoppedThread::stop(pid_t thread, Nanoseconds timeout) {
  if (::ptrace(PTRACE_SEIZE, thread, nullptr, as_pointer(PTRACE_O_TRACESYSGOOD)) != 0) return std::nullopt;
  StoppedThread stopped(thread);
  if (::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0 || !wait_for_interrupt(thread, timeout) ||
      !stopped.save())
    return std::nullopt;  // the destructor lets it go
  stopped.waits_in_ = system_call_of(thread).value_or(SystemCall{});
  return stopped;
}

StoppedThread::StoppedThread(StoppedThread&& other) noexcept
    : thread_(std::exchange(other.thread_, 0)),
      waits_in_(other.waits_in_),
      registers_(std::move(other.registers_)),
      vectors_(std::move(other.vectors_)),
      signals_(other.signals_),
      has_called_(other.has_called_) {}

StoppedThread::~StoppedThread() {
  if (thread_ == 0) return;
  if (registers_.empty()) {
    // It did not stop in time. A thread can only be released while it is stopped.
    if (!wait_for_interrupt(thread_, {2'000'000'000})) return;
  } else {
    if (has_called_) restore();
    continue_interrupted_call();
  }
  ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
}

bool StoppedThread::save() {
  if (!read_set(thread_, NT_PRSTATUS, registers_)) {
    registers_.clear();
    return false;
  }
  const bool has_vectors =
      std::ranges::any_of(kVectorSets, [&](int set) { return read_set(thread_, set, vectors_); });
  return has_vectors && ::ptrace(static_cast<__ptrace_request>(PTRACE_GETSIGMASK), thread_,
                                 as_pointer(sizeof signals_), &signals_) == 0;
}

std::uint64_t StoppedThread::program_counter() const { return pc_of(registers_in(registers_)); }
std::uint64_t StoppedThread::stack_pointer() const { return sp_of(registers_in(registers_)); }

std::uint64_t StoppedThread::thread_pointer() const {
#if defined(__x86_64__)
  return registers_in(registers_).fs_base;
#else
  std::vector<std::uint8_t> bytes;
  std::uint64_t pointer = 0;
  if (read_set(thread_, NT_ARM_TLS, bytes) && bytes.size() >= sizeof pointer)
    std::memcpy(&pointer, bytes.data(), sizeof pointer);
  return pointer;
#endif
}

// The kernel itself restarts most calls. For the others, a program that gets no signals need not expect
// EINTR. If a signal is pending, the program may wait for exactly this.
void StoppedThread::continue_interrupted_call() {
  if (!may_be_repeated(waits_in_.number) || has_pending_signal(thread_)) return;
  Registers registers = registers_in(registers_);
#if defined(__x86_64__)
  if (static_cast<std::int64_t>(registers.rax) != -EINTR) return;
  registers.rax = static_cast<std::uint64_t>(waits_in_.number);
  registers.orig_rax = ~std::uint64_t{0};
  registers.rip -= sizeof kSystemCallCode;
#else
  if (static_cast<std::int64_t>(registers.regs[0]) != -EINTR) return;
  registers.regs[0] = waits_in_.arguments[0];
  registers.regs[kNumberRegister] = static_cast<std::uint64_t>(waits_in_.number);
  registers.pc -= sizeof kSystemCallCode;
#endif
  write_registers(thread_, registers);
}

// After a call, the thread is at the end of a system call. The kernel restarts an interrupted call only where
// it looks for signals, so the thread is stopped there once more.
bool StoppedThread::restore() {
  has_called_ = false;
  if (::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) != 0) return false;
  ::ptrace(PTRACE_CONT, thread_, nullptr, nullptr);  // fails where a function has not returned
  if (!wait_for_interrupt(thread_, {5'000'000'000})) return false;
  const bool has_vectors = std::ranges::any_of(
      kVectorSets, [&](int set) { return write_set(thread_, set, vectors_.data(), vectors_.size()); });
  return write_set(thread_, NT_PRSTATUS, registers_.data(), registers_.size()) && has_vectors &&
         ::ptrace(static_cast<__ptrace_request>(PTRACE_SETSIGMASK), thread_, as_pointer(sizeof signals_),
                  &signals_) == 0;
}

Result<std::uint64_t> StoppedThread::call(const RemoteProcess& process, std::uint64_t landing,
                                          std::uint64_t function, std::initializer_list<Argument> arguments) {
  const auto failed = [&](std::string why) {
    return failure(fmt::format("cannot call a function in process {}", process.pid()), std::move(why));
  };
  std::uint64_t stack = stack_pointer() - kRedZone;
  std::vector<std::uint64_t> numbers;
  for (const Argument& argument : arguments) {
    numbers.push_back(argument.number);
    if (!argument.text) continue;
    stack -= argument.text->size() + 1;
    if (!process.write(stack, argument.text->c_str(), argument.text->size() + 1))
      return failed("its stack has no space");
    numbers.back() = stack;
  }
  stack &= ~std::uint64_t{15};
  const std::uint64_t stack_at_return = stack;
  Registers registers = registers_in(registers_);
#if defined(__x86_64__)
  stack -= sizeof landing;
  if (!process.write(stack, &landing, sizeof landing)) return failed("its stack has no space");
#else
  registers.regs[kLinkRegister] = landing;
#endif
  set_call(registers, function, stack, numbers);
  // Signals wait until the thread is where it was.
  const std::uint64_t all_signals = ~std::uint64_t{0};
  if (!write_registers(thread_, registers) ||
      ::ptrace(static_cast<__ptrace_request>(PTRACE_SETSIGMASK), thread_, as_pointer(sizeof all_signals),
               &all_signals) != 0)
    return failed(errno_text(errno));
  has_called_ = true;
  int signal = 0;
  for (;;) {
    if (::ptrace(PTRACE_SYSCALL, thread_, nullptr, as_pointer(static_cast<unsigned>(signal))) != 0)
      return failed(errno_text(errno));
    const auto status = wait_for_thread(thread_, kCallTimeout);
    if (!status) {
      // Stopped, so that its registers can be restored.
      return failed("the function did not return within 30 s");
    }
    if (!WIFSTOPPED(*status)) {
      thread_ = 0;
      return failed("the process ended");
    }
    signal = 0;
    if (event_of(*status) != 0) continue;
    if (WSTOPSIG(*status) != kSystemCallStop) {
      signal = WSTOPSIG(*status);
      if (signal == SIGSTOP) continue;
      return failed(fmt::format("the function was ended by signal {}", signal));
    }
    const auto now = read_registers(thread_);
    if (!now) return failed("its registers cannot be read");
    // The recorder itself makes system calls at the landing, deeper in the stack.
    if (pc_of(*now) != landing + sizeof kSystemCallCode || sp_of(*now) != stack_at_return) continue;
    if (!skip_system_call(thread_) || ::ptrace(PTRACE_SYSCALL, thread_, nullptr, nullptr) != 0 ||
        !wait_for_thread(thread_, kCallTimeout))
      return failed(errno_text(errno));
    return returned_at_landing(*now);
  }
}

std::uint64_t find_landing(const RemoteProcess& process, std::uint64_t c_library) {
  const std::uint64_t function = process.address_of(c_library, "syscall");
  std::uint8_t code[64] = {};
  if (function == 0 || !process.read(function, code, sizeof code)) return 0;
  const auto found =
      std::search(std::begin(code), std::end(code), std::begin(kSystemCallCode), std::end(kSystemCallCode));
  return found == std::end(code) ? 0 : function + static_cast<std::uint64_t>(found - std::begin(code));
}

}  // namespace headroom::trace
