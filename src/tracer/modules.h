// Which libraries are loaded where, for symbols to be found later and elsewhere. Libraries that come are
// noticed when one of their addresses first shows up in a stack; those that go, at dlclose.
#pragma once

#include <cstdint>

namespace headroom::tracer {

// Looks at what is loaded now and writes what came and what went. With the thread's guard up.
void refresh_modules();

// An address that stands in a stack: refreshes when it belongs to no module that is known.
void note_code_address(std::uint64_t pc);

// True once after a library has come that is, or holds, an ONNX Runtime.
bool onnxruntime_has_come();

// In a child after fork: its recording knows no modules yet.
void forget_modules();

}  // namespace headroom::tracer
