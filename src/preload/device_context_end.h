// The end of contexts: it frees everything that was allocated in them.
#pragma once

#include "preload/device_hooks.h"

namespace headroom::preload::driver {

// Moves a context's entries to a temporary number while the driver destroys it. Another thread may get the
// same handle for a new context before the call returns here.
class ContextDestruction {
 public:
  explicit ContextDestruction(std::uint64_t context);
  void finish_or_undo(DriverHook& hook, bool is_destroyed) const;

 private:
  void finish(DriverHook& hook) const;
  void undo() const;
  std::uint64_t context_, number_;
};

// If only green contexts created the primary context, its entries are under the placeholder.
class PrimaryContextDestruction {
 public:
  explicit PrimaryContextDestruction(Device device);
  void finish_or_undo(DriverHook& hook, bool is_destroyed) const;

 private:
  ContextDestruction known_, of_green_;
};

// Drops the primary context's entries if its last user released it. Called with the primary lock and after
// the driver's call, because other threads use the context until then if this was not the last release.
void finish_if_destroyed(DriverHook& hook, Device device);

// Releases a primary context that the tracer retained for a moment. If that was the last reference, the
// tracer forgets the context.
void release_retained_primary(DriverHook& hook, Device device);

}  // namespace headroom::preload::driver
