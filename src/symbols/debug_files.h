// Finds the files with a module's code, names and debug information, on this machine or in folders copied
// from another one. A file must have the recorded build id: a different build under the right path would give
// wrong names, which is worse than no names.
#pragma once

#include <libelf.h>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "recording/recording.h"

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

struct ModuleFiles {
  std::filesystem::path code;  // the module itself; empty if not found
  // Separate debug information; empty if `code` contains it, or if no file has it.
  std::filesystem::path debug;
  std::string problem;  // one sentence: why no file of the recorded build was found; else empty

  bool found() const { return !code.empty() || !debug.empty(); }
};

class DebugFiles {
 public:
  // `symbol_folders`: trees with .build-id/xx/yyyy[.debug], or with any files, which are indexed by build id
  // at first use. `sysroot` is a prefix for recorded paths and for /usr/lib/debug; empty for this machine.
  DebugFiles(std::vector<std::filesystem::path> symbol_folders, std::filesystem::path sysroot);

  ModuleFiles files_of(const recording::Module& module);
  // The debug file with this build id, or an empty path. dwz moves data that several files share to such a
  // file.
  std::filesystem::path debug_file_of(const std::string& build_id);
  // One sentence for each symbol folder that could not be read.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  struct Identified {
    std::filesystem::path code, debug;
  };
  // The file with this build id: `name` in one of the folders, or from the index.
  std::filesystem::path file_in(const std::vector<std::filesystem::path>& folders,
                                const std::filesystem::path& name, const std::string& build_id,
                                std::filesystem::path Identified::*indexed);
  std::filesystem::path linked_debug_file(const std::filesystem::path& code, const ElfFile& file,
                                          const std::string& build_id);
  std::filesystem::path under_sysroot(const std::filesystem::path& path) const;
  void index_symbol_folders();
  void index_file(const std::filesystem::path& path);

  std::vector<std::filesystem::path> symbol_folders_;
  std::filesystem::path sysroot_;
  bool indexed_ = false;
  std::unordered_map<std::string, Identified> by_build_id_;  // of the files in symbol_folders_
  std::vector<std::string> problems_;
};

// At least two bytes as hex digits. Recordings are untrusted input: other text must not become a path.
bool is_build_id(const std::string& text);
// .build-id/xx/yyyy and .build-id/xx/yyyy.debug: the layout by build id that all distributions use.
std::filesystem::path code_path(const std::string& build_id);
std::filesystem::path debug_path(const std::string& build_id);

// True for code that the kernel maps into every process ("[vdso]", "linux-vdso.so.1"). It has no file.
bool is_vdso(const std::string& path);

}  // namespace headroom::symbols
