// Finds the driver in one of several ways, and allocates GPU memory until a request fails (at most 1 GiB).
// Prints how many MiB it got and the driver's error code.
//
//   traced_cuda_lookup plain|next|deep|local|apart|apart-wrapper|spawn|execle WRAPPER [GPU]
//
// WRAPPER is libtraced_cuda_wrapper.so, with which traced_cuda_next is linked. `spawn` and `execle` start
// `plain` without an environment (except LD_LIBRARY_PATH). `system` and `popen` start `plain` after removing
// LD_PRELOAD from the environment.
//
// Other modes:
// - `modules` creates a context, loads a module while another thread allocates 64 MiB, loads a library, and
// unloads the library.
// - `launches` allocates 64 MiB, launches a graph with 32 MiB, makes the driver load 12 MiB, waits for a
// query of NVML, and prints how often graph memory was queried.
// - `trims` does the same, then destroys the graph and trims its memory.
// - `granules` allocates 1 MiB and 17 bytes ten times, an array and managed memory, and waits, too.
// - `grows` creates a second context while the driver has loaded memory that was not queried yet, and
// destroys it; it waits each time.
// - `together` creates contexts of two devices in eight threads at the same time, and waits.
// - `contexts` creates and releases the primary context three times.
// - `closes` unloads the driver while it is traced, and runs for another half second.
#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "types/cuda_driver_types.h"

