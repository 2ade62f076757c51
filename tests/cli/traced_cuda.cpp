// Allocates GPU memory by every route until a request fails, frees it, and allocates it again. Runs against
// the fake driver of tests/support, or against a real one.
//
//   traced_cuda LOOKUP ROUTE[,ROUTE…] LIMIT STEP
//
// LOOKUP is how it finds the driver's functions: dlsym, proc (cuGetProcAddress_v2), first (cuGetProcAddress
// of CUDA 11), ptsz (for the per-thread default stream), linked (the program is linked with the library).
// LIMIT is the expected limit, STEP the size of a request. For each route it prints how much it got and what
// happened. It exits with 1 if it got more than LIMIT, less than the last whole step below it, an error other
// than the driver's "out of memory", or less after freeing.
//
//   traced_cuda owner FUNCTION 1 1
//
// prints the library from which the program gets this function.
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <iterator>
#include <set>
#include <thread>

#include "cli/cuda_granule_routes.h"
#include "cli/cuda_graph_routes.h"
#include "cli/cuda_handle_routes.h"
#include "cli/cuda_order_routes.h"
#include "cli/cuda_process_routes.h"
#include "cli/cuda_random_routes.h"

namespace {

using namespace cuda_program;

// Threads that compete for the last bytes.
bool run_threads(std::uint64_t limit, std::uint64_t step) {
  constexpr int kThreads = 8;
  std::atomic<std::uint64_t> granted{0};
  std::atomic<int> odd{0};
  std::vector<std::vector<Pointer>> all(kThreads);
  Opaque context = nullptr;
  check(cuDevicePrimaryCtxRetain(&context, 0), "retain");
  const auto allocate = cuMemAlloc_v2;
  const auto free = cuMemFree_v2;
  const auto set = cuCtxSetCurrent;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      set(context);
      for (;;) {
        Pointer pointer = 0;
        const Result result = allocate(&pointer, step);
        if (result == kOutOfMemory) return;
        if (result != kSuccess) ++odd;
        granted += step;
        all[static_cast<std::size_t>(i)].push_back(pointer);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : all)
    for (const Pointer pointer : mine) free(pointer);
  const bool sound = odd == 0 && granted <= limit && limit - granted < step && left() == limit;
  std::printf("threads  granted %llu to %d threads: %s\n", static_cast<unsigned long long>(granted.load()),
              kThreads, sound ? "sound" : "WRONG");
  return sound;
}

// Pinned memory is host memory: a discrete GPU's limit excludes it, an integrated GPU's limit includes it.
bool run_host(std::uint64_t limit, std::uint64_t step) {
  int is_integrated = 0;
  check(cuDeviceGetAttribute(&is_integrated, kAttributeIntegrated, 0), "attribute");
  const auto allocate = cuMemHostAlloc;
  const auto free = cuMemFreeHost;
  void* pinned[3] = {};
  for (void*& one : pinned) check(allocate(&one, step, 0), "cuMemHostAlloc");
  const std::uint64_t meanwhile = left();
  for (void* one : pinned) check(free(one), "cuMemFreeHost");
  const bool sound = meanwhile == (is_integrated != 0 ? limit - 3 * step : limit) && left() == limit;
  std::printf("host     %llu left during 3 requests: %s\n", static_cast<unsigned long long>(meanwhile),
              sound ? "sound" : "WRONG");
  return sound;
}

// A device that shares the host's memory: the limit includes pinned memory, but not memory that is only
// registered, which the program already had.
bool run_unified(std::uint64_t limit, std::uint64_t step) {
  const auto allocate = cuMemHostAlloc;
  const auto free = cuMemFreeHost;
  const auto enlist = cuMemHostRegister_v2;
  const auto strike = cuMemHostUnregister;
  std::vector<void*> all;
  void* pinned = nullptr;
  Result end = kSuccess;
  while ((end = allocate(&pinned, step, 0)) == kSuccess) all.push_back(pinned);
  const std::uint64_t found = left();
  Plain device;
  std::uint64_t cost = 0;
  const bool is_one_account = end == kOutOfMemory && all.size() == limit / step &&
                              found == limit - all.size() * step &&
                              device.allocate(step, cost) == kOutOfMemory;
  std::vector<char> own(1 << 20);
  check(enlist(own.data(), own.size(), 0), "register");
  const bool is_free = left() == found;
  check(strike(own.data()), "unregister");
  for (void* one : all) check(free(one), "cuMemFreeHost");
  const bool sound = is_one_account && is_free && left() == limit;
  std::printf("unified  pinned %zu of %llu, registered for nothing: %s\n", all.size(),
              static_cast<unsigned long long>(limit / step), sound ? "sound" : "WRONG");
  return sound;
}

// Memory on a device other than the current one is charged to the device that holds it.
bool run_devices(std::uint64_t limit, std::uint64_t step) {
  int count = 0;
  check(cuDeviceGetCount(&count), "count");
  if (count < 2) {
    std::printf("devices  there is one: not tried\n");
    return true;
  }
  Opaque contexts[2] = {};
  const auto retain = cuDevicePrimaryCtxRetain;
  const auto set = cuCtxSetCurrent;
  for (Device device = 0; device < 2; ++device) check(retain(&contexts[device], device), "retain");
  const auto left_of = [&](Device device) {
    set(contexts[device]);
    const std::uint64_t found = left();
    set(contexts[0]);
    return found;
  };
  bool all_sound = true;
  const auto try_route = [&](const char* name, Route&& route) {
    set(contexts[0]);
    const Outcome outcome = fill(route, step);
    const std::uint64_t of_first = left_of(0), of_second = left_of(1);
    route.free_all();
    const bool fills =
        limit - outcome.bytes < step + route.granule() &&
        (route.is_exact() ? of_second == limit - outcome.bytes : of_second < step + route.granule());
    const bool sound = outcome.end == kOutOfMemory && outcome.count > 0 && outcome.bytes <= limit && fills &&
                       of_first == limit && left_of(1) == limit;
    std::printf("devices  %s of the second: granted %llu, left %llu of the first: %s\n", name,
                static_cast<unsigned long long>(outcome.bytes), static_cast<unsigned long long>(of_first),
                sound ? "as it should" : "WRONG");
    all_sound = all_sound && sound;
  };
  try_route("a handle", Virtual(1));
  try_route("a pool", Async(true, 1));
  try_route("the pool", Async(false, 1));
  std::printf("devices  %s\n", all_sound ? "each byte where it lives: sound" : "WRONG");
  return all_sound;
}

// The driver is unloaded and loaded again, at the same address and at others: the limit applies each time,
// and the memory of the destroyed contexts is free again.
bool run_unload(std::uint64_t limit, std::uint64_t step) {
  constexpr int kRounds = 4;
  std::set<void*> places;
  bool sound = true;
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) {
      library = dlopen("libcuda.so.1", RTLD_NOW);
      if (library == nullptr) fail("no driver", dlerror(), 0);
      start_context();
    }
    Plain route;
    const Outcome once = fill(route, step);
    sound = sound && once.end == kOutOfMemory && once.bytes <= limit && limit - once.bytes < step;
    if (round % 2 == 0) route.free_all();  // otherwise the context's destruction frees it
    check(cuDevicePrimaryCtxRelease_v2(0), "release");
    Dl_info real{};
    void* const own = symbol_of(library, "cuInit");  // the driver's own function, not the hook
    if (dladdr(own, &real) == 0) return false;
    places.insert(real.dli_fbase);
    if (const auto peak = optional<std::uint64_t (*)(unsigned)>("fake_cuda_peak"))
      sound = sound && peak(0) <= limit;
    dlclose(library);
    constexpr std::size_t kPage = 4096;
    if (round == 0) continue;  // from the second time at the same address
    ::mmap(real.dli_fbase, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  }
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) fail("no driver", dlerror(), 0);
  start_context();
  std::printf("unload   %d rounds at %zu places: %s\n", kRounds, places.size(), sound ? "sound" : "WRONG");
  return sound && left() == limit;
}

