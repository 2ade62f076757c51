// The driver's own memory for contexts and modules: figures of their own, and never part of the recorded
// allocations.
//
// It is measured as a difference before and after the call. For contexts the figures come from NVML, because
// nothing else answers before the first context exists. Other processes may allocate on the device meanwhile.
//
// The driver takes more memory at times that no call reports: for stacks, for streams, and for a module that
// the first launch of its kernel loads. Where NVML reports this process's memory, a thread samples it as a
// separate figure (device_watch.h). The contexts' figure changes only when a context is created or destroyed.
// The first context of a device may be corrected once, soon after its creation.
#pragma once

#include "preload/device_hooks.h"

namespace headroom::preload::driver {

// This process's memory, from NVML, minus everything that is accounted for. False where NVML has no figure,
// or where another driver call may have been running: the driver allocates before or after the ledger knows.
bool measure_unexplained(DriverHook& hook, unsigned device, std::int64_t& bytes);

// Adds a context that took `bytes`. `is_provisional`: the next sample corrects that figure.
void count_context(DriverHook& hook, unsigned device, std::uint64_t number, std::int64_t bytes,
                   bool is_provisional);
// With the last context of a device, the driver frees everything that it had for contexts and modules there.
void forget_context(DriverHook& hook, std::uint64_t number);
// `grown` is the change of the driver's memory for modules.
void count_modules(DriverHook& hook, unsigned device, std::int64_t grown);

// Updates graph memory and, with `with_growth`, the driver's growth: NVML's figure for this process, minus
// its allocations, its modules and its contexts' size at creation.
void sample_device(unsigned device, bool with_growth);

// In the child after fork.
void reset_context_figures_in_child();

}  // namespace headroom::preload::driver
