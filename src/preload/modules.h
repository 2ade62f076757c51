// Which libraries are loaded where, so that addresses can be turned into symbols later and on another
// machine. New libraries are noticed after dlopen, or when one of their addresses first appears in a stack;
// unloaded ones at dlclose.
#pragma once

#include <cstdint>

namespace headroom::preload {

// Scans the loaded modules, and records new and unloaded ones. Call it with the thread's guard set. A forked
// child detects only unloaded ones.
void refresh_modules();

// Scans if this address from a stack belongs to no known module.
void note_code_address(std::uint64_t pc);

// Scans if libraries were loaded or unloaded. Needed after a dlopen that the hook did not see return.
void check_loader();

// Sets the handler for libraries that are, or contain, ONNX Runtime. It gets the address of OrtGetApiBase as
// soon as the library is linked, and returns false to be called again later. With find_object, this happens
// at each scan; otherwise only when the loader is known to be idle (LoaderState::done).
void set_onnxruntime_handler(bool (*handler)(std::uint64_t get_api_base));
enum class LoaderState { may_be_busy, done };
// Called with the loader's state after each scan that may have found new libraries.
void set_scan_handler(void (*handler)(LoaderState loader));
void offer_onnxruntimes(LoaderState loader);

// In the child after fork, which must not ask the loader: another thread may have held its lock (see
// is_forked_child). The child keeps its parent's modules, and adds others as their addresses appear.
void reset_modules();
// The next scan records all modules, into a new recording.
void forget_known_modules();
// Writes all known modules into the child's recording.
void rewrite_modules();
// The start of a known module's unwind information (.eh_frame_hdr), or null.
const std::uint8_t* known_frame_header(std::uint64_t pc);

}  // namespace headroom::preload
