// Names for the addresses of a recording: functions, inlined functions, files, lines. Works after the
// recording, on any machine that has the modules' files, which are found by build id (docs/symbols.md). Never
// uses the network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "recording/recording.h"

namespace headroom::symbols {

// The texts are valid as long as the Symbolizer.
struct SourceFrame {
  // Demangled. If no function is known: "libfoo.so+0x1a2b" (an address in the file, as addr2line expects it),
  // "[vdso]+0x9c5", or "0x7f0012345678" outside all modules.
  std::string_view function = {};
  std::string_view file = {};    // empty if unknown
  std::string_view module = {};  // file name of the module without folders; empty outside all modules
  int line = 0;                  // 0 if unknown
  bool named = false;            // false if `function` is only an address
};

struct SymbolizerOptions {
  // Folders with modules and debug files, also of another machine; found by build id.
  std::vector<std::filesystem::path> symbol_folders = {};
  // Prefix for recorded paths and for /usr/lib/debug: another machine's root file system. Empty: this
  // machine.
  std::filesystem::path sysroot = {};
  bool demangle = true;
  // Memory limit for open modules: beyond it the least recently used modules are closed. A single module may
  // exceed it while it is in use.
  Bytes memory = mebibytes(512);
};

class Symbolizer {
 public:
  // `modules`: from the recording (RecordingInfo::modules). A file is opened only when an address needs it.
  explicit Symbolizer(std::vector<recording::Module> modules, SymbolizerOptions options = {});
  Symbolizer(Symbolizer&&) noexcept;
  Symbolizer& operator=(Symbolizer&&) noexcept;
  ~Symbolizer();

  // All frames at the address: the innermost inlined function first, the real function last; never empty. For
  // a return address, the call before it is looked up. If several modules used the place one after another,
  // the last one counts. (A recording moves the others: ModulePlaces.) The result is cached, and the
  // reference stays valid as long as the Symbolizer.
  const std::vector<SourceFrame>& frames_of(std::uint64_t address, bool is_return_address);

  // Looks up many addresses at once, sorted by module and unit, so that each is opened once. Then frames_of()
  // answers from memory.
  void prepare(std::span<const std::uint64_t> addresses, bool are_return_addresses);

  // One sentence for each used module whose files are missing, changed or damaged.
  std::vector<std::string> problems() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// Copies the files that a recording needs for names into one folder. Take this folder to another machine
// together with the recording; `--symbols DIR` reads it there.
struct CarriedSymbols {
  std::size_t modules = 0;            // modules for which a file was found
  std::size_t files = 0;              // their files in the folder, including those that were there before
  Bytes copied;                       // bytes written by this call
  std::vector<std::string> problems;  // one sentence for each module that cannot be copied
};

// Copies each module and its debug files to `folder`/.build-id/xx/yyyy and …/yyyy.debug, the layout that
// distributions use. Existing files stay. Copies are atomic. Errors: the folder cannot be created or written;
// a module without a file is only a problem.
Result<CarriedSymbols> carry_symbols(const std::vector<recording::Module>& modules,
                                     const SymbolizerOptions& options, const std::filesystem::path& folder);

}  // namespace headroom::symbols
