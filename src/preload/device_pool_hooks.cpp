// Stream-ordered memory from pools. An allocation is charged before the driver's call. After a free, memory
// that the pool keeps stays charged until the pool releases it. While a stream is captured, the same calls
// add nodes to a graph instead.
#include "preload/device_graphs.h"

namespace headroom::preload::driver {
namespace {

// A stream's device is that of its context. That context need not be current, and there may be no current
// context.
bool find_device(DriverHook& hook, Opaque stream, CurrentDevice& where) {
  const bool has_current = hook.get_current(where);
  Opaque context = nullptr;
  if (is_default_stream(stream) || real.cuStreamGetCtx(stream, &context) != kSuccess ||
      number_of(context) == where.context)
    return has_current;
  Device device = -1;
  if (!real.cuCtxPopCurrent_v2 || real.cuCtxPushCurrent_v2(context) != kSuccess) return has_current;
  const Result result = real.cuCtxGetDevice(&device);
  Opaque popped = nullptr;
  real.cuCtxPopCurrent_v2(&popped);
  if (result != kSuccess || device < 0) return has_current;
  where = {number_of(context), static_cast<unsigned>(device)};
  hook.register_device(where.device);
  return true;
}

constexpr unsigned kHostPool = 0xffff;  // in place of a device: a pool of host memory

// A pool's memory is on the pool's own device, whichever device is current. A pool whose creation was not
// seen is a device's default pool.
void find_device_of_pool(DriverHook& hook, Opaque pool, CurrentDevice& where) {
  unsigned device = 0;
  if (!device_ledger.device_of_pool(number_of(pool), device)) {
    device = where.device;
    Opaque own = nullptr;
    for (Device one = 0; one < static_cast<Device>(ledger::kMaxDevices); ++one) {
      if (real.cuDeviceGetDefaultMemPool(&own, one) != kSuccess) break;
      if (own == pool) device = static_cast<unsigned>(one);
    }
    device_ledger.adopt_pool(number_of(pool), device);
  }
  if (device == where.device) return;
  where = {0, device};  // not freed with the current context
  if (device != kHostPool) hook.register_device(device);
}

// After an allocation the pool may have grown more than it ever did before, beyond the limit. Then pools are
// trimmed. False if that is not enough: the allocation must be freed.
bool enforce_limit(DriverHook& hook, std::uint64_t pool, unsigned device, bool may_free) {
  if (hook.update_pool_charge(pool, device, may_free)) return true;
  real.cuMemPoolTrimTo(reinterpret_cast<Opaque>(pool), 0);
  // Not this pool: it would be charged for memory that exceeds the limit.
  hook.trim_pools(device, pool);
  return hook.update_pool_charge(pool, device, may_free) || !may_free;
}

// The pool for one request. A null pool means the device's current pool.
struct PoolRequest {
  Opaque pool = nullptr;
  bool is_current = false;
  ledger::Ledger::PoolGrant grant;
  std::uint64_t key() const { return number_of(pool); }
  // False: the driver does not know the pool.
  bool find(unsigned device) {
    return !is_current || real.cuDeviceGetMemPool(&pool, static_cast<Device>(device)) == kSuccess;
  }
  bool reserve(unsigned device, std::uint64_t bytes) {
    grant = device_ledger.try_reserve_in_pool(key(), device, bytes);
    return grant.is_granted;
  }
};

// Called with the driver lock, which the driver's call needs, too: so no thread replaces a device's pool in
// between.
bool reserve_in_pool(DriverHook& hook, DriverLock& lock, PoolRequest& request, unsigned device,
                     std::uint64_t bytes) {
  if (request.reserve(device, bytes)) return true;
  lock.unlock();
  reclaim_memory(hook, device);
  lock.lock();
  if (request.find(device) && request.reserve(device, bytes)) return true;
  if (device_ledger.account().limit(device) == ledger::kNoLimit) return false;
  hook.trim_pools(device);
  return request.reserve(device, bytes);
}

template <class Call>
Result allocate_in_pool(DriverHook& hook, const CurrentDevice& where, Opaque pool, Pointer* pointer,
                        std::size_t bytes, Opaque stream, DefaultStream kind, const Call& call) {
  const auto free = (kind == kLegacy ? real.cuMemFreeAsync : real.cuMemFreeAsync_ptsz).pointer;
  DriverLock lock;
  PoolRequest request{pool, pool == nullptr, {}};
  if (!request.find(where.device)) return call();
  if (!reserve_in_pool(hook, lock, request, where.device, bytes)) {
    device_ledger.refuse(where.device, DeviceMemoryKind::pool, bytes, request.grant.charged);
    hook.record_last_refusal();
    return kOutOfMemory;
  }
  const Result result = call();
  if (result != kSuccess) {
    device_ledger.cancel_in_pool(request.key(), bytes);
    hook.update_pool_charge(request.key(), where.device);
    return result;
  }
  if (!enforce_limit(hook, request.key(), where.device, free != nullptr)) {
    free(*pointer, stream);
    *pointer = 0;
    device_ledger.cancel_allocated_in_pool(request.key(), bytes, context_of_stream(stream));
    device_ledger.refuse(where.device, DeviceMemoryKind::pool, bytes);
    hook.record_last_refusal();
    real.cuMemPoolTrimTo(request.pool, 0);
    hook.update_pool_charge(request.key(), where.device);
    return kOutOfMemory;
  }
  Entry entry = entry_of(EntryType::pointer, DeviceMemoryKind::pool, where, bytes);
  entry.address = *pointer;
  entry.context = 0;  // outlives the context, as its pool does
  entry.owner = request.key();
  device_ledger.commit_in_pool(entry, request.grant);
  hook.record_allocation(entry);
  return result;
}

template <class Call>
Result allocate_stream_ordered(DriverHook& hook, Opaque pool, DefaultStream kind, Opaque stream,
                               Pointer* pointer, std::size_t bytes, const Call& call) {
  CurrentDevice where;
  if (pointer == nullptr || !find_device(hook, stream, where)) return call();
  if (pool != nullptr) find_device_of_pool(hook, pool, where);
  if (where.device == kHostPool) {
    if (!hook.get_current(where)) return call();
    return allocate(hook, entry_of(EntryType::pointer, DeviceMemoryKind::pinned_host, where, bytes), call,
                    [&] { return *pointer; });
  }
  if (const Capture capture = capture_of(kind, stream); capture.graph != nullptr)
    return allocate_node(hook, capture.graph, where, bytes, capture.dependencies(), call,
                         [&] { return *pointer; });
  return allocate_in_pool(hook, where, pool, pointer, bytes, stream, kind, call);
}

template <DefaultStream kind>
Result allocate_async(DriverHook& hook, auto call, Pointer* pointer, std::size_t bytes, Opaque stream) {
  return allocate_stream_ordered(hook, nullptr, kind, stream, pointer, bytes,
                                 [&] { return call(pointer, bytes, stream); });
}
template <DefaultStream kind>
Result allocate_from_pool(DriverHook& hook, auto call, Pointer* pointer, std::size_t bytes, Opaque pool,
                          Opaque stream) {
  return allocate_stream_ordered(hook, pool, kind, stream, pointer, bytes,
                                 [&] { return call(pointer, bytes, pool, stream); });
}

template <DefaultStream kind>
Result free_async(DriverHook& hook, auto call, Pointer pointer, Opaque stream) {
  const DriverLock lock;
  const Opaque graph = capture_of(kind, stream).graph;
  if (graph == nullptr) {
    Entry freed;
    // The free completes when this stream reaches it. Without a limit no call synchronizes for it.
    if (lock.is_held()) freed.context = context_of_stream(stream);
    const Result result = release(
        hook, EntryType::pointer, pointer, [&] { return call(pointer, stream); }, &freed, lock.is_held());
    if (freed.kind != DeviceMemoryKind::pool || freed.address == 0) return result;
    // The pool may have been destroyed meanwhile; then the driver must not be asked about it.
    const DriverLock pool_lock = DriverLock::unconditional();
    if (device_ledger.is_pool(freed.owner)) hook.update_pool_charge(freed.owner, freed.device);
    return result;
  }
  const Result result = call(pointer, stream);
  // The free node is the one that the stream's next node depends on.
  const Capture after = capture_of(kind, stream);
  if (result == kSuccess)
    device_ledger.free_node(number_of(graph), pointer, after.count == 1 ? number_of(after.nodes[0]) : 0);
  return result;
}

// Managed memory is charged to the device wherever it is now, as for cuMemAllocManaged.
void register_pool(DriverHook& hook, Opaque pool, const Location& location, int type, bool is_new) {
  unsigned device = kHostPool;
  CurrentDevice where;
  if (location.type == kLocationDevice && location.id >= 0)
    device = static_cast<unsigned>(location.id);
  else if (type == kManagedMemory)
    device = hook.get_current(where) ? where.device : 0;
  device_ledger.adopt_pool(number_of(pool), device, is_new);
}

Result create_pool(DriverHook& hook, auto call, Opaque* pool, const PoolProperties* properties) {
  if (pool == nullptr || properties == nullptr) return call(pool, properties);
  // Locked, so that this does not run between the destruction of a pool with the same handle and its removal
  // from the ledger.
  const DriverLock lock = DriverLock::unconditional();
  const Result result = call(pool, properties);
  if (result == kSuccess) register_pool(hook, *pool, properties->location, properties->type, true);
  return result;
}

Result get_pool(DriverHook& hook, auto call, Opaque* pool, Location* location, int type) {
  const Result result = call(pool, location, type);
  if (result == kSuccess && pool != nullptr && location != nullptr)
    register_pool(hook, *pool, *location, type, false);
  return result;
}

// Locked, so that the device's pool does not change between finding it and allocating from it.
Result set_pool(DriverHook&, auto call, auto... arguments) {
  const DriverLock lock;
  return call(arguments...);
}

Result destroy_pool(DriverHook& hook, auto call, Opaque pool) {
  unsigned device = 0;
  const DriverLock lock = DriverLock::unconditional();
  const bool is_known = device_ledger.device_of_pool(number_of(pool), device);
  if (is_known && device != kHostPool) {
    // After this, the charge is only for memory with pending frees.
    real.cuMemPoolTrimTo(pool, 0);
    hook.update_pool_charge(number_of(pool), device);
  }
  const Result result = call(pool);
  if (result != kSuccess || !is_known) return result;
  device_ledger.destroy_pool(number_of(pool));
  if (device == kHostPool) return result;
  hook.record_figure(device, DeviceMemoryKind::pool_reserved, device_ledger.reserved_by_pools(device));
  return result;
}

Result trim_pool(DriverHook& hook, auto call, Opaque pool, std::size_t keep) {
  const DriverLock lock;
  const Result result = call(pool, keep);
  unsigned device = 0;
  if (result == kSuccess && device_ledger.device_of_pool(number_of(pool), device) && device != kHostPool)
    hook.update_pool_charge(number_of(pool), device);
  return result;
}

// A process that imports the pointer keeps the memory, even after this process frees it or destroys the pool.
Result export_from_pool(DriverHook& hook, auto call, void* shared, Pointer pointer) {
  ExportCharge charge(hook, pointer);
  if (!charge.is_granted()) return kOutOfMemory;
  const Result result = call(shared, pointer);
  if (result == kSuccess) charge.keep();
  return result;
}

// The memory is charged to the process that created the pool.
Result import_to_pool(DriverHook& hook, auto call, Pointer* pointer, Opaque pool, void* data) {
  CurrentDevice where;
  const bool is_known = pointer != nullptr && hook.get_current(where);
  const Result result = call(pointer, pool, data);
  if (result != kSuccess || !is_known) return result;
  commit_and_record(hook, imported_entry(hook, *pointer, where), *pointer);
  return result;
}

}  // namespace

HEADROOM_POOL_CALLS(HEADROOM_DEFINE_HOOK)

}  // namespace headroom::preload::driver
