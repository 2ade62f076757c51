// The probe's routes: one function for each kind of allocation that the driver offers.
#include "cuda/probe_routes.h"

#include <dlfcn.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "cuda/driver.h"

namespace headroom::cuda {
namespace {

// clang-format off
// Driver functions that only the probe calls.
#define HEADROOM_PROBE_CALLS(CALL) \
  CALL(cuMemAllocPitch_v2, (Pointer*, std::size_t*, std::size_t, std::size_t, unsigned)) \
  CALL(cuMemAllocManaged, (Pointer*, std::size_t, unsigned)) \
  CALL(cuMemAllocAsync, (Pointer*, std::size_t, Opaque)) \
  CALL(cuMemFreeAsync, (Pointer, Opaque)) \
  CALL(cuMemCreate, (Handle*, std::size_t, const AllocationProperties*, unsigned long long)) \
  CALL(cuMemRelease, (Handle)) \
  CALL(cuArrayCreate_v2, (Opaque*, const ArrayDescriptor*)) \
  CALL(cuArrayDestroy, (Opaque)) \
  CALL(cuArray3DCreate_v2, (Opaque*, const Array3dDescriptor*)) \
  CALL(cuMipmappedArrayCreate, (Opaque*, const Array3dDescriptor*, unsigned)) \
  CALL(cuMipmappedArrayDestroy, (Opaque)) \
  CALL(cuMemPoolCreate, (Opaque*, const PoolProperties*)) \
  CALL(cuMemPoolDestroy, (Opaque)) \
  CALL(cuMemAllocFromPoolAsync, (Pointer*, std::size_t, Opaque, Opaque)) \
  CALL(cuGraphCreate, (Opaque*, unsigned)) \
  CALL(cuGraphDestroy, (Opaque)) \
  CALL(cuGraphAddMemAllocNode, (Opaque*, Opaque, const Opaque*, std::size_t, AllocationNode*)) \
  CALL(cuGraphAddMemFreeNode, (Opaque*, Opaque, const Opaque*, std::size_t, Pointer)) \
  CALL(cuGraphInstantiateWithFlags, (Opaque*, Opaque, unsigned long long)) \
  CALL(cuGraphLaunch, (Opaque, Opaque)) \
  CALL(cuGraphExecDestroy, (Opaque)) \
  CALL(cuDeviceGetGraphMemAttribute, (int, int, void*)) \
  CALL(cuDeviceGraphMemTrim, (int)) \
  CALL(cuMemGetAllocationGranularity, (std::size_t*, const AllocationProperties*, int))
// clang-format on

struct Calls {
// The parentheses of the parameters belong to the type. NOLINTNEXTLINE(bugprone-macro-parentheses)
#define HEADROOM_DECLARE(name, parameters) DriverFunction<Code parameters, kNotSupported> name;
  HEADROOM_PROBE_CALLS(HEADROOM_DECLARE)
#undef HEADROOM_DECLARE
};

constexpr unsigned kManagedGlobal = 1;

Calls load_calls() {
  Calls calls{};
#define HEADROOM_LOAD(name, parameters) \
  calls.name.pointer = reinterpret_cast<decltype(calls.name.pointer)>(::dlsym(RTLD_DEFAULT, #name));
  HEADROOM_PROBE_CALLS(HEADROOM_LOAD)
#undef HEADROOM_LOAD
  return calls;
}

// A route. `allocate` makes one step: it allocates `bytes`, or an amount of its own, and sets `release` to a
// function that frees it. `allocated` returns the bytes of all steps so far, if they are not `bytes` for each
// step.
struct Route {
  std::string name;
  std::function<Code(std::size_t bytes, std::function<void()>& release)> allocate;
  std::function<std::int64_t(std::size_t steps)> allocated = nullptr;
  std::function<void()> end = nullptr;  // called when everything is freed
  bool is_supported = true;
};

// Allocations one byte larger than half a granule, for which the device uses whole granules.
Route granules_route(const Functions& call, const Calls& more, int device) {
  const AllocationProperties properties{kPinnedMemory, 0, {kLocationDevice, device}, nullptr, {}};
  std::size_t granule = 0;
  int is_integrated = 0;
  if (more.cuMemGetAllocationGranularity(&granule, &properties, kMinimumGranularity) != kSuccess ||
      call.cuDeviceGetAttribute(&is_integrated, kAttributeIntegrated, device) != kSuccess)
    granule = 0;
  // An integrated GPU allocates pages of the machine's memory and is charged by the byte, so this route does
  // not apply.
  return {"granules",
          [&call, granule](std::size_t, std::function<void()>& release) {
            Pointer memory = 0;
            const Code code = call.cuMemAlloc_v2(&memory, granule / 2 + 1);
            if (code == kSuccess) release = [&call, memory] { call.cuMemFree_v2(memory); };
            return code;
          },
          [granule](std::size_t steps) { return static_cast<std::int64_t>(steps * granule); }, nullptr,
          std::has_single_bit(granule) && granule > 1 && is_integrated == 0};
}

// Small graphs that are launched: the driver uses whole steps for each, and reports their sum.
class LaunchedGraphs {
 public:
  LaunchedGraphs(const Calls& more, int device) : more_(more), device_(device) {}

  Code launch(const Functions& call, std::function<void()>& release) const {
    Opaque graph = nullptr, exec = nullptr;
    Code code = more_.cuGraphCreate(&graph, 0);
    if (code != kSuccess) return code;
    code = instantiate(graph, exec);
    if (code == kSuccess) code = more_.cuGraphLaunch(exec, nullptr);
    if (code == kSuccess) code = call.cuStreamSynchronize(nullptr);
    const auto destroy = [&more = more_, graph, exec] {
      if (exec != nullptr) more.cuGraphExecDestroy(exec);
      more.cuGraphDestroy(graph);
    };
    if (code != kSuccess)
      destroy();
    else
      release = destroy;
    return code;
  }
  std::optional<std::int64_t> reserved() const {
    std::uint64_t bytes = 0;
    if (more_.cuDeviceGetGraphMemAttribute(device_, kGraphReservedCurrent, &bytes) != kSuccess)
      return std::nullopt;
    return static_cast<std::int64_t>(bytes);
  }
  void trim() const { more_.cuDeviceGraphMemTrim(device_); }

 private:
  Code instantiate(Opaque graph, Opaque& exec) const {
    AllocationNode allocation{
        {kPinnedMemory, 0, {kLocationDevice, device_}, nullptr, 0, {}}, nullptr, 0, kBytes, 0};
    Opaque made = nullptr, freed = nullptr;
    Code code = more_.cuGraphAddMemAllocNode(&made, graph, nullptr, 0, &allocation);
    if (code == kSuccess) code = more_.cuGraphAddMemFreeNode(&freed, graph, &made, 1, allocation.address);
    if (code == kSuccess) code = more_.cuGraphInstantiateWithFlags(&exec, graph, 0);
    return code;
  }
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  const Calls& more_;
  int device_;
};

Route launched_graphs_route(const Functions& call, const Calls& more, int device) {
  const LaunchedGraphs graphs(more, device);
  return {
      "launched_graphs",
      [&call, graphs](std::size_t, std::function<void()>& release) { return graphs.launch(call, release); },
      [graphs](std::size_t) { return graphs.reserved().value_or(0); }, [graphs] { graphs.trim(); },
      graphs.reserved().has_value()};
}

std::vector<Route> routes(const Driver& driver, const Calls& more, int device) {
  const Functions& call = driver.call();
  const Location here{kLocationDevice, device};
  std::vector<Route> all;
  // Adds a route whose steps make one object each: `make` sets it, and `free` frees it.
  const auto add = [&]<class Object>(const char* name, Object, auto free, auto make) {
    all.push_back({name, [free, make](std::size_t bytes, std::function<void()>& release) {
                     Object object{};
                     const Code code = make(object, bytes);
                     if (code == kSuccess) release = [free, object] { free(object); };
                     return code;
                   }});
  };
  const auto free_pointer = [&call](Pointer memory) { call.cuMemFree_v2(memory); };
  const auto free_array = [&more](Opaque array) { more.cuArrayDestroy(array); };
  add("device", Pointer{}, free_pointer,
      [&call](Pointer& memory, std::size_t bytes) { return call.cuMemAlloc_v2(&memory, bytes); });
  add("pitch", Pointer{}, free_pointer, [&more](Pointer& memory, std::size_t bytes) {
    std::size_t pitch = 0;
    constexpr std::size_t kRow = 4096;
    return more.cuMemAllocPitch_v2(&memory, &pitch, kRow, bytes / kRow, 4);
  });
  add("managed", Pointer{}, free_pointer, [&more](Pointer& memory, std::size_t bytes) {
    return more.cuMemAllocManaged(&memory, bytes, kManagedGlobal);
  });
  const auto free_to_pool = [&more](Pointer memory) { more.cuMemFreeAsync(memory, nullptr); };
  add("pool", Pointer{}, free_to_pool,
      [&more](Pointer& memory, std::size_t bytes) { return more.cuMemAllocAsync(&memory, bytes, nullptr); });
  const auto release_handle = [&more](Handle handle) { more.cuMemRelease(handle); };
  add("handle", Handle{}, release_handle, [&more, here](Handle& handle, std::size_t bytes) {
    const AllocationProperties properties{kPinnedMemory, 0, here, nullptr, {}};
    return more.cuMemCreate(&handle, bytes, &properties, 0);
  });
  add("array", Opaque{}, free_array, [&more](Opaque& array, std::size_t bytes) {
    constexpr std::size_t kWidth = 1024;
    const ArrayDescriptor shape{kWidth, bytes / kWidth / 4, kFloatElements, 1};
    return more.cuArrayCreate_v2(&array, &shape);
  });
  add("array3d", Opaque{}, free_array, [&more](Opaque& array, std::size_t bytes) {
    const Array3dDescriptor shape{256, 64, bytes / 256 / 64 / 4, kFloatElements, 1, 0};
    return more.cuArray3DCreate_v2(&array, &shape);
  });
  const auto free_mipmap = [&more](Opaque array) { more.cuMipmappedArrayDestroy(array); };
  add("mipmap", Opaque{}, free_mipmap, [&more](Opaque& array, std::size_t bytes) {
    constexpr unsigned kLevels = 3;
    const Array3dDescriptor shape{1024, bytes / 1024 / 4, 0, kFloatElements, 1, 0};
    return more.cuMipmappedArrayCreate(&array, &shape, kLevels);
  });
  struct PoolMemory {
    Opaque pool = nullptr;
    Pointer memory = 0;
  };
  const auto free_pool = [&more](const PoolMemory& made) {
    more.cuMemFreeAsync(made.memory, nullptr);
    more.cuMemPoolDestroy(made.pool);
  };
  add("own_pool", PoolMemory{}, free_pool, [&more, here](PoolMemory& made, std::size_t bytes) {
    const PoolProperties properties{kPinnedMemory, 0, here, nullptr, 0, {}};
    Code code = more.cuMemPoolCreate(&made.pool, &properties);
    if (code != kSuccess) return code;
    code = more.cuMemAllocFromPoolAsync(&made.memory, bytes, made.pool, nullptr);
    if (code != kSuccess) more.cuMemPoolDestroy(made.pool);
    return code;
  });
  const auto free_graph = [&more](Opaque graph) { more.cuGraphDestroy(graph); };
  // Not launched: the limit refuses the memory of a launch when the node is added.
  add("graph", Opaque{}, free_graph, [&more, here](Opaque& graph, std::size_t bytes) {
    AllocationNode allocation{{kPinnedMemory, 0, here, nullptr, 0, {}}, nullptr, 0, bytes, 0};
    Opaque node = nullptr;
    Code code = more.cuGraphCreate(&graph, 0);
    if (code != kSuccess) return code;
    code = more.cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &allocation);
    if (code != kSuccess) more.cuGraphDestroy(graph);
    return code;
  });
  all.push_back(granules_route(call, more, device));
  all.push_back(launched_graphs_route(call, more, device));
  return all;
}

// Ends a route whose steps use less memory than expected, and so never reach the limit.
constexpr std::size_t kMostSteps = 1024;

RouteOutcome try_route(const Driver& driver, const Route& route, Bytes target, Bytes step) {
  RouteOutcome outcome;
  outcome.name = route.name;
  outcome.is_supported = route.is_supported;
  std::vector<std::function<void()>> held;
  while (route.is_supported && outcome.allocated < target) {
    std::function<void()> release;
    const Code code = route.allocate(static_cast<std::size_t>(step.count), release);
    if (code != kSuccess) {
      outcome.stopped_by = driver.name_of(code);
      outcome.is_refused = code == kOutOfMemory;
      outcome.is_supported = code != kNotSupported || !held.empty();
      break;
    }
    held.push_back(std::move(release));
    outcome.allocated = route.allocated ? Bytes{route.allocated(held.size())} : outcome.allocated + step;
    if (held.size() == kMostSteps) break;
  }
  for (const auto& release : held) release();
  if (route.end) route.end();
  return outcome;
}

// Several threads that race for the last bytes.
RouteOutcome try_threads(const Driver& driver, Opaque context, Bytes target, Bytes step) {
  constexpr std::size_t kThreads = 4;
  const Functions& call = driver.call();
  RouteOutcome outcome;
  outcome.name = "threads";
  outcome.is_supported = true;
  std::atomic<std::int64_t> allocated{0};
  std::atomic<Code> stopped_by{kSuccess};
  std::vector<std::vector<Pointer>> held(kThreads);
  std::vector<std::thread> threads;
  for (std::vector<Pointer>& mine : held)
    threads.emplace_back([&] {
      call.cuCtxSetCurrent(context);
      while (allocated < target.count) {
        Pointer memory = 0;
        const Code code = call.cuMemAlloc_v2(&memory, static_cast<std::size_t>(step.count));
        if (code != kSuccess) {
          stopped_by = code;
          return;
        }
        mine.push_back(memory);
        allocated += step.count;
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<Pointer>& mine : held)
    for (const Pointer memory : mine) call.cuMemFree_v2(memory);
  outcome.allocated = Bytes{allocated};
  if (stopped_by != kSuccess) outcome.stopped_by = driver.name_of(stopped_by);
  outcome.is_refused = stopped_by == kOutOfMemory;
  return outcome;
}

}  // namespace

Result<std::vector<RouteOutcome>> try_routes(unsigned ordinal, Bytes target, Bytes step) {
  const auto driver = Driver::open();
  if (!driver) return tl::unexpected<Error>(driver.error());
  if (auto there = (*driver)->check_ordinal(ordinal); !there) return forward_error(there);
  const Functions& call = (*driver)->call();
  int device = 0;
  Opaque context = nullptr;
  Code code = call.cuDeviceGet(&device, static_cast<int>(ordinal));
  if (code == kSuccess) code = call.cuDevicePrimaryCtxRetain(&context, device);
  if (code == kSuccess) code = call.cuCtxSetCurrent(context);
  if (code != kSuccess)
    return failure("cannot create a context on cuda:" + std::to_string(ordinal), (*driver)->name_of(code));
  const Calls calls = load_calls();
  std::vector<RouteOutcome> outcomes;
  for (const Route& route : routes(**driver, calls, device))
    outcomes.push_back(try_route(**driver, route, target, step));
  outcomes.push_back(try_threads(**driver, context, target, step));
  call.cuDevicePrimaryCtxRelease_v2(device);
  return outcomes;
}

}  // namespace headroom::cuda
