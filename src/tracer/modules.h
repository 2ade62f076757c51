// Which libraries are loaded where, for symbols to be found later and elsewhere. Libraries that come are
// noticed after dlopen, or when one of their addresses first shows up in a stack; those that go, at dlclose.
#pragma once

#include <cstdint>

namespace headroom::tracer {

// Looks at what is loaded now and writes what came and what went. With the thread's guard up. In a child
// after fork only what went is seen.
void refresh_modules();

// An address that stands in a stack: refreshes when it belongs to no module that is known.
void note_code_address(std::uint64_t pc);

// After a dlopen whose end is not seen: refreshes if libraries have come or gone.
void look_at_loader();

// Who is to have each library that is, or holds, an ONNX Runtime: by the address of its OrtGetApiBase, as
// soon as the library is linked. Where the C library can tell that, this happens as the modules are
// refreshed, else only at the times when LoaderIs::done. `taker` says whether it has taken it, or wants to be
// asked again.
void take_onnxruntimes(bool (*taker)(std::uint64_t get_api_base));
enum class LoaderIs { perhaps_at_work, done };
void hand_out_onnxruntimes(LoaderIs loader);

// The child after fork does not ask the loader, whose lock may be held for ever (see is_forked_child): it has
// its parent's modules from memory, and others as their addresses show up.
void reset_modules();
// Writes all modules that are known into the child's recording.
void rewrite_modules();
// Where the unwind information of a module that is known begins, or null.
const std::uint8_t* known_frame_header(std::uint64_t pc);

}  // namespace headroom::tracer
