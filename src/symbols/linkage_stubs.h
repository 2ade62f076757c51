// The stubs of the procedure linkage table (PLT). A call into another library goes through a stub, which has
// no symbol.
#pragma once

#include <gelf.h>

#include <cstdint>
#include <vector>

namespace headroom::symbols {

struct LinkageStub {
  const char* name;  // the called function, or nullptr; valid while the file is open
  std::uint64_t start, size;
};

// For x86-64 and AArch64 files: each stub with its target. A stub's instructions load a slot, and the slot
// identifies the target. (The stub's position does not: linkers differ in the table's order and headers.) For
// other machines: each table as a whole, without names.
std::vector<LinkageStub> linkage_stubs(Elf* elf);

}  // namespace headroom::symbols