namespace {

using Allocate = int (*)(std::uint64_t*, std::size_t);

// Like programs that look the driver's functions up themselves and offer them to plug-ins.
#ifdef PROGRAM_HAS_POINTERS
extern "C" {
[[gnu::visibility("default")]] void *cuInit = nullptr, *cuDriverGetVersion = nullptr,
                                    *cuMemAlloc_v2 = nullptr, *cuDevicePrimaryCtxRetain = nullptr;
}
#endif

#ifdef PROGRAM_IS_LINKED
extern "C" int wrapper_start();
extern "C" int wrapper_allocate_next(std::uint64_t*, std::size_t);
#endif

template <class Function>
Function find(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

int take(Allocate allocate) {
  constexpr std::size_t kStep = std::size_t{8} << 20;
  std::uint64_t pointer = 0;
  int granted = 0, code = 0;
  while (granted < 1024 && (code = allocate(&pointer, kStep)) == 0) granted += 8;
  std::printf("got %d, then %d\n", granted, code);
  return 0;
}

void* driver_library = nullptr;

// Calls a function of the driver. The types of the arguments must be those of its parameters.
template <class... Arguments>
int call(const char* name, Arguments... arguments) {
  return find<int (*)(Arguments...)>(driver_library, name)(arguments...);
}

int allocate(std::size_t bytes) {
  std::uint64_t pointer = 0;
  return call("cuMemAlloc_v2", &pointer, bytes);
}

void retain(int device, bool makes_current) {
  void* context = nullptr;
  call("cuDevicePrimaryCtxRetain", &context, device);
  if (makes_current) call("cuCtxSetCurrent", context);
}

int start(bool makes_current, int device = 0) {
  const int result = call("cuInit", 0U);
  if (result == 0) retain(device, makes_current);
  return result;
}

int take_from_driver(void* library, int device) {
  driver_library = library;
  if (find<void*>(library, "cuInit") == nullptr || start(true, device) != 0) return 2;
  return take(find<Allocate>(library, "cuMemAlloc_v2"));
}

int take_from_wrapper(void* library, const char* allocate = "wrapper_allocate") {
  if (library == nullptr || find<int (*)()>(library, "wrapper_start")() != 0) return 2;
  return take(find<Allocate>(library, allocate));
}

void allocate_in_another_thread() {
  std::thread([] {
    retain(0, true);
    allocate(std::size_t{64} << 20);
  }).join();
}

int load_modules() {
  void *module = nullptr, *code = nullptr;
  start(true);
  const auto while_loading = find<void (*)(void (*)())>(driver_library, "fake_cuda_while_loading");
  while_loading(allocate_in_another_thread);
  call("cuModuleLoadData", &module, "");
  while_loading(nullptr);
  void *const no_options = nullptr, **const no_values = nullptr;
  call("cuLibraryLoadData", &code, "", no_options, no_values, 0U, no_options, no_values, 0U);
  return call("cuLibraryUnload", code);
}

// Waits for one query more: then NVML's answer to the first one is recorded.
int wait_until_asked() {
  const auto asked = find<unsigned (*)()>(dlopen("libnvidia-ml.so.1", RTLD_NOW), "fake_nvml_asked");
  if (asked == nullptr) return 3;
  for (unsigned i = 0, before = asked(); asked() < before + 2; ++i) {
    if (i == 3000) return 4;
    usleep(10'000);
  }
  return 0;
}

// With `trims`, the graph frees its memory and is destroyed, the driver trims its cache, and then the program
// allocates 1 MiB.
int launch(bool trims) {
  using Opaque = void*;
  Opaque graph = nullptr, node = nullptr, exec = nullptr, end = nullptr;
  start(true);
  allocate(std::size_t{64} << 20);
  call("cuGraphCreate", &graph, 0U);
  headroom::cuda::AllocationNode allocation{};
  allocation.pool.location = {headroom::cuda::kLocationDevice, 0};
  allocation.bytes = std::size_t{32} << 20;
  const Opaque* const no_nodes = nullptr;
  call("cuGraphAddMemAllocNode", &node, graph, no_nodes, std::size_t{0}, &allocation);
  if (trims) call("cuGraphAddMemFreeNode", &end, graph, &node, std::size_t{1}, allocation.address);
  call("cuGraphInstantiateWithFlags", &exec, graph, 0ULL);
  call("cuGraphLaunch", exec, Opaque{});
  if (trims) {
    call("cuGraphExecDestroy", exec);
    call("cuGraphDestroy", graph);
    call("cuDeviceGraphMemTrim", 0);
    return allocate(std::size_t{1} << 20);
  }
  find<void (*)(std::uint64_t)>(driver_library, "fake_cuda_load_at_launch")(std::uint64_t{12} << 20);
  const auto looks = find<unsigned (*)()>(driver_library, "fake_cuda_graph_looks");
  const unsigned before = looks();
  const int code = wait_until_asked();
  std::printf("graphs %u\n", looks() - before);
  return code;
}

int take_in_granules() {
  void* array = nullptr;
  std::uint64_t pointer = 0;
  start(true);
  for (int i = 0; i < 10; ++i) allocate((std::size_t{1} << 20) + 17);
  allocate(4097);
  const headroom::cuda::ArrayDescriptor shape{1000, 1001, 0x20, 4};
  call("cuArrayCreate_v2", &array, &shape);
  call("cuMemAllocManaged", &pointer, std::size_t{100} << 20, 1U);
  return wait_until_asked();
}

int grow() {
  void* second = nullptr;
  const auto load = find<void (*)(std::uint64_t)>(driver_library, "fake_cuda_load_at_launch");
  constexpr std::uint64_t kMiB = 1 << 20;
  start(false);
  load(12 * kMiB);
  if (const int failed = wait_until_asked(); failed != 0) return failed;
  load(5 * kMiB);
  call("cuCtxCreate_v2", &second, 0U, 0);
  if (const int failed = wait_until_asked(); failed != 0) return failed;
  load(0 - 20 * kMiB);  // less than before: the earlier figures were too high
  call("cuCtxDestroy_v2", second);
  return wait_until_asked();
}

int make_together() {
  constexpr int kThreads = 8;
  call("cuInit", 0U);
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      for (++ready; ready < kThreads;) {
      }
      retain(i % 2, false);
    });
  for (std::thread& thread : threads) thread.join();
  return wait_until_asked();
}

int make_contexts() {
  call("cuInit", 0U);
  for (int i = 0; i < 3; ++i) {
    retain(0, false);
    call("cuDevicePrimaryCtxRelease_v2", 0);
  }
  return 0;
}

int close_driver() {
  start(false);
  dlclose(driver_library);
  usleep(500'000);
  return 0;
}

// Modes that use the driver, opened by its name.
struct Mode {
  std::string_view name;
  int (*run)();
};
constexpr Mode kModes[] = {{"modules", load_modules},
                           {"launches", [] { return launch(false); }},
                           {"trims", [] { return launch(true); }},
                           {"granules", take_in_granules},
                           {"grows", grow},
                           {"together", make_together},
                           {"contexts", make_contexts},
                           {"closes", close_driver}};

int start_by_shell(const std::string& mode, const std::string& command) {
  unsetenv("LD_PRELOAD");
  if (mode == "system") return std::system(command.c_str());
  std::FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return 2;
  for (int letter = 0; (letter = std::fgetc(output)) != EOF;) std::putchar(letter);
  return pclose(output);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  const std::string mode = arguments[1];
  const char* const wrapper = arguments[2];
#ifdef PROGRAM_IS_LINKED
  if (mode == "next") return wrapper_start() != 0 ? 2 : take(wrapper_allocate_next);
#endif
  if (mode == "plain")
    return take_from_driver(dlopen("libcuda.so.1", RTLD_NOW), count > 3 ? std::atoi(arguments[3]) : 0);
  for (const Mode& one : kModes) {
    if (mode != one.name) continue;
    driver_library = dlopen("libcuda.so.1", RTLD_NOW);
    return one.run();
  }
  if (mode == "system" || mode == "popen")
    return start_by_shell(mode, std::string(arguments[0]) + " plain " + wrapper);
  if (mode == "deep") return take_from_wrapper(dlopen(wrapper, RTLD_NOW | RTLD_DEEPBIND));
  if (mode == "local") return take_from_wrapper(dlopen(wrapper, RTLD_NOW), "wrapper_allocate_default");
  if (mode == "apart") return take_from_driver(dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW), 0);
  if (mode == "apart-wrapper") return take_from_wrapper(dlmopen(LM_ID_NEWLM, wrapper, RTLD_NOW));
  const std::string libraries = std::string("LD_LIBRARY_PATH=") + std::getenv("LD_LIBRARY_PATH");
  char* environment[] = {const_cast<char*>(libraries.c_str()), nullptr};
  char plain[] = "plain";
  char* again[] = {arguments[0], plain, arguments[2], nullptr};
  if (mode == "execle") return execle(again[0], again[0], plain, wrapper, nullptr, environment);
  if (mode != "spawn") return 2;
  pid_t child = 0;
  int status = 0;
  if (posix_spawn(&child, again[0], nullptr, nullptr, again, environment) != 0) return 2;
  return waitpid(child, &status, 0) == child ? status : 2;
}
