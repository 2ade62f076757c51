// What the preload library tells the program that it was loaded into of its memory of a GPU. The functions
// are looked up by name (dlsym): a program without the library has none of them, and knows nothing.
#pragma once

#include <cstdint>

namespace headroom::ledger {

// Bytes. What counts against a limit: the device's own memory (on an integrated GPU pinned memory, too), with
// what pools and graphs keep, without contexts and modules.
struct DeviceFigures {
  std::uint64_t charged = 0;                           // to this process now
  std::uint64_t peak = 0;                              // the most since the last reset
  std::uint64_t limit = 0;                             // of all processes of the account together; ~0: none
  std::uint64_t charged_all = 0;                       // to all processes of the account now
  std::uint64_t pinned_host = 0;                       // the machine's memory, pinned for the device, now
  std::uint64_t refused_count = 0, refused_bytes = 0;  // of this process, since its start
  std::uint64_t last_refused_bytes = 0;                // what was asked for last, and not granted
  std::uint64_t last_refused_charged = 0;              // that all held at that moment
  std::uint64_t last_refused_own = 0;                  // that this process held then
};

inline constexpr const char* kDeviceFiguresSymbol = "headroom_device_figures";
// `size`: of the caller's structure; fields that are added later stay as they are for an older caller. False
// if the library has no such device.
using DeviceFiguresFunction = bool (*)(unsigned device, DeviceFigures* figures, std::uint64_t size);

inline constexpr const char* kResetDevicePeakSymbol = "headroom_reset_device_peak";
using ResetDevicePeakFunction = void (*)(unsigned device);

}  // namespace headroom::ledger
