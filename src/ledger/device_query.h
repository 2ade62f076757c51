// The interface through which a program asks the preload library about its GPU memory. A program looks the
// functions up by name with dlsym; without the library they do not exist.
#pragma once

#include <cstdint>

namespace headroom::ledger {

// All values are bytes, except refused_count. The charge covers the device's own memory, including the memory
// that pools and graphs keep. On an integrated GPU it also covers pinned memory. It excludes contexts and
// modules.
struct DeviceFigures {
  std::uint64_t charged = 0;                           // charged to this process now
  std::uint64_t peak = 0;                              // highest charge since the last reset
  std::uint64_t limit = 0;                             // for all processes of the account together; ~0: none
  std::uint64_t charged_all = 0;                       // charged to all processes of the account now
  std::uint64_t pinned_host = 0;                       // host memory that is pinned for the device now
  std::uint64_t refused_count = 0, refused_bytes = 0;  // by this process, since its start
  std::uint64_t last_refused_bytes = 0;                // size of the last refused request
  std::uint64_t last_refused_charged = 0;              // charged to all processes at that moment
  std::uint64_t last_refused_own = 0;                  // charged to this process at that moment
};

inline constexpr const char* kDeviceFiguresSymbol = "headroom_device_figures";
// `size` is the size of the caller's structure: the library does not write fields that an older caller does
// not have. Returns false if the library does not know the device.
using DeviceFiguresFunction = bool (*)(unsigned device, DeviceFigures* figures, std::uint64_t size);

inline constexpr const char* kResetDevicePeakSymbol = "headroom_reset_device_peak";
using ResetDevicePeakFunction = void (*)(unsigned device);

}  // namespace headroom::ledger
