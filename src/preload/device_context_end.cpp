#include "preload/device_context_end.h"

#include "preload/device_context_figures.h"
#include "preload/device_graph_release.h"

namespace headroom::preload::driver {
namespace {

constexpr auto kContextOwner = ledger::Ledger::Owner::context;

}  // namespace

ContextDestruction::ContextDestruction(std::uint64_t context)
    : context_(context), number_(device_ledger.begin_destroy(kContextOwner, context)) {
  rename_context(context_, number_);
}

void ContextDestruction::finish(DriverHook& hook) const {
  forget_context(hook, number_);
  Entry dropped;
  ledger::Ledger::Pass pass;
  while (device_ledger.drop_from_context(number_, pass, dropped))
    if (dropped.type == EntryType::capture)
      drop_captured_graph(hook, dropped.owner);
    else
      hook.record_release(dropped);
}

// The driver did not destroy the context.
void ContextDestruction::undo() const {
  rename_context(number_, context_);
  device_ledger.undo_destroy(kContextOwner, number_, context_);
}

void ContextDestruction::finish_or_undo(DriverHook& hook, bool is_destroyed) const {
  if (is_destroyed)
    finish(hook);
  else
    undo();
}

PrimaryContextDestruction::PrimaryContextDestruction(Device device)
    : known_(known_primary(static_cast<unsigned>(device))),
      of_green_(placeholder_number(static_cast<unsigned>(device))) {}

void PrimaryContextDestruction::finish_or_undo(DriverHook& hook, bool is_destroyed) const {
  known_.finish_or_undo(hook, is_destroyed);
  of_green_.finish_or_undo(hook, is_destroyed);
}

void finish_if_destroyed(DriverHook& hook, Device device) {
  unsigned flags = 0;
  int is_active = 1;
  if (!is_device(device) || real.cuDevicePrimaryCtxGetState == nullptr ||
      real.cuDevicePrimaryCtxGetState(device, &flags, &is_active) != kSuccess || is_active != 0)
    return;
  PrimaryContextDestruction(device).finish_or_undo(hook, true);
}

void release_retained_primary(DriverHook& hook, Device device) {
  const PrimaryLocked locked(device);
  if (real.cuDevicePrimaryCtxRelease_v2 != nullptr && real.cuDevicePrimaryCtxRelease_v2(device) == kSuccess)
    finish_if_destroyed(hook, device);
}

}  // namespace headroom::preload::driver
