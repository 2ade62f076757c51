// Memory from pools, in the order of a stream. What is in use is charged before the driver is asked; what the
// pool keeps of that when it is freed stays charged until the pool gives it back. While a stream is captured
// the same call adds a node to a graph.
#include "tracer/graph_nodes.h"

namespace headroom::tracer::driver {
namespace {

// The device of a stream is that of its context, which need not be current, nor any.
bool find_device(DriverHook& hook, Opaque stream, CurrentDevice& where) {
  const bool has_current = hook.get_current(where);
  if (is_of_green_context(stream, where)) {
    hook.meet(where.device);
    return true;
  }
  Opaque context = nullptr;
  if (is_default_stream(stream) || real.cuStreamGetCtx == nullptr ||
      real.cuStreamGetCtx(stream, &context) != kSuccess ||
      context_that_owns(number_of(context)) == where.context)
    return has_current;
  Device device = -1;
  if (real.cuCtxPushCurrent_v2 == nullptr || real.cuCtxPopCurrent_v2 == nullptr ||
      real.cuCtxPushCurrent_v2(context) != kSuccess)
    return has_current;
  const Result result = real.cuCtxGetDevice(&device);
  Opaque popped = nullptr;
  real.cuCtxPopCurrent_v2(&popped);
  if (result != kSuccess || device < 0) return has_current;
  where = {context_that_owns(number_of(context)), static_cast<unsigned>(device)};
  hook.meet(where.device);
  return true;
}

constexpr unsigned kOfTheMachine = 0xffff;  // instead of a device: a pool of the machine's memory

// A pool's memory lives where the pool was made for, whichever device is current. Pools that are not known
// from their making are the devices' own.
void find_device_of_pool(DriverHook& hook, Opaque pool, CurrentDevice& where) {
  unsigned device = 0;
  if (!device_ledger.device_of_pool(number_of(pool), device)) {
    device = where.device;
    Opaque own = nullptr;
    for (Device one = 0; one < static_cast<Device>(ledger::kMaxDevices); ++one) {
      if (real.cuDeviceGetDefaultMemPool == nullptr || real.cuDeviceGetDefaultMemPool(&own, one) != kSuccess)
        break;
      if (own == pool) device = static_cast<unsigned>(one);
    }
    device_ledger.adopt_pool(number_of(pool), device);
  }
  if (device == where.device) return;
  where = {0, device};  // it does not go with the context that is current
  if (device != kOfTheMachine) hook.meet(device);
}

// The driver took more for the pool than it was seen to take before, and the limit has no room for it: what
// the pool can do without goes back, and if that is not enough, the allocation.
bool keeps_limit(DriverHook& hook, std::uint64_t pool, unsigned device, bool may_free) {
  if (hook.look_at_pool(pool, device, may_free)) return true;
  if (real.cuMemPoolTrimTo != nullptr) real.cuMemPoolTrimTo(reinterpret_cast<Opaque>(pool), 0);
  // Not this one, which would be charged for what has no room.
  hook.settle_pools(device, pool);
  return hook.look_at_pool(pool, device, may_free) || !may_free;
}

// The pool that a request is taken from: null is the device's own of the moment.
struct FromPool {
  Opaque pool = nullptr;
  bool is_current = false;
  ledger::Ledger::PoolGrant grant;
  std::uint64_t key() const { return number_of(pool); }
  // False: the driver does not tell.
  bool find(unsigned device) {
    return !is_current || (real.cuDeviceGetMemPool != nullptr &&
                           real.cuDeviceGetMemPool(&pool, static_cast<Device>(device)) == kSuccess);
  }
  bool reserve(unsigned device, std::uint64_t bytes) {
    grant = device_ledger.try_reserve_in_pool(key(), device, bytes);
    return grant.is_granted;
  }
};

// With the order, in which the driver is asked then: nobody changes a device's pool meanwhile.
bool reserve_in_pool(DriverHook& hook, DriverOrder& order, FromPool& from, unsigned device,
                     std::uint64_t bytes) {
  if (from.reserve(device, bytes)) return true;
  order.give_up();
  hook.make_room(device);
  order.take_again();
  if (from.find(device) && from.reserve(device, bytes)) return true;
  if (device_ledger.account().limit(device) == ledger::kNoLimit) return false;
  hook.settle_pools(device);
  return from.reserve(device, bytes);
}

using Free = Result (*)(Pointer, Opaque);

template <class Call>
Result allocate_in_pool(DriverHook& hook, const CurrentDevice& where, Opaque pool, Pointer* pointer,
                        std::size_t bytes, Opaque stream, Free free, const CallFrame& caller,
                        const Call& call) {
  DriverOrder order;
  FromPool from{pool, pool == nullptr, {}};
  if (!from.find(where.device)) return call();
  if (!reserve_in_pool(hook, order, from, where.device, bytes)) {
    device_ledger.refuse(where.device, DeviceMemoryKind::pool, bytes, from.grant.charged);
    hook.record_last_refusal(caller);
    return kOutOfMemory;
  }
  const Result result = call();
  if (result != kSuccess) {
    device_ledger.cancel_in_pool(from.key(), bytes);
    hook.look_at_pool(from.key(), where.device);
    return result;
  }
  if (!keeps_limit(hook, from.key(), where.device, free != nullptr)) {
    free(*pointer, stream);
    *pointer = 0;
    device_ledger.cancel_allocated_in_pool(from.key(), bytes, context_of_stream(stream));
    device_ledger.refuse(where.device, DeviceMemoryKind::pool, bytes);
    hook.record_last_refusal(caller);
    if (real.cuMemPoolTrimTo != nullptr) real.cuMemPoolTrimTo(from.pool, 0);
    hook.look_at_pool(from.key(), where.device);
    return kOutOfMemory;
  }
  Entry entry = entry_of(EntryType::pointer, DeviceMemoryKind::pool, where, bytes);
  entry.address = *pointer;
  entry.context = 0;  // it outlives the context, as its pool does
  entry.link = from.key();
  device_ledger.commit_in_pool(entry, from.grant);
  hook.record_allocation(entry, caller);
  return result;
}

template <class Call>
Result allocate_in_order(Opaque pool, DefaultStream kind, Free free, Opaque stream, Pointer* pointer,
                         std::size_t bytes, const CallFrame& caller, const Call& call) {
  DriverHook hook;
  CurrentDevice where;
  if (pointer == nullptr || !hook.counts() || !find_device(hook, stream, where)) return call();
  if (pool != nullptr) find_device_of_pool(hook, pool, where);
  if (where.device == kOfTheMachine) {
    if (!hook.get_current(where)) return call();
    return allocate(hook, entry_of(EntryType::pointer, DeviceMemoryKind::pinned_host, where, bytes), caller, call,
                    [&] { return *pointer; });
  }
  if (const Capture capture = capture_of(kind, stream); capture.graph != nullptr)
    return allocate_node(hook, capture.graph, where, bytes, capture.behind(), caller, call,
                         [&] { return *pointer; });
  return allocate_in_pool(hook, where, pool, pointer, bytes, stream, free, caller, call);
}

Result free_in_order(Result (*call)(Pointer, Opaque), DefaultStream kind, Pointer pointer, Opaque stream) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(pointer, stream);
  const DriverOrder order;
  const Opaque graph = capture_of(kind, stream).graph;
  if (graph == nullptr) {
    Entry freed;
    // It is gone when the device comes to it in this stream. Without a limit nothing is waited for.
    if (order.holds()) freed.context = context_of_stream(stream);
    const Result result = release(
        hook, EntryType::pointer, pointer, [&] { return call(pointer, stream); }, &freed, order.holds());
    if (freed.kind != DeviceMemoryKind::pool || freed.address == 0) return result;
    // Its pool may have been destroyed, before or by another thread: then nobody may ask about it.
    const DriverOrder for_look = DriverOrder::for_pools();
    if (device_ledger.is_pool(freed.link)) hook.look_at_pool(freed.link, freed.device);
    return result;
  }
  const Result result = call(pointer, stream);
  // The node that frees is the one that the next comes behind.
  const Capture after = capture_of(kind, stream);
  if (result == kSuccess)
    device_ledger.free_node(number_of(graph), pointer, after.count == 1 ? number_of(after.nodes[0]) : 0);
  return result;
}

// Managed memory counts as the device's wherever it is now, as cuMemAllocManaged's does.
void adopt(DriverHook& hook, Opaque pool, const Location& location, int type, bool is_new) {
  unsigned device = kOfTheMachine;
  CurrentDevice where;
  if (location.type == kLocationDevice && location.id >= 0)
    device = static_cast<unsigned>(location.id);
  else if (type == kManagedMemory)
    device = hook.get_current(where) ? where.device : 0;
  device_ledger.adopt_pool(number_of(pool), device, is_new);
}

Result get_pool(Result (*call)(Opaque*, Location*, int), Opaque* pool, Location* location, int type) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const Result result = call(pool, location, type);
  if (result == kSuccess && pool != nullptr && location != nullptr && hook.counts())
    adopt(hook, *pool, *location, type, false);
  return result;
}

}  // namespace

