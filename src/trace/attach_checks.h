// Whether `headroom trace --pid` can attach to a process, and if not: why, and what helps.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "trace/attach_process.h"

namespace headroom::trace {

// What the kernel says of a process, of this process, and of the rules for ptrace.
struct AttachFacts {
  std::string status, own_status;                  // /proc/PID/status
  std::optional<int> ptrace_scope = std::nullopt;  // kernel.yama.ptrace_scope; nothing: not in this kernel
  std::string user = {}, own_user = {};            // names or numbers
};
AttachFacts facts_of(pid_t pid);

// How the errors begin.
std::string cannot_attach(pid_t pid);

// Checks the state, an earlier tracer and the system call filter.
Status check_state(pid_t pid, const AttachFacts& facts);
// The error after the kernel forbade ptrace.
Error forbidden_by_kernel(pid_t pid, const AttachFacts& facts);
// Checks the program and the libraries that the process has loaded.
Status check_program(const RemoteProcess& process, const std::filesystem::path& library);

// The file name of a library of Headroom that records in this process already; empty if none does.
std::string recorder_in(const std::vector<Mapping>& mappings);

}  // namespace headroom::trace
