// A plug-in with one fault, chosen by a macro. Headroom must reject each of them with an error message and
// not crash.
#include "inference/backend_plugin.h"

extern "C" __attribute__((visibility("default"))) const hr_backend* headroom_backend(void) {
#if defined(HEADROOM_FAULT_NO_TABLE)
  return nullptr;
#else
  static hr_backend backend{};  // its functions are null
  backend.abi_version = HEADROOM_BACKEND_ABI;
  backend.struct_size = sizeof backend;
#if defined(HEADROOM_FAULT_WRONG_ABI)
  backend.abi_version = HEADROOM_BACKEND_ABI + 1;
#elif defined(HEADROOM_FAULT_SHORT_TABLE)
  backend.struct_size = HEADROOM_BACKEND_SMALLEST_TABLE - sizeof(void*);
#endif
  return &backend;
#endif
}
