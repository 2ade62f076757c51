#include "tracer/nvml.h"

#include <dlfcn.h>

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
constexpr int kSuccess = 0;

Lock lock;
bool is_tried = false;
int (*handle_by_uuid)(const char*, Device*) = nullptr;
int (*memory_info)(Device, Memory*) = nullptr;

void open() {
  if (is_tried) return;
  is_tried = true;
  void* const library = next_dlopen.get()("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) return;
  const auto start = reinterpret_cast<int (*)()>(::dlsym(library, "nvmlInit_v2"));
  if (start == nullptr || start() != kSuccess) return;
  handle_by_uuid = reinterpret_cast<decltype(handle_by_uuid)>(::dlsym(library, "nvmlDeviceGetHandleByUUID"));
  memory_info = reinterpret_cast<decltype(memory_info)>(::dlsym(library, "nvmlDeviceGetMemoryInfo"));
}

// "GPU-10101010-1010-1010-1010-101010101010"; of an instance of MIG with its own word.
void write_text(char (&text)[48], const char* word, const std::uint8_t (&uuid)[16]) {
  int length = std::snprintf(text, sizeof text, "%s", word);
  for (int i = 0; i < 16; ++i)
    length += std::snprintf(text + length, sizeof text - static_cast<unsigned>(length), "%s%02x",
                            i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

}  // namespace

bool used_bytes(const std::uint8_t (&uuid)[16], std::uint64_t& bytes) {
  const Locked locked(lock);
  open();
  if (handle_by_uuid == nullptr || memory_info == nullptr) return false;
  for (const char* word : {"GPU", "MIG"}) {
    char text[48];
    Device device = nullptr;
    Memory memory{};
    write_text(text, word, uuid);
    if (handle_by_uuid(text, &device) != kSuccess || memory_info(device, &memory) != kSuccess) continue;
    bytes = memory.used;
    return true;
  }
  return false;
}

}  // namespace headroom::tracer::nvml