// Another process that imports it has the memory, whatever becomes of it, and of its pool, here.
HEADROOM_HOOK Result cuMemPoolExportPointer(void* shared, Pointer pointer) {
  const auto call = HEADROOM_REAL(cuMemPoolExportPointer);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(shared, pointer);
  SharedPart part(hook, pointer, caller_of_this_function());
  if (!part.is_granted()) return kOutOfMemory;
  const Result result = call(shared, pointer);
  if (result == kSuccess) part.keep();
  return result;
}

HEADROOM_HOOK Result cuMemAllocAsync(Pointer* pointer, std::size_t bytes, Opaque stream) {
  const auto call = HEADROOM_REAL(cuMemAllocAsync);
  if (call == nullptr) return kNotFound;
  return allocate_in_order(nullptr, DefaultStream::legacy, real.cuMemFreeAsync, stream, pointer, bytes,
                           caller_of_this_function(), [&] { return call(pointer, bytes, stream); });
}
HEADROOM_HOOK Result cuMemAllocAsync_ptsz(Pointer* pointer, std::size_t bytes, Opaque stream) {
  const auto call = HEADROOM_REAL(cuMemAllocAsync_ptsz);
  if (call == nullptr) return kNotFound;
  return allocate_in_order(nullptr, DefaultStream::per_thread, real.cuMemFreeAsync_ptsz, stream, pointer,
                           bytes, caller_of_this_function(), [&] { return call(pointer, bytes, stream); });
}
HEADROOM_HOOK Result cuMemAllocFromPoolAsync(Pointer* pointer, std::size_t bytes, Opaque pool,
                                             Opaque stream) {
  const auto call = HEADROOM_REAL(cuMemAllocFromPoolAsync);
  if (call == nullptr) return kNotFound;
  return allocate_in_order(pool, DefaultStream::legacy, real.cuMemFreeAsync, stream, pointer, bytes,
                           caller_of_this_function(), [&] { return call(pointer, bytes, pool, stream); });
}
HEADROOM_HOOK Result cuMemAllocFromPoolAsync_ptsz(Pointer* pointer, std::size_t bytes, Opaque pool,
                                                  Opaque stream) {
  const auto call = HEADROOM_REAL(cuMemAllocFromPoolAsync_ptsz);
  if (call == nullptr) return kNotFound;
  return allocate_in_order(pool, DefaultStream::per_thread, real.cuMemFreeAsync_ptsz, stream, pointer, bytes,
                           caller_of_this_function(), [&] { return call(pointer, bytes, pool, stream); });
}
HEADROOM_HOOK Result cuMemFreeAsync(Pointer pointer, Opaque stream) {
  const auto call = HEADROOM_REAL(cuMemFreeAsync);
  return free_in_order(call, DefaultStream::legacy, pointer, stream);
}
HEADROOM_HOOK Result cuMemFreeAsync_ptsz(Pointer pointer, Opaque stream) {
  const auto call = HEADROOM_REAL(cuMemFreeAsync_ptsz);
  return free_in_order(call, DefaultStream::per_thread, pointer, stream);
}

