// The stubs of the procedure linkage table: a call into another library goes through one, and it has no
// symbol of its own.
#pragma once

#include <gelf.h>

#include <cstdint>
#include <vector>

namespace headroom::symbols {

struct LinkageStub {
  const char* name;  // of the function that it leads to, or nullptr; lives as long as the file is open
  std::uint64_t start, size;
};

// Of x86-64 and AArch64 files each stub with its target, found by the slot that its instructions load
// (linkers differ in the order and the headers of the table). Of other machines the tables as a whole,
// without names.
std::vector<LinkageStub> linkage_stubs(Elf* elf);

}  // namespace headroom::symbols
