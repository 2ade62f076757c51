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
#include <sstream>
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
  const Opaque context = retain_primary_context(0);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      make_current(context);
      for (;;) {
        Pointer pointer = 0;
        const Result result = cuMemAlloc_v2(&pointer, step);
        if (result == kOutOfMemory) return;
        if (result != kSuccess) ++odd;
        granted += step;
        all[static_cast<std::size_t>(i)].push_back(pointer);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : all)
    for (const Pointer pointer : mine) free_pointer(pointer);
  const bool sound = odd == 0 && granted <= limit && limit - granted < step && left() == limit;
  return report(sound, "threads  granted %lu to %d threads", granted.load(), kThreads);
}

// Pinned memory is host memory: a discrete GPU's limit excludes it, an integrated GPU's limit includes it.
bool run_host(std::uint64_t limit, std::uint64_t step) {
  int is_integrated = 0;
  check(cuDeviceGetAttribute(&is_integrated, kAttributeIntegrated, 0), "attribute");
  void* pinned[3] = {};
  for (void*& one : pinned) check(cuMemHostAlloc(&one, step, 0), "cuMemHostAlloc");
  const std::uint64_t meanwhile = left();
  for (void* one : pinned) check(cuMemFreeHost(one), "cuMemFreeHost");
  const bool sound = meanwhile == (is_integrated != 0 ? limit - 3 * step : limit) && left() == limit;
  return report(sound, "host     %lu left during 3 requests", meanwhile);
}

// A device that shares the host's memory: the limit includes pinned memory, but not memory that is only
// registered, which the program already had.
bool run_unified(std::uint64_t limit, std::uint64_t step) {
  std::vector<void*> all;
  void* pinned = nullptr;
  Result end = kSuccess;
  while ((end = cuMemHostAlloc(&pinned, step, 0)) == kSuccess) all.push_back(pinned);
  const std::uint64_t found = left();
  const bool is_one_account = end == kOutOfMemory && all.size() == limit / step &&
                              found == limit - all.size() * step && Plain().refuses(step);
  std::vector<char> own(1 << 20);
  check(cuMemHostRegister_v2(own.data(), own.size(), 0), "register");
  const bool is_free = left() == found;
  check(cuMemHostUnregister(own.data()), "unregister");
  for (void* one : all) check(cuMemFreeHost(one), "cuMemFreeHost");
  const bool sound = is_one_account && is_free && left() == limit;
  return report(sound, "unified  pinned %zu of %lu, registered for nothing", all.size(), limit / step);
}

// Memory on a device other than the current one is charged to the device that holds it.
bool run_devices(std::uint64_t limit, std::uint64_t step) {
  int count = 0;
  check(cuDeviceGetCount(&count), "count");
  if (count < 2) {
    std::printf("devices  there is one: not tried\n");
    return true;
  }
  const Opaque contexts[] = {retain_primary_context(0), retain_primary_context(1)};
  const auto left_of = [&](Device device) {
    make_current(contexts[device]);
    const std::uint64_t found = left();
    make_current(contexts[0]);
    return found;
  };
  bool all_sound = true;
  const auto try_route = [&](const char* name, Route&& route) {
    make_current(contexts[0]);
    const Outcome outcome = fill(route, step);
    const std::uint64_t of_first = left_of(0), of_second = left_of(1);
    route.free_all();
    const bool fills =
        limit - outcome.bytes < step + route.granule() &&
        (route.is_exact() ? of_second == limit - outcome.bytes : of_second < step + route.granule());
    const bool sound = outcome.end == kOutOfMemory && outcome.count > 0 && outcome.bytes <= limit && fills &&
                       of_first == limit && left_of(1) == limit;
    std::printf("devices  %s of the second: granted %lu, left %lu of the first: %s\n", name, outcome.bytes,
                of_first, sound ? "as it should" : "WRONG");
    all_sound = all_sound && sound;
  };
  try_route("a handle", Virtual(1));
  try_route("a pool", Async(true, 1));
  try_route("the pool", Async(false, 1));
  return report(all_sound, "devices  each byte where it lives");
}

void load_driver() {
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) fail("no driver", dlerror(), 0);
}

