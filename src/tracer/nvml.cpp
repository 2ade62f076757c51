#include "tracer/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

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
constexpr int kSuccess = 0;
constexpr unsigned kMostProcesses = 256;
constexpr unsigned long long kNotTold = ~0ull;

Lock lock;
bool is_tried = false;
int (*handle_by_uuid)(const char*, Device*) = nullptr;
int (*memory_info)(Device, Memory*) = nullptr;
int (*compute_processes)(Device, unsigned*, UsingProcess*) = nullptr;

void open() {
  if (is_tried) return;
  is_tried = true;
  void* const library = next_dlopen.get()("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) return;
  const auto start = reinterpret_cast<int (*)()>(::dlsym(library, "nvmlInit_v2"));
  if (start == nullptr || start() != kSuccess) return;
  handle_by_uuid = reinterpret_cast<decltype(handle_by_uuid)>(::dlsym(library, "nvmlDeviceGetHandleByUUID"));
  memory_info = reinterpret_cast<decltype(memory_info)>(::dlsym(library, "nvmlDeviceGetMemoryInfo"));
  for (const char* name :
       {"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3"})
    if (void* const found = ::dlsym(library, name); found != nullptr)
      compute_processes = reinterpret_cast<decltype(compute_processes)>(found);
}

// "GPU-10101010-1010-1010-1010-101010101010"; of an instance of MIG with its own word.
void write_text(char (&text)[48], const char* word, const std::uint8_t (&uuid)[16]) {
  int length = std::snprintf(text, sizeof text, "%s", word);
  for (int i = 0; i < 16; ++i)
    length += std::snprintf(text + length, sizeof text - static_cast<unsigned>(length), "%s%02x",
                            i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

// With the lock. The first that `ask` has an answer of.
template <class Ask>
bool ask_device(const std::uint8_t (&uuid)[16], const Ask& ask) {
  open();
  if (handle_by_uuid == nullptr) return false;
  for (const char* word : {"GPU", "MIG"}) {
    char text[48];
    Device device = nullptr;
    write_text(text, word, uuid);
    if (handle_by_uuid(text, &device) == kSuccess && ask(device)) return true;
  }
  return false;
}

}  // namespace

bool used_bytes(const std::uint8_t (&uuid)[16], std::uint64_t& bytes) {
  const Locked locked(lock);
  return ask_device(uuid, [&](Device device) {
    Memory memory{};
    if (memory_info == nullptr || memory_info(device, &memory) != kSuccess) return false;
    bytes = memory.used;
    return true;
  });
}

bool used_by_this_process(const std::uint8_t (&uuid)[16], std::uint64_t& bytes) {
  const Locked locked(lock);
  return ask_device(uuid, [&](Device device) {
    static UsingProcess processes[kMostProcesses];
    unsigned count = kMostProcesses;
    if (compute_processes == nullptr || compute_processes(device, &count, processes) != kSuccess)
      return false;
    const auto pid = static_cast<unsigned>(::getpid());
    for (unsigned i = 0; i < count && i < kMostProcesses; ++i) {
      if ((processes[i].pid != pid && count != 1) || processes[i].used == kNotTold) continue;
      bytes = processes[i].used;
      return true;
    }
    return false;
  });
}

}  // namespace headroom::tracer::nvml
