#include "tracer/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <initializer_list>

#include "tracer/lock.h"
#include "tracer/real_functions.h"

namespace headroom::tracer::nvml {
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
constexpr unsigned long long kNotTold = ~0ull;

// Nobody waits here. Opening a library takes the loader's lock, and a thread that holds that may be in a
// library's constructor which makes a context; while one thread opens or asks, the others do without.
enum class State { untried, opening, there, absent };
constinit std::atomic<State> state{State::untried};
constinit Lock asking;

int (*handle_by_uuid)(const char*, Device*) = nullptr;
int (*memory_info)(Device, Memory*) = nullptr;
Processes compute_processes = nullptr, mps_processes = nullptr;

// _v2 first: the first drivers that had _v3 wrote longer entries for it.
Processes processes_by(void* library, const char* name, const char* later_name) {
  void* const found = ::dlsym(library, name);
  return reinterpret_cast<Processes>(found != nullptr ? found : ::dlsym(library, later_name));
}

bool find_functions() {
  void* const library = next_dlopen.get()("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) return false;
  const auto start = reinterpret_cast<int (*)()>(::dlsym(library, "nvmlInit_v2"));
  if (start == nullptr || start() != kSuccess) return false;
  handle_by_uuid = reinterpret_cast<decltype(handle_by_uuid)>(::dlsym(library, "nvmlDeviceGetHandleByUUID"));
  memory_info = reinterpret_cast<decltype(memory_info)>(::dlsym(library, "nvmlDeviceGetMemoryInfo"));
  compute_processes = processes_by(library, "nvmlDeviceGetComputeRunningProcesses_v2",
                                   "nvmlDeviceGetComputeRunningProcesses_v3");
  mps_processes = processes_by(library, "nvmlDeviceGetMPSComputeRunningProcesses_v2",
                               "nvmlDeviceGetMPSComputeRunningProcesses_v3");
  return handle_by_uuid != nullptr;
}

bool is_open() {
  State found = State::untried;
  if (state.compare_exchange_strong(found, State::opening)) {
    found = find_functions() ? State::there : State::absent;
    state.store(found);
  }
  return found == State::there;
}

// "GPU-10101010-1010-1010-1010-101010101010"; of an instance of MIG with its own word.
void write_text(char (&text)[48], const char* word, const std::uint8_t (&uuid)[16]) {
  int length = std::snprintf(text, sizeof text, "%s", word);
  for (int i = 0; i < 16; ++i)
    length += std::snprintf(text + length, sizeof text - static_cast<unsigned>(length), "%s%02x",
                            i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

// The first that `ask` has an answer of.
template <class Ask>
bool ask_device(const std::uint8_t (&uuid)[16], const Ask& ask) {
  if (!is_open() || !asking.try_lock()) return false;
  bool is_told = false;
  for (const char* word : {"GPU", "MIG"}) {
    char text[48];
    Device device = nullptr;
    write_text(text, word, uuid);
    is_told = handle_by_uuid(text, &device) == kSuccess && ask(device);
    if (is_told) break;
  }
  asking.unlock();
  return is_told;
}

bool find_this_process(Processes list, Device device, std::uint64_t& bytes) {
  static UsingProcess processes[kMostProcesses];
  unsigned count = kMostProcesses;
  if (list == nullptr || list(device, &count, processes) != kSuccess) return false;
  const auto pid = static_cast<unsigned>(::getpid());
  for (unsigned i = 0; i < count && i < kMostProcesses; ++i) {
    if (processes[i].pid != pid || processes[i].used == kNotTold) continue;
    bytes = processes[i].used;
    return true;
  }
  return false;
}

}  // namespace

bool used_bytes(const std::uint8_t (&uuid)[16], std::uint64_t& bytes) {
  return ask_device(uuid, [&](Device device) {
    Memory memory{};
    if (memory_info == nullptr || memory_info(device, &memory) != kSuccess) return false;
    bytes = memory.used;
    return true;
  });
}

bool used_by_this_process(const std::uint8_t (&uuid)[16], std::uint64_t& bytes) {
  return ask_device(uuid, [&](Device device) {
    return find_this_process(compute_processes, device, bytes) ||
           find_this_process(mps_processes, device, bytes);
  });
}

void reset_in_child() {
  asking.reset();
  if (state == State::opening) state = State::absent;
}

}  // namespace headroom::tracer::nvml
