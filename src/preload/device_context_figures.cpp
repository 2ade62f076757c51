#include "preload/device_context_figures.h"

namespace headroom::preload::driver {
namespace {

std::atomic<std::int64_t> context_bytes[ledger::kMaxDevices], module_bytes[ledger::kMaxDevices],
    growth_bytes[ledger::kMaxDevices];
// The context whose bytes the next sample corrects: NVML's figure for this process could not be used at its
// creation.
std::atomic<std::uint64_t> provisional_contexts[ledger::kMaxDevices];

std::uint64_t at_least_zero(std::int64_t bytes) { return static_cast<std::uint64_t>(bytes > 0 ? bytes : 0); }

void record_if_changed(DriverHook& hook, unsigned device, DeviceMemoryKind kind, std::int64_t before,
                       std::int64_t now) {
  if (at_least_zero(before) != at_least_zero(now)) hook.record_figure(device, kind, at_least_zero(now));
}

void add_bytes(DriverHook& hook, unsigned device, DeviceMemoryKind kind, std::atomic<std::int64_t>& figure,
               std::int64_t more) {
  const std::int64_t before = figure.fetch_add(more);
  record_if_changed(hook, device, kind, before, before + more);
}

void clear(DriverHook& hook, unsigned device, DeviceMemoryKind kind, std::atomic<std::int64_t>& figure) {
  record_if_changed(hook, device, kind, figure.exchange(0), 0);
}

void update_driver_growth(DriverHook& hook, unsigned device) {
  std::int64_t more = 0;
  if (!has_context(device) || !measure_unexplained(hook, device, more)) return;
  const std::uint64_t context = provisional_contexts[device].exchange(0);
  if (context != 0 && add_to_context(context, more))
    add_bytes(hook, device, DeviceMemoryKind::context, context_bytes[device], more);
  else
    add_bytes(hook, device, DeviceMemoryKind::driver_growth, growth_bytes[device], more);
}

}  // namespace

bool measure_unexplained(DriverHook& hook, unsigned device, std::int64_t& bytes) {
  const std::uint64_t ended = driver_calls.ended, begun = driver_calls.begun;
  constexpr std::uint64_t kOwn = 1;
  std::uint64_t used = 0;
  if (begun != ended + kOwn) return false;
  const std::int64_t allocated = hook.allocated_bytes(device);
  if (!hook.used_by_this_process(device, used) || driver_calls.begun != begun) return false;
  bytes = static_cast<std::int64_t>(used) - allocated - module_bytes[device] - context_bytes[device] -
          growth_bytes[device];
  return true;
}

void count_context(DriverHook& hook, unsigned device, std::uint64_t number, std::int64_t bytes,
                   bool is_provisional) {
  if (!add_context(number, device, bytes)) return;
  add_bytes(hook, device, DeviceMemoryKind::context, context_bytes[device], bytes);
  if (is_provisional) provisional_contexts[device] = number;
}

void forget_context(DriverHook& hook, std::uint64_t number) {
  const RemovedContext removed = remove_context(number);
  if (!removed.is_known) return;
  const unsigned device = removed.device;
  if (!removed.is_last)
    return add_bytes(hook, device, DeviceMemoryKind::context, context_bytes[device], -removed.bytes);
  provisional_contexts[device] = 0;
  clear(hook, device, DeviceMemoryKind::context, context_bytes[device]);
  clear(hook, device, DeviceMemoryKind::overhead, module_bytes[device]);
  clear(hook, device, DeviceMemoryKind::driver_growth, growth_bytes[device]);
}

void count_modules(DriverHook& hook, unsigned device, std::int64_t grown) {
  if (grown == 0) return;
  const std::int64_t bytes = module_bytes[device].fetch_add(grown) + grown;
  hook.record_figure(device, DeviceMemoryKind::overhead, at_least_zero(bytes));
}

void sample_device(unsigned device, bool with_growth) {
  // A context's size is measured as a difference, which is only exact while no other driver call runs. So the
  // sampling thread makes no calls while a hook is active.
  const bool is_busy = driver_calls.begun != driver_calls.ended;
  if (!with_growth && (is_busy || !DriverHook::may_have_launched_graphs(device))) return;
  DriverHook hook;
  if (!driver_lock.try_lock()) return;  // try again at the next sample
  hook.update_launched_graph_charge(device);
  driver_lock.unlock();
  if (with_growth) update_driver_growth(hook, device);
}

void reset_context_figures_in_child() {
  for (auto& bytes : context_bytes) bytes = 0;
  for (auto& bytes : module_bytes) bytes = 0;
  for (auto& bytes : growth_bytes) bytes = 0;
  for (auto& context : provisional_contexts) context = 0;
}

}  // namespace headroom::preload::driver
