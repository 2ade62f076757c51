// A program got no host memory: std::bad_alloc, Python's MemoryError, NumPy, PyTorch's CPU allocator, ENOMEM.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/requested_size.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kArrow = "Arrow", kPhp = "PHP", kRedis = "Redis";

// "2026-11-23 10:00:00 ERROR worker: "
bool is_logged_as_error(std::string_view before) {
  for (const std::string_view level : {"ERROR", "CRITICAL", "FATAL", "EXCEPTION"}) {
    const auto rest = text_after(before, level);
    if (rest && (rest->empty() || rest->ends_with(": ") || rest->ends_with("- ") || trim(*rest).empty()))
      return true;
  }
  return before.ends_with("xception: ") || before.ends_with("rror: ");
}

// "MemoryError", or "MemoryError: …", at the beginning of a line as Python prints it, or behind who prints
// it.
bool is_memory_error(std::string_view line) {
  const std::size_t at = line.find("MemoryError");
  if (at == line.npos) return false;
  const std::string_view before = line.substr(0, at),
                         rest = line.substr(at + std::string_view("MemoryError").size());
  const bool begins = trim(before).empty() || before.ends_with("numpy.core._exceptions._Array") ||
                      before.ends_with("numpy._core._exceptions._Array") || before.ends_with("builtins.") ||
                      before.ends_with("] ") || before.ends_with("]: ") ||
                      before.ends_with("pyarrow.lib.Arrow") ||
                      before.ends_with("| ");  // of ROS 2's launch, of the journal, of docker compose
  if (!begins && !is_logged_as_error(before)) return false;
  return trim(rest).empty() || rest.front() == ':';
}

// "what():  std::bad_alloc", "Exception during initialization: std::bad_alloc", "caught std::bad_alloc";
// source code, which logs of compilers quote, has it as a type: "catch (const std::bad_alloc&)".
bool tells_bad_alloc(std::string_view line) {
  const std::size_t at = line.find("std::bad_alloc");
  if (at == line.npos || trim(line).starts_with("Fix")) return false;
  const std::string_view before = line.substr(0, at),
                         rest = line.substr(at + std::string_view("std::bad_alloc").size());
  if (!rest.empty() && std::string_view("&({;>,:").find(rest.front()) != std::string_view::npos &&
      !rest.starts_with(": "))
    return false;
  if (rest.starts_with(" &") || before.ends_with("const ") || has(before, "catch (")) return false;
  const std::string_view word = trim(before);
  return word.ends_with(':') || word.ends_with('\'') || word.ends_with('=') || word.ends_with('"') ||
         word.ends_with("caught") || has(before, "xception") || has(before, "rror");
}

// "xz: (stdin): Cannot allocate memory", as the C library words the error.
bool ends_in_refusal(std::string_view line) {
  const std::string_view text = trim(line);
  return text.ends_with(": Cannot allocate memory") || text.ends_with(": cannot allocate memory");
}

// RAPIDS' allocator throws Python's and C++'s errors for the GPU's memory, which cuda_rule.cpp reads.
bool is_of_gpu(std::string_view line) {
  return has(line, "/rmm/") || has(line, "RMM failure") || has(line, "CUDA error") ||
         has(line, "_OUT_OF_MEMORY:");
}

// "malloc of size 4096 failed", and that was all: not "never failed", nor "failed over to".
bool is_number_then(std::string_view line, std::string_view words, std::string_view end) {
  const std::string_view rest = text_after(line, words).value_or("");
  const std::string_view behind = rest.substr(std::min(rest.find_first_not_of("0123456789"), rest.size()));
  return behind.starts_with(end) && !behind.substr(end.size()).starts_with(" over");
}

