// An ELF file opened for reading: what identifies it and what it says about where its debug information lies.
#pragma once

#include <libelf.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/result.h"

namespace headroom::symbols {

// The name of a file with debug information, and the CRC-32 of its bytes (.gnu_debuglink).
struct DebugLink {
  std::string file_name;
  std::uint32_t crc = 0;
};

class ElfFile {
 public:
  // Errors: absent, not a regular file (a pipe would block), not an ELF file.
  static Result<ElfFile> open(const std::filesystem::path& path);
  ElfFile(ElfFile&& other) noexcept;
  ElfFile& operator=(ElfFile&& other) = delete;
  ~ElfFile();

  std::string build_id() const;  // lower-case hex digits; empty if it has none
  std::optional<DebugLink> debug_link() const;
  // The build id of the file that holds what dwz found in several files (.gnu_debugaltlink); empty if there
  // is none.
  std::string shared_debug_id() const;
  bool has_debug_info() const { return section(".debug_info") != nullptr; }
  bool has_symbols() const { return section(".symtab") != nullptr; }
  // False for a file that keeps only debug information (objcopy --only-keep-debug).
  bool has_code() const { return section(".text") != nullptr; }

 private:
  ElfFile(UniqueFd fd, Elf* elf) : fd_(std::move(fd)), elf_(elf) {}
  // Nullptr where it is absent, or has no bytes in this file.
  Elf_Scn* section(std::string_view name) const;

  UniqueFd fd_;
  Elf* elf_;
};

// The CRC-32 that .gnu_debuglink uses; nothing if the file cannot be read.
std::optional<std::uint32_t> file_crc32(const std::filesystem::path& path);

// "0a1b…" for the bytes of a build id.
std::string hex_digits(const void* bytes, std::size_t count);

}  // namespace headroom::symbols
