#include "preload/device_graph_release.h"

namespace headroom::preload::driver {
namespace {

// The driver has destroyed the graph already, and frees its memory when that is not in use any more.
void finish_graph_release(DriverHook& hook, const Entry& freed, std::uint64_t time) {
  if (freed.of.graph.block_bytes > 0) hook.record_release(freed, time);
  hook.trim_and_update_graphs(freed.device);
  hook.reconcile_graphs(freed.device, true);
  hook.update_graph_charge(freed.device);
}

}  // namespace

void drop_past_updates(DriverHook& hook, std::uint64_t exec, std::uint64_t time) {
  Entry freed;
  while (device_ledger.drop_past_update(exec, freed)) finish_graph_release(hook, freed, time);
}

void trim_launched_graphs(DriverHook& hook) {
  for (unsigned device = 0; device < ledger::kMaxDevices; ++device)
    if (hook.may_have_launched_graphs(device)) hook.trim_and_update_graphs(device);
}

void drop_graph(DriverHook& hook, EntryType type, std::uint64_t graph, std::uint64_t time) {
  Entry freed;
  for (unsigned device = 0; device_ledger.destroy_graph(type, graph, device, freed); ++device)
    finish_graph_release(hook, freed, time);
  if (type != EntryType::graph_exec) return;
  drop_past_updates(hook, graph, time);
  trim_launched_graphs(hook);
}

void drop_captured_graph(DriverHook& hook, std::uint64_t graph) {
  if (graph == 0) return;
  const DriverLock lock;
  drop_graph(hook, EntryType::graph, graph, hook.stamp());
}

}  // namespace headroom::preload::driver