// Whatever version and default stream a program requests for a function, it must get the hook. Functions that
// allocate by pointer are also called.
bool run_versions(std::uint64_t limit, std::uint64_t step) {
  constexpr const char* kNames[] = {"cuMemAlloc",
                                    "cuMemAllocPitch",
                                    "cuMemAllocManaged",
                                    "cuMemAllocHost",
                                    "cuMemHostAlloc",
                                    "cuMemHostRegister",
                                    "cuMemAllocAsync",
                                    "cuMemAllocFromPoolAsync",
                                    "cuMemCreate",
                                    "cuMemMap",
                                    "cuArrayCreate",
                                    "cuArray3DCreate",
                                    "cuIpcOpenMemHandle",
                                    "cuMipmappedArrayCreate",
                                    "cuImportExternalMemory",
                                    "cuGraphAddMemAllocNode",
                                    "cuGraphAddNode",
                                    "cuGraphExecUpdate",
                                    "cuMemPoolImportPointer",
                                    "cuMemImportFromShareableHandle",
                                    "cuMemExportToShareableHandle",
                                    "cuMemMapArrayAsync",
                                    "cuMemGetDefaultMemPool",
                                    "cuMemGetMemPool",
                                    "cuStreamBeginCapture",
                                    "cuStreamEndCapture"};
  constexpr int kVersions[] = {2000,  2020,  3020,  4000,  4010,  5000,  5050,  6000,  6050,  7000,
                               7050,  8000,  9000,  9020,  10000, 10010, 10020, 11000, 11010, 11020,
                               11030, 11040, 11050, 11060, 11070, 11080, 12000, 12010, 12020, 12030,
                               12040, 12050, 12060, 12080, 12090, 13000, 13010, 13020};
  const auto get = reinterpret_cast<Result (*)(const char*, void**, int, std::uint64_t, int*)>(
      dlsym(library, "cuGetProcAddress_v2"));
  Dl_info own{};
  if (dladdr(dlsym(library, "cuMemAlloc_v2"), &own) == 0) return false;
  std::set<void*> seen, tried;
  bool sound = true;
  for (const char* name : kNames)
    for (const int version : kVersions)
      for (const std::uint64_t flags : {0, 1, 2}) {
        void* function = nullptr;
        int status = 0;
        if (get(name, &function, version, flags, &status) != kSuccess || function == nullptr) continue;
        if (!seen.insert(function).second) continue;
        Dl_info found{};
        if (dladdr(function, &found) != 0 && found.dli_fbase == own.dli_fbase) continue;
        sound = false;
        std::printf("versions %s at %d with flags %llu is %s's own: WRONG\n", name, version,
                    static_cast<unsigned long long>(flags), found.dli_fname);
      }
  for (const int version : kVersions) {
    if (version < 3020) continue;  // 32-bit versions
    void* function = nullptr;
    int status = 0;
    if (get("cuMemAlloc", &function, version, 0, &status) != kSuccess || !tried.insert(function).second)
      continue;
    Plain held;
    Pointer pointer = 0;
    std::uint64_t granted = 0;
    while (reinterpret_cast<Result (*)(Pointer*, std::size_t)>(function)(&pointer, step) == kSuccess) {
      held.all.push_back(pointer);
      granted += step;
    }
    held.free_all();
    sound = sound && granted <= limit && limit - granted < step;
  }
  std::printf("versions %zu functions of %zu names at %zu versions: %s\n", seen.size(), std::size(kNames),
              std::size(kVersions), sound ? "sound" : "WRONG");
  return sound;
}

}  // namespace