std::optional<std::string_view> tried_to_allocate(std::string_view line, std::string_view words) {
  const auto rest = text_after(line, words);
  return rest ? text_after(*rest, "(tried to allocate ") : std::nullopt;
}

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if ((has(line, "DefaultCPUAllocator") &&
       add_requested(message, text_after(line, "you tried to allocate "))) ||
      add_requested(message, text_after(line, "seems to have been called with negative number: "))) {
    message.add("told_by", "PyTorch");
    return message;
  }
  if (has(line, "array with shape") && add_requested(message, text_after(line, "Unable to allocate "))) {
    message.add("told_by", "NumPy");
    return message;
  }
  if (const bool is_of_arrow = has(line, ".ArrowMemoryError");
      is_memory_error(line) && !is_of_gpu(line) && !(is_of_arrow && has(line, "alloc of size "))) {
    message.add("told_by", is_of_arrow ? kArrow : "Python");
    return message;
  }
  if (tells_bad_alloc(line) && !is_of_gpu(line)) {
    message.add("told_by", "C++");
    message.part = has(line, "throwing an instance") ? "terminate" : has(line, "what()") ? "what" : "";
    return message;
  }
  // The runtime of a library may say so, too: "cuda_runtime: out of memory".
  if (is_word(line, "runtime: out of memory")) {
    message.add("requested_bytes", size_after(line, "cannot allocate "));
    message.add("told_by", "Go");
    return message;
  }
  if (has(line, "out of memory allocating heap arena")) {
    message.add("told_by", "Go");
    return message;
  }
  // R's, git's and PostgreSQL's: "cannot allocate vector of size 7.5 Gb", "Out of memory, malloc failed
  // (tried to allocate 524288000 bytes)", "DETAIL:  Failed on request of size 1048576 in memory context".
  // "PHP Fatal error:  Out of memory (allocated 2097152) (tried to allocate 4096 bytes)": below its own
  // limit.
  constexpr std::pair<std::string_view, std::string_view> kPrograms[] = {
      {"ut of memory (allocated ", kPhp},
      {"annot allocate vector of size ", "R"},
      {"malloc failed (tried to allocate ", "git"},
      {"DETAIL:  Failed on request of size ", "PostgreSQL"}};
  for (const auto& [words, program] : kPrograms)
    if (add_requested(message, program == kPhp ? tried_to_allocate(line, words) : text_after(line, words))) {
      message.add("told_by", program);
      return message;
    }
  // "[libx264 @ 0x5581] malloc of size 3133440 failed", "pyarrow.lib.ArrowMemoryError: realloc of size …"
  if (is_number_then(line, "alloc of size ", " failed") &&
      add_requested(message, text_after(line, "alloc of size "))) {
    message.add("told_by", has(line, "Arrow") || has(line, "arrow") ? kArrow
                           : has(line, "x264")                      ? "libx264"
                                                                    : "malloc");
    return message;
  }
  // "memory allocation of 8589934592 bytes failed"
  if (is_number_then(line, "memory allocation of ", " bytes failed") &&
      add_requested(message, text_after(line, "memory allocation of "))) {
    message.add("told_by", "Rust");
    return message;
  }
  // "cc1plus: out of memory allocating 65536 bytes after a total of 812345 bytes", "LLVM ERROR: out of
  // memory", "virtual memory exhausted: Cannot allocate memory".
  const auto of_compiler = size_after(line, ": out of memory allocating ");
  if (of_compiler || has(line, "LLVM ERROR: out of memory") || has(line, "virtual memory exhausted: ")) {
    message.add("requested_bytes", of_compiler);
    message.add("told_by", "a compiler");
    return message;
  }
  if (has(line, "mkl_malloc: failed to allocate memory")) {
    message.add("told_by", "Intel MKL");
    return message;
  }
  const bool refused = has(line, "Cannot allocate memory") || has(line, "cannot allocate memory");
  // "Can't save in background: fork: Cannot allocate memory", of Redis and of those made from it.
  if (refused && has(line, "in background: fork: ")) {
    message.add("told_by", kRedis);
    return message;
  }
  // earlyoom's, at each start: "Could not lock memory - continuing anyway: Cannot allocate memory".
  if (refused && !has(line, "alling back") && !has(line, "ontinuing anyway") &&
      (has(line, "Errno 12") || has(line, "mmap") || has(line, "fork") || has(line, "errno=12") ||
       has(line, "ailed: ") || has(line, "ailed to ") || has(line, "rror: ") || ends_in_refusal(line))) {
    message.add("told_by", "the system");
    return message;
  }
  return std::nullopt;
}

