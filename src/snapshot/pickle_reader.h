// A pickle as data, and nothing else.
//
// A pickle is a program for a small stack machine, and Python's runs what the program names: that is how
// opening a file from elsewhere takes over a machine. This one knows the opcodes that build plain data, of
// protocols 0 to 5: None, bool, int, float, str, bytes, list, dict, tuple and the memo that lets them be
// shared. It has no opcode that names a function or a class, builds an object or calls anything; a pickle
// that holds one is refused with what it names.
//
// Time and memory go by the bytes of the pickle: 25 bytes of memory a byte at the very most, and what takes
// more than 6 (a snapshot of PyTorch takes 1 to 3) is refused beyond 64 MiB.
#pragma once

#include <functional>
#include <optional>

#include "base/result.h"
#include "snapshot/pickle_data.h"
#include "snapshot/pickle_input.h"

namespace headroom::snapshot {

// Called with each list and dict that was just filled at once: what it holds may be kept in another form,
// under the number that is returned (PickleData::set_kept). Nothing may be added to it then. Python fills
// lists and dicts in steps of 1000 items, so those of as many or more are not offered, and protocol 0 item by
// item, so that none is.
using KeepObject = std::function<std::optional<std::uint32_t>(PickleValue object)>;

// Errors have no `what` yet: only the caller knows the name of the file.
Status read_pickle(PickleInput& input, PickleData& data, const KeepObject& keep = {});

// True if these first bytes may be a pickle's (unpacked) and are no other format's.
bool looks_like_pickle(std::string_view first_bytes);

}  // namespace headroom::snapshot
