// Finds the files that hold a module's code, names and debug information: on this machine, or in folders that
// were carried from another. A file counts only if its build id is the recorded one: the right path with
// another build would give wrong names, which is worse than none.
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "recording/recording.h"
#include "symbols/elf_file.h"

namespace headroom::symbols {

struct ModuleFiles {
  std::filesystem::path code;   // the module itself; empty if it was not found
  std::filesystem::path debug;  // debug information kept apart; empty if `code` holds it, or if there is none
  std::string problem;          // why there is no file, or not the recorded one; a sentence, else empty

  bool found() const { return !code.empty() || !debug.empty(); }
};

class DebugFiles {
 public:
  // `symbol_folders`: trees of .build-id/xx/yyyy[.debug], or of any files, searched by build id at first
  // need. `sysroot` is put before the recorded paths and before /usr/lib/debug; empty for this machine's own
  // files.
  DebugFiles(std::vector<std::filesystem::path> symbol_folders, std::filesystem::path sysroot);

  ModuleFiles files_of(const recording::Module& module);
  // The file with this build id and debug information, or an empty path. dwz moves what several files share
  // into such a file.
  std::filesystem::path debug_file_of(const std::string& build_id);
  // Symbol folders that could not be read, a sentence each.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  struct Identified {
    std::filesystem::path code, debug;
  };
  std::filesystem::path code_file_of(const std::string& build_id);
  std::filesystem::path linked_debug_file(const std::filesystem::path& code, const ElfFile& file,
                                          const std::string& build_id);
  std::filesystem::path under_sysroot(const std::filesystem::path& path) const;
  void index_symbol_folders();
  void index_file(const std::filesystem::path& path);

  std::vector<std::filesystem::path> symbol_folders_;
  std::filesystem::path sysroot_;
  bool indexed_ = false;
  std::unordered_map<std::string, Identified> by_build_id_;  // of symbol_folders_
  std::vector<std::string> problems_;
};

// Hex digits of two bytes or more. A recording is input: what is not a build id must not become a path.
bool is_build_id(const std::string& text);
// .build-id/xx/yyyy and .build-id/xx/yyyy.debug: how every distribution lays out files by build id.
std::filesystem::path code_path(const std::string& build_id);
std::filesystem::path debug_path(const std::string& build_id);

// True for the code that the kernel maps into every process ("[vdso]", "linux-vdso.so.1"); it has no file.
bool is_vdso(const std::string& path);

}  // namespace headroom::symbols