// Prints where it crashed, because no debugger is attached with a real driver.
void print_crash(int number) {
  void* frames[64];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, 64), STDERR_FILENO);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

int main(int count, char** arguments) {
  if (count < 5) return 2;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) ::signal(number, print_crash);
  lookup = arguments[1];
  const std::string route = arguments[2];
  const char* const self = arguments[0];
  const std::uint64_t limit = std::strtoull(arguments[3], nullptr, 10),
                      step = std::strtoull(arguments[4], nullptr, 10);
  // Without a driver, the program must not find the tracer's function of this name.
  if (lookup == "absent")
    return dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == nullptr && dlerror() != nullptr ? 0 : 1;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (lookup == "owner") {  // prints the library that provides the function ROUTE
    Dl_info found{};
    if (dladdr(dlsym(RTLD_DEFAULT, route.c_str()), &found) == 0) return 1;
    return std::puts(found.dli_fname) < 0;
  }
  if (library == nullptr) fail("no driver", dlerror(), 0);
  if (route == "hold") return hold(limit, step, 0, 1);
  if (route == "bequeath") return leave_to_child(limit, step);
  if (route == "replace") return become_another(limit, step);
  if (route == "export") return export_memory(step);
  if (route == "descriptor") return hold_by_descriptor(limit, step);
  const bool all = route == "all";
  // Several are separated by commas.
  const auto is_asked_for = [&](const std::string& name) {
    return all || ("," + route + ",").find("," + name + ",") != std::string::npos;
  };
  bool sound = true;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // so that a forked child does not print it again
  // Must run before there is a context: none survives a fork.
  if (is_asked_for("fork")) {
    const Child child = start([&](int input, int output) { return hold(limit / 2, step, input, output); });
    sound = share_with("fork", child, limit, step, false) && sound;
  }
  if (is_asked_for("process")) {
    const Child child =
        start([&](int input, int output) { return become(self, "hold", limit / 2, step, input, output); });
    sound = share_with("process", child, limit, step, true) && sound;
  }
  const auto start_anew = [&](const char* role) {
    return start([&](int input, int output) { return become(self, role, limit / 2, step, input, output); });
  };
  if (is_asked_for("heir")) sound = run_after("heir", start_anew("bequeath"), limit, step, true) && sound;
  if (is_asked_for("successor"))
    sound = run_after("successor", start_anew("replace"), limit, step, false) && sound;
  if (is_asked_for("ipc")) sound = run_ipc(self, limit, step) && sound;
  if (is_asked_for("shared")) sound = run_shareable(self, limit, step) && sound;
  start_context();
  const auto try_route = [&](const char* name, Route&& one) {
    if (is_asked_for(name)) sound = run(name, one, limit, step) && sound;
  };
  try_route("plain", Plain());
  try_route("pitch", Pitch());
  if (route != "all" || std::getenv("TEST_WITHOUT_MANAGED") == nullptr) try_route("managed", Managed());
  try_route("array", Arrays(2));
  try_route("array3d", Arrays(3));
  try_route("mipmap", Arrays(0));
  try_route("async", Async(false));
  try_route("elsewhere", AsyncElsewhere());
  try_route("pool", Async(true));
  try_route("pools", ManyPools());
  Opaque managed = nullptr;
  if (!is_asked_for("mpool")) {
  } else if (make_pool(managed, 0, true) == kSuccess) {
    destroy_pool(managed);
    try_route("mpool", Async(true, 0, true));
  } else {
    std::printf("mpool    the driver has no pools of managed memory: not tried\n");
  }
  try_route("virtual", Virtual());
  if (!is_asked_for("sparse")) {
  } else if (SparseArray().is_supported(step)) {
    try_route("sparse", SparseArray());
  } else {
    std::printf("sparse   the driver maps no memory to arrays here: not tried\n");
  }
  try_route("graph", GraphNodes(true));
  try_route("unrun", GraphNodes(false));
  try_route("capture", FailedCapture());
  struct NamedRoute {
    const char* name;
    bool (*run)(std::uint64_t limit, std::uint64_t step);
  };
  constexpr NamedRoute kRoutes[] = {
      {"lives", run_graph_lives},
      {"many", run_many_graphs},
      {"updates", run_graph_updates},
      {"growing", run_growing_nodes},
      {"beyond", run_unforeseen},
      {"host", run_host},
      {"threads", run_threads},
      {"devices", run_devices},
      {"versions", run_versions},
      {"branches", run_branches},
      {"inflight", run_in_flight},
      {"again", run_instances_again},
      {"capturing", run_capturing},
      {"abandoned", run_abandoned},
      {"column", run_column},
      {"contexts", run_contexts},
      {"outlives", run_pool_without_context},
      {"races", run_races},
  };
  // These only run by name, not with "all".
  constexpr NamedRoute kSpecialRoutes[] = {
      {"unload", run_unload},     {"unified", run_unified}, {"granules", run_granules},
      {"exported", run_exported}, {"random", run_random},   {"several", run_graph_of_devices},
  };
  for (const NamedRoute& one : kRoutes)
    if (is_asked_for(one.name)) sound = one.run(limit, step) && sound;
  for (const NamedRoute& one : kSpecialRoutes)
    if (route == one.name) sound = one.run(limit, step) && sound;
  // The fake driver's own count, if it is the fake one.
  if (const auto peak = reinterpret_cast<std::uint64_t (*)(unsigned)>(dlsym(library, "fake_cuda_peak"))) {
    std::printf("driver   gave %llu at most\n", static_cast<unsigned long long>(peak(0)));
    sound = sound && peak(0) <= limit;
  }
  return sound ? 0 : 1;
}