// The driver is unloaded and loaded again, at the same address and at others: the limit applies each time,
// and the memory of the destroyed contexts is free again.
bool run_unload(std::uint64_t limit, std::uint64_t step) {
  constexpr int kRounds = 4;
  std::set<void*> places;
  bool sound = true;
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) {
      load_driver();
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
    sound = sound && fake_peak() <= limit;
    dlclose(library);
    constexpr std::size_t kPage = 4096;
    if (round == 0) continue;  // from the second time at the same address
    ::mmap(real.dli_fbase, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  }
  load_driver();
  start_context();
  return report(sound && left() == limit, "unload   %d rounds at %zu places", kRounds, places.size());
}

// Whatever version and default stream a program requests for a function, it must get the hook. Functions that
// allocate by pointer are also called.
bool run_versions(std::uint64_t limit, std::uint64_t step) {
  const std::string names =
      "cuMemAlloc cuMemAllocPitch cuMemAllocManaged cuMemAllocHost cuMemHostAlloc cuMemHostRegister "
      "cuMemAllocAsync cuMemAllocFromPoolAsync cuMemCreate cuMemMap cuArrayCreate cuArray3DCreate "
      "cuIpcOpenMemHandle cuMipmappedArrayCreate cuImportExternalMemory cuGraphAddMemAllocNode "
      "cuGraphAddNode cuGraphExecUpdate cuMemPoolImportPointer cuMemImportFromShareableHandle "
      "cuMemExportToShareableHandle cuMemMapArrayAsync cuMemGetDefaultMemPool cuMemGetMemPool "
      "cuStreamBeginCapture cuStreamEndCapture";
  // Since 3020: before, sizes had 32 bits.
  constexpr int kVersions[] = {3020,  4000,  4010,  5000,  5050,  6000,  6050,  7000,  7050,
                               8000,  9000,  9020,  10000, 10010, 10020, 11000, 11010, 11020,
                               11030, 11040, 11050, 11060, 11070, 11080, 12000, 12010, 12020,
                               12030, 12040, 12050, 12060, 12080, 12090, 13000, 13010, 13020};
  const auto get = reinterpret_cast<Result (*)(const char*, void**, int, std::uint64_t, int*)>(
      dlsym(library, "cuGetProcAddress_v2"));
  Dl_info own{};
  if (dladdr(dlsym(library, "cuMemAlloc_v2"), &own) == 0) return false;
  std::set<void*> seen, tried;
  bool sound = true;
  std::istringstream words(names);
  std::size_t name_count = 0;
  for (std::string name; words >> name; ++name_count)
    for (const int version : kVersions)
      for (const std::uint64_t flags : {0, 1, 2}) {
        void* function = nullptr;
        int status = 0;
        if (get(name.c_str(), &function, version, flags, &status) != kSuccess || function == nullptr)
          continue;
        if (!seen.insert(function).second) continue;
        Dl_info found{};
        if (dladdr(function, &found) != 0 && found.dli_fbase == own.dli_fbase) continue;
        sound = false;
        std::printf("versions %s at %d with flags %lu is %s's own: WRONG\n", name.c_str(), version, flags,
                    found.dli_fname);
      }
  for (const int version : kVersions) {
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
  return report(sound, "versions %zu functions of %zu names at %zu versions", seen.size(), name_count,
                std::size(kVersions));
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
  if (route == "hold") return hold(limit, step);
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
  const auto start_anew = [&](const char* role) { return start_role(role, limit / 2, step); };
  if (is_asked_for("process")) sound = share_with("process", start_anew("hold"), limit, step, true) && sound;
  if (is_asked_for("heir")) sound = run_after("heir", start_anew("bequeath"), limit, step, true) && sound;
  if (is_asked_for("successor"))
    sound = run_after("successor", start_anew("replace"), limit, step, false) && sound;
  if (is_asked_for("ipc")) sound = run_ipc(limit, step) && sound;
  if (is_asked_for("shared")) sound = run_shareable(limit, step) && sound;
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
  if (const std::uint64_t peak = fake_peak(); peak != 0) std::printf("driver   gave %lu at most\n", peak);
  return sound && fake_peak() <= limit ? 0 : 1;
}
