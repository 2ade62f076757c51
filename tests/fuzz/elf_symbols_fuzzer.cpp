// A damaged or hostile module file: it is opened like a module of a recording, and many addresses are looked
// up in it.
#include "fuzz.h"
#include "symbols/symbolizer.h"

void fuzz(std::string_view text) {
  const InputFile file(text);
  headroom::recording::Module module;
  module.path = file.path;  // no build id, so any file is accepted
  module.end = 0x40000;
  headroom::symbols::Symbolizer symbolizer({module});
  for (std::uint64_t address = 0; address < module.end; address += address < 0x2000 ? 5 : 997)
    require(!symbolizer.frames_of(address, false).empty());
  (void)symbolizer.problems();
}
