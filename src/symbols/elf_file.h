// Reads an ELF file: its identity, and where its debug information is.
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

// The name of a debug file and the CRC-32 of its content (.gnu_debuglink).
struct DebugLink {
  std::string file_name;
  std::uint32_t crc = 0;
};

class ElfFile {
 public:
  // Errors: missing, not a regular file (a FIFO would block), not an ELF file.
  static Result<ElfFile> open(const std::filesystem::path& path);
  ElfFile(ElfFile&& other) noexcept;
  ElfFile& operator=(ElfFile&& other) = delete;
  ~ElfFile();

  std::string build_id() const;  // lower-case hex digits; empty if the file has none
  std::optional<DebugLink> debug_link() const;
  // The build id of the shared debug file that dwz created (.gnu_debugaltlink); empty if there is none.
  std::string shared_debug_id() const;
  bool has_debug_info() const { return section(".debug_info") != nullptr; }
  bool has_symbols() const { return section(".symtab") != nullptr; }
  // False for a file that contains only debug information (objcopy --only-keep-debug).
  bool has_code() const { return section(".text") != nullptr; }

 private:
  ElfFile(UniqueFd fd, Elf* elf) : fd_(std::move(fd)), elf_(elf) {}
  // Nullptr if the section is missing or has no data in this file.
  Elf_Scn* section(std::string_view name) const;

  UniqueFd fd_;
  Elf* elf_;
};

// The CRC-32 that .gnu_debuglink uses. Nothing if the file cannot be read.
std::optional<std::uint32_t> file_crc32(const std::filesystem::path& path);

// Formats a build id: "0a1b…".
std::string hex_digits(const void* bytes, std::size_t count);

}  // namespace headroom::symbols
