// Another process, as its files in /proc show it: its mapped files, and its memory. Where the tracer may
// attach to a process, it may read and write its memory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace headroom::trace {

struct Mapping {
  std::uint64_t start = 0, end = 0, offset = 0;
  std::string path;
};

// The content of /proc/PID/maps.
std::vector<Mapping> parse_mappings(std::string_view text);

// The number after `key` ("TracerPid:") in /proc/PID/status; nothing if the key is missing.
std::optional<std::int64_t> status_number(std::string_view status, std::string_view key, int base = 10);

class RemoteProcess {
 public:
  explicit RemoteProcess(pid_t pid) : pid_(pid) {}

  pid_t pid() const { return pid_; }
  std::filesystem::path folder() const;  // /proc/PID
  std::vector<pid_t> threads() const;    // the main thread first
  std::vector<Mapping> mappings() const;

  bool read(std::uint64_t address, void* to, std::size_t bytes) const;
  bool write(std::uint64_t address, const void* from, std::size_t bytes) const;
  // Up to `most` bytes, without the final NUL.
  std::string read_text(std::uint64_t address, std::size_t most) const;

  // The address where the first file is mapped whose name begins so ("libc.so.6"); 0 if none is.
  std::uint64_t base_of(std::string_view file_name) const;
  // The address of an exported function or variable of the file that is mapped there; 0 if it has none.
  std::uint64_t address_of(std::uint64_t base, std::string_view symbol) const;

 private:
  int memory() const;

  pid_t pid_;
  mutable UniqueFd memory_;
};

}  // namespace headroom::trace