Finding explain(const LogMessage& message) {
  const auto requested = message.bytes("requested_bytes");
  const std::string words = words_for_requested(message, "");
  Finding finding;
  finding.id = "host-out-of-memory";
  finding.severity = Severity::severe;
  finding.title = fmt::format("A program could not allocate host memory{} (reported by {})",
                              words.empty() ? "" : ": it asked for " + words, message.text("told_by"));
  if (has_wrong_size(message)) {
    finding.cause = cause_of_wrong_size(message);
    finding.confidence = Confidence::likely;
    finding.cures = {{"check the shapes and indices at that line of the program", "", {}}};
    return finding;
  }
  constexpr Bytes kPage{4096};
  if (requested && *requested < kPage && message.text("told_by") == kArrow) {
    finding.cause =
        "A request this small rarely fails because memory is full. More likely, the process reached a limit "
        "(ulimit -v), its heap is damaged, or the requested alignment is not a power of two.";
    finding.confidence = Confidence::possible;
    finding.cures = {{"check the shell's limits", "ulimit -a", {}},
                     {"look for writes outside allocated blocks", "valgrind COMMAND", {}}};
    return finding;
  }
  finding.cause =
      "The kernel refused the request. Possible reasons: a limit of the process (ulimit -v, a control "
      "group), strict overcommit, or a request larger than memory and swap.";
  finding.confidence = Confidence::possible;
  finding.cures = {{"check the shell's limits", "ulimit -a; cat /proc/sys/vm/overcommit_memory", {}},
                   {"see which call stacks hold the memory", "headroom trace -- COMMAND", {}}};
  if (message.text("told_by") == "NumPy" || message.text("told_by") == "Python")
    finding.cures.push_back({"process the data in smaller pieces, or map the file",
                             "numpy.load(path, mmap_mode='r')", requested});
  if (message.text("told_by") == kArrow)
    finding.cures.push_back({"read in batches, or map the file",
                             "pyarrow.dataset.dataset(path).to_batches(); pyarrow.memory_map(path)",
                             requested});
  if (message.text("told_by") == kRedis) {
    finding.cause =
        "Redis saves its data from a forked copy of itself, which shares its memory. With "
        "vm.overcommit_memory=0, the kernel refuses a fork whose memory might not fit.";
    finding.confidence = Confidence::likely;
    finding.cures.insert(finding.cures.begin(),
                         {"allow the fork, as the Redis manual recommends (also in /etc/sysctl.conf)",
                          "sudo sysctl vm.overcommit_memory=1",
                          {}});
  }
  if (message.text("told_by") == "a compiler")
    finding.cures = {{"compile one file at a time: each compiler process takes one GiB or more",
                      "MAX_JOBS=1 CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1 COMMAND",
                      {}},
                     finding.cures[0]};
  return finding;
}

}  // namespace

LogRule host_memory_rule() {
  return {"host-memory",
          {"you tried to allocate ", "Unable to allocate ", "MemoryError", "std::bad_alloc",
           "annot allocate memory", "runtime: out of memory", "memory allocation of ",
           "called with negative number", ": out of memory allocating ", "annot allocate vector",
           "malloc of size ", "ealloc of size ", "malloc failed (tried", "DETAIL:  Failed on request",
           "LLVM ERROR: out of memory", "virtual memory exhausted: ", "mkl_malloc: failed", " (allocated "},
          read,
          explain};
}

}  // namespace headroom::doctor
