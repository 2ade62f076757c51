#include "preload/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <initializer_list>

#include "preload/real_functions.h"
#include "types/lock.h"

namespace headroom::preload::nvml {
namespace {

using Device = void*;
struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};
struct UsingProcess {  // nvmlProcessInfo_t of _v2 and _v3
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
using Processes = int (*)(Device, unsigned*, UsingProcess*);
constexpr int kSuccess = 0;
constexpr unsigned kMostProcesses = 256;
constexpr unsigned long long kUnknownUsage = ~0ull;

// No thread waits for long here. Opening a library takes the loader's lock, and the thread that holds it may
// be creating a context in a library's constructor. While one thread loads NVML, the others get no figure.
// While one queries it, which takes about a millisecond, they wait for 200 ms at most.
enum class State { untried, opening, loaded, missing };
constinit std::atomic<State> library_state{State::untried};
constinit Lock query_lock;

int (*handle_by_uuid)(const char*, Device*) = nullptr;
int (*memory_info)(Device, Memory*) = nullptr;
Processes compute_processes = nullptr, mps_processes = nullptr;

// _v2 first: the first drivers with _v3 wrote longer entries for it.
Processes processes_by(void* library, const char* name, const char* later_name) {
  void* const found = ::dlsym(library, name);
  return reinterpret_cast<Processes>(found != nullptr ? found : ::dlsym(library, later_name));
}

bool find_functions() {
  void* const library = next_dlopen.get()("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) return false;
  const auto init = reinterpret_cast<int (*)()>(::dlsym(library, "nvmlInit_v2"));
  if (init == nullptr || init() != kSuccess) return false;
  handle_by_uuid = reinterpret_cast<decltype(handle_by_uuid)>(::dlsym(library, "nvmlDeviceGetHandleByUUID"));
  memory_info = reinterpret_cast<decltype(memory_info)>(::dlsym(library, "nvmlDeviceGetMemoryInfo"));
  compute_processes = processes_by(library, "nvmlDeviceGetComputeRunningProcesses_v2",
                                   "nvmlDeviceGetComputeRunningProcesses_v3");
  mps_processes = processes_by(library, "nvmlDeviceGetMPSComputeRunningProcesses_v2",
                               "nvmlDeviceGetMPSComputeRunningProcesses_v3");
  return handle_by_uuid != nullptr;
}

bool load_library() {
  State found = State::untried;
  if (library_state.compare_exchange_strong(found, State::opening)) {
    found = find_functions() ? State::loaded : State::missing;
    library_state.store(found);
  }
  return found == State::loaded;
}

// Example: "GPU-10101010-1010-1010-1010-101010101010". The prefix of a MIG instance is "MIG".
void format_uuid(char (&text)[48], const char* prefix, const std::uint8_t (&uuid)[16]) {
  int length = std::snprintf(text, sizeof text, "%s", prefix);
  for (int i = 0; i < 16; ++i)
    length += std::snprintf(text + length, sizeof text - static_cast<unsigned>(length), "%s%02x",
                            i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

bool lock_queries() {
  for (int tries = 200; !query_lock.try_lock(); --tries) {
    if (tries == 0) return false;
    ::usleep(1000);
  }
  return true;
}

// Tries the device as a GPU, then as a MIG instance, until `query` succeeds.
template <class Ask>
bool query_device(const std::uint8_t (&uuid)[16], const Ask& query) {
  if (!load_library() || !lock_queries()) return false;
  bool is_known = false;
  for (const char* prefix : {"GPU", "MIG"}) {
    char text[48];
    Device device = nullptr;
    format_uuid(text, prefix, uuid);
    is_known = handle_by_uuid(text, &device) == kSuccess && query(device);
    if (is_known) break;
  }
  query_lock.unlock();
  return is_known;
}

bool find_this_process(Processes list, Device device, std::uint64_t& bytes) {
  static UsingProcess processes[kMostProcesses];
  unsigned count = kMostProcesses;
  if (list == nullptr || list(device, &count, processes) != kSuccess) return false;
  const auto pid = static_cast<unsigned>(::getpid());
  for (unsigned i = 0; i < count && i < kMostProcesses; ++i) {
    if (processes[i].pid != pid || processes[i].used == kUnknownUsage) continue;
    bytes = processes[i].used;
    return true;
  }
  return false;
}

}  // namespace

bool used_bytes(const std::uint8_t (&uuid)[16], std::uint64_t& bytes) {
  return query_device(uuid, [&](Device device) {
    Memory memory{};
    if (memory_info == nullptr || memory_info(device, &memory) != kSuccess) return false;
    bytes = memory.used;
    return true;
  });
}

bool used_by_this_process(const std::uint8_t (&uuid)[16], std::uint64_t& bytes) {
  return query_device(uuid, [&](Device device) {
    return find_this_process(compute_processes, device, bytes) ||
           find_this_process(mps_processes, device, bytes);
  });
}

void reset_in_child() {
  query_lock.reset();
  if (library_state == State::opening) library_state = State::missing;
}

}  // namespace headroom::preload::nvml