HEADROOM_HOOK Result cuMemPoolCreate(Opaque* pool, const PoolProperties* properties) {
  const auto call = HEADROOM_REAL(cuMemPoolCreate);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (pool == nullptr || properties == nullptr || !hook.counts()) return call(pool, properties);
  // Not between the end of another of that handle and what is told of it.
  const DriverOrder order = DriverOrder::for_pools();
  const Result result = call(pool, properties);
  if (result == kSuccess) adopt(hook, *pool, properties->location, properties->type, true);
  return result;
}
HEADROOM_HOOK Result cuMemGetDefaultMemPool(Opaque* pool, Location* location, int type) {
  return get_pool(HEADROOM_REAL(cuMemGetDefaultMemPool), pool, location, type);
}
HEADROOM_HOOK Result cuMemGetMemPool(Opaque* pool, Location* location, int type) {
  return get_pool(HEADROOM_REAL(cuMemGetMemPool), pool, location, type);
}
// Not between the look at which one it is and a request.
HEADROOM_HOOK Result cuDeviceSetMemPool(Device device, Opaque pool) {
  const auto call = HEADROOM_REAL(cuDeviceSetMemPool);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(device, pool);
  const DriverOrder order;
  return call(device, pool);
}
HEADROOM_HOOK Result cuMemSetMemPool(Location* location, int type, Opaque pool) {
  const auto call = HEADROOM_REAL(cuMemSetMemPool);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(location, type, pool);
  const DriverOrder order;
  return call(location, type, pool);
}
HEADROOM_HOOK Result cuMemPoolDestroy(Opaque pool) {
  const auto call = HEADROOM_REAL(cuMemPoolDestroy);
  DriverHook hook;
  unsigned device = 0;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(pool);
  const DriverOrder order = DriverOrder::for_pools();
  const bool is_known = device_ledger.device_of_pool(number_of(pool), device);
  if (is_known && device != kOfTheMachine) {
    // So that what is charged is what has to be waited for.
    if (real.cuMemPoolTrimTo != nullptr) real.cuMemPoolTrimTo(pool, 0);
    hook.look_at_pool(number_of(pool), device);
  }
  const Result result = call(pool);
  if (result != kSuccess || !is_known) return result;
  device_ledger.destroy_pool(number_of(pool));
  if (device == kOfTheMachine) return result;
  hook.record_figure(device, DeviceMemoryKind::pool_reserved, device_ledger.reserved_by_pools(device));
  return result;
}
HEADROOM_HOOK Result cuMemPoolTrimTo(Opaque pool, std::size_t keep) {
  const auto call = HEADROOM_REAL(cuMemPoolTrimTo);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const DriverOrder order;
  const Result result = call(pool, keep);
  unsigned device = 0;
  if (result == kSuccess && hook.counts() && device_ledger.device_of_pool(number_of(pool), device) &&
      device != kOfTheMachine)
    hook.look_at_pool(number_of(pool), device);
  return result;
}
// Memory of the process that made the pool.
HEADROOM_HOOK Result cuMemPoolImportPointer(Pointer* pointer, Opaque pool, void* data) {
  const auto call = HEADROOM_REAL(cuMemPoolImportPointer);
  DriverHook hook;
  CurrentDevice where;
  if (call == nullptr) return kNotFound;
  if (pointer == nullptr || !hook.counts() || !hook.get_current(where)) return call(pointer, pool, data);
  const Result result = call(pointer, pool, data);
  if (result != kSuccess) return result;
  std::size_t bytes = 0;
  Pointer base = 0;
  if (real.cuMemGetAddressRange_v2 != nullptr) real.cuMemGetAddressRange_v2(&base, &bytes, *pointer);
  hook.find_device_of(*pointer, where);
  Entry entry = entry_of(EntryType::pointer, DeviceMemoryKind::imported, where, bytes);
  entry.address = *pointer;
  device_ledger.commit(entry);
  hook.record_allocation(entry, caller_of_this_function());
  return result;
}

}  // namespace headroom::tracer::driver
