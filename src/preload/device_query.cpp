// The functions that report a program's GPU memory to that program (ledger/device_query.h).
#include "ledger/device_query.h"

#include <cstring>

#include "preload/device_hooks.h"

namespace headroom::preload {
namespace {

ledger::DeviceFigures figures_of(unsigned device) {
  ledger::Account& account = device_ledger.account();
  ledger::DeviceFigures figures;
  figures.charged = account.charged_to_this_process(device);
  figures.peak = account.peak_of_this_process(device);
  figures.limit = account.limit(device);
  figures.charged_all = account.charged(device);
  figures.pinned_host = device_ledger.figures(device, DeviceMemoryKind::pinned_host).live_bytes +
                        device_ledger.figures(device, DeviceMemoryKind::registered_host).live_bytes;
  for (unsigned kind = 1; kind < kDeviceMemoryKinds; ++kind) {
    const ledger::KindFigures of_kind = device_ledger.figures(device, static_cast<DeviceMemoryKind>(kind));
    figures.refused_count += of_kind.refused_count;
    figures.refused_bytes += of_kind.refused_bytes;
  }
  const ledger::Refusal last = device_ledger.last_refusal(device);
  figures.last_refused_bytes = last.bytes;
  figures.last_refused_charged = last.charged;
  figures.last_refused_own = last.own;
  return figures;
}

}  // namespace

HEADROOM_HOOK bool headroom_device_figures(unsigned device, ledger::DeviceFigures* figures,
                                           std::uint64_t size) {
  if (figures == nullptr || device >= ledger::kMaxDevices) return false;
  const ledger::DeviceFigures found = figures_of(device);
  std::memcpy(static_cast<void*>(figures), &found, size < sizeof found ? size : sizeof found);
  return true;
}

HEADROOM_HOOK void headroom_reset_device_peak(unsigned device) {
  device_ledger.account().reset_peak_of_this_process(device);
}

}  // namespace headroom::preload
