// A plug-in with one fault, chosen by a macro. Headroom must reject each of them with an error message and
// not crash.
#include "inference/backend_plugin.h"

namespace {

[[maybe_unused]] int start(hr_error*) { return 0; }
[[maybe_unused]] void stop() {}
[[maybe_unused]] const char* version() { return "0"; }
[[maybe_unused]] int load(const char*, const hr_settings*, hr_session**, hr_error*) { return 1; }
[[maybe_unused]] void unload(hr_session*) {}
[[maybe_unused]] int describe(hr_session*, hr_description*, hr_error*) { return 1; }
[[maybe_unused]] int bind_input(hr_session*, int32_t, const hr_tensor*, hr_error*) { return 1; }
[[maybe_unused]] int run(hr_session*, hr_error*) { return 1; }
[[maybe_unused]] int output(hr_session*, int32_t, hr_tensor*, hr_error*) { return 1; }
[[maybe_unused]] int memory_stats(hr_session*, hr_memory_stats*, hr_error*) { return 1; }

constexpr const char* kExtensions[] = {".faulty", nullptr};

// Complete except for trim, which is null.
[[maybe_unused]] hr_backend table() {
  return {HEADROOM_BACKEND_ABI,
          sizeof(hr_backend),
          "faulty",
          kExtensions,
          start,
          stop,
          version,
          load,
          unload,
          describe,
          bind_input,
          run,
          output,
          memory_stats,
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          nullptr};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const hr_backend* headroom_backend(void) {
#if defined(HEADROOM_FAULT_NO_TABLE)
  return nullptr;
#else
  static hr_backend backend = table();
#if defined(HEADROOM_FAULT_WRONG_ABI)
  backend.abi_version = HEADROOM_BACKEND_ABI + 1;
#elif defined(HEADROOM_FAULT_SHORT_TABLE)
  backend.struct_size = HEADROOM_BACKEND_SMALLEST_TABLE - sizeof(void*);
#endif
  return &backend;
#endif
}
