// Names for the addresses of a recording: functions, inlined functions, files, lines. Works after the fact
// and on any machine that has the modules' files, found by build id (docs/symbols.md); never touches the
// network.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "recording/recording.h"

namespace headroom::symbols {

// The texts live as long as the Symbolizer that gave them.
struct SourceFrame {
  // Demangled. Where no function is known: "libfoo.so+0x1a2b" (an address as the file counts it, to be given
  // to addr2line), "[vdso]+0x9c5", or "0x7f0012345678" outside of every module.
  std::string_view function = {};
  std::string_view file = {};    // empty where it is not known
  std::string_view module = {};  // file name of the module without folders; empty outside of every module
  int line = 0;                  // 0 where it is not known
  bool inlined = false;          // into the frame that follows
  bool named = false;            // false where `function` is only a place
  std::uint64_t offset = 0;      // from the start of the function, where no line is known
};

// "resize at src/resize.cpp:120 (libfoo.so)", "malloc+0x1c (libc.so.6)", "libfoo.so+0x1a2b"; "(inlined)"
// follows the function where it is.
std::string one_line(const SourceFrame& frame);

struct SymbolizerOptions {
  // Folders with modules and debug files of another machine, found by build id.
  std::vector<std::filesystem::path> symbol_folders = {};
  // Put before recorded paths and /usr/lib/debug: another machine's root file system. Empty: this machine's.
  std::filesystem::path sysroot = {};
  bool demangle = true;
  // What open modules may hold; the least recently used are closed beyond it. A single module may take more
  // while it is in use.
  Bytes memory = mebibytes(512);
};

class Symbolizer {
 public:
  // `modules` are those of the recording (RecordingInfo::modules). No file is opened before an address needs
  // it.
  explicit Symbolizer(std::vector<recording::Module> modules, SymbolizerOptions options = {});
  Symbolizer(Symbolizer&&) noexcept;
  Symbolizer& operator=(Symbolizer&&) noexcept;
  ~Symbolizer();

  // The frames that stand at the address: innermost inlined function first, the function that was really
  // called last; never empty. A return address is looked up at the call before it. Where modules followed
  // each other at the same place, the one that was loaded at the time `when` counts, without it the latest.
  // The answer is kept, and the reference is good, as long as the Symbolizer lives.
  const std::vector<SourceFrame>& frames_of(std::uint64_t address, bool is_return_address,
                                            std::optional<Nanoseconds> when = {});

  // The same for many addresses at once, in the order of modules and units, so that each is opened once
  // however many there are; frames_of() then answers from memory.
  void prepare(std::span<const std::uint64_t> addresses, bool are_return_addresses);

  // Modules that were asked for and whose files are missing, changed or damaged, a sentence each.
  std::vector<std::string> problems() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace headroom::symbols
