// Returns a pickle of plain data, as PyTorch's pickler writes it (protocol 2, no memo).
#pragma once

#include <string>

#include "base/json.h"

namespace headroom::test {

// {"tuple": [1, 2]} is a tuple; other objects are dicts.
std::string pickle_of(const Json& data);

}  // namespace headroom::test
