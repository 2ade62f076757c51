// Reads a pickle as plain data, without executing anything.
//
// A pickle is a program for a small stack machine, and Python's implementation runs any function that the
// program names. So opening an untrusted file in Python can take over the machine. This reader supports only
// the opcodes of protocols 2 to 5 that build plain data: None, bool, int, float, str, bytes, list, dict and
// tuple. (Python 3 writes 3 or higher, LibTorch 2.) It also supports the memo, with which a value can occur
// several times. It supports no opcode that names a function or a class, creates an object or calls anything.
// Such a pickle is rejected with the name that it uses.
//
// Time and memory are proportional to the size of the pickle: at most 25 bytes of memory per byte. A pickle
// that needs more than 6 bytes per byte (a PyTorch snapshot needs 1 to 3) is rejected beyond 64 MiB.
#pragma once

#include <functional>
#include <optional>

#include "base/result.h"
#include "snapshot/pickle_data.h"
#include "snapshot/pickle_input.h"

namespace headroom::snapshot {

// Called with each list and dict that was filled in one batch. The callback may store the content in another
// form and return a number for it (PickleData::set_kept). Nothing may be added to the object afterwards.
// Python fills lists and dicts in batches of 1000 items, so objects with 1000 items or more are not offered.
using KeepObject = std::function<std::optional<std::uint32_t>(PickleValue object)>;

// Errors have no `what` yet, because only the caller knows the file name.
Status read_pickle(PickleInput& input, PickleData& data, const KeepObject& keep = {});

}  // namespace headroom::snapshot
