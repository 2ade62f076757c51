// A module with open files: maps its addresses, as counted in the file, to functions and lines.
#pragma once

#include <elfutils/libdwfl.h>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "symbols/debug_files.h"
#include "symbols/debug_info.h"
#include "symbols/interval_index.h"

namespace headroom::symbols {

// Function names of an ELF file by address. Sources: .symtab or .dynsym, .gnu_debugdata (Fedora's compressed
// symbol table), and the stubs of the procedure linkage table.
struct SymbolHit {
  const char* name;  // as in the file; valid while the module is open
  std::uint64_t start;
  bool is_stub;  // a stub that calls `name` in another file
};

class SymbolTable {
 public:
  // Reads all names at once, because most modules are asked for many addresses.
  explicit SymbolTable(Dwfl_Module* module);

  // The function that contains the address. Nothing between functions: in a stripped file with only exported
  // names, the nearest lower name would be a misleading guess.
  std::optional<SymbolHit> find(std::uint64_t address) const;
  std::size_t bytes() const { return hits_.size() * sizeof(SymbolHit) + index_.bytes(); }

 private:
  std::vector<SymbolHit> hits_;
  IntervalIndex index_;
};

class OpenModule {
 public:
  // `debug_files` finds the shared file that dwz split off. It must outlive the module.
  static Result<std::unique_ptr<OpenModule>> open(const ModuleFiles& files, DebugFiles& debug_files);
  ~OpenModule();
  OpenModule(const OpenModule&) = delete;
  OpenModule& operator=(const OpenModule&) = delete;

  // Innermost first, never empty. If nothing is known, one frame without a name.
  std::vector<ModuleFrame> frames_at(std::uint64_t address);
  // An estimate of the module's memory. Mapped files are not counted, because the kernel can reclaim them.
  std::size_t bytes() const;

 private:
  OpenModule() = default;
  static int find_debug_file(Dwfl_Module* module, void** user_data, const char* module_name, Dwarf_Addr base,
                             const char* file_name, const char* link_name, GElf_Word link_crc, char** found);
  void load_debug_info(DebugFiles& debug_files);
  void name_by_symbol(std::uint64_t address, ModuleFrame& frame);

  Dwfl* dwfl_ = nullptr;
  Dwfl_Module* module_ = nullptr;
  std::filesystem::path debug_path_;
  UniqueFd shared_fd_;  // the shared file that dwz split off, if any
  Dwarf* shared_ = nullptr;
  std::optional<DebugInfo> debug_info_;
  std::optional<SymbolTable> symbols_;
};

}  // namespace headroom::symbols
