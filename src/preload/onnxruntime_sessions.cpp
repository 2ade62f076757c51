#include "preload/onnxruntime_sessions.h"

#include <cstdio>
#include <cstring>

#include "types/lock.h"

namespace headroom::preload {
namespace {

OpenSession slots[kMostSessions];
std::atomic<std::size_t> slots_used{0};  // slots from this one on were never used
const char reserved = 0;                 // a slot that contains its address is being filled

Lock naming;  // locked while a name is chosen

bool name_is_taken(const char* name) {
  for (std::size_t i = 0; i < slots_used.load(); ++i)
    if (slots[i].session.load() != nullptr && std::strcmp(slots[i].name, name) == 0) return true;
  return false;
}

}  // namespace

OpenSession* find_session(const void* session) {
  const std::size_t used = slots_used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < used; ++i)
    if (slots[i].session.load(std::memory_order_acquire) == session) return &slots[i];
  return nullptr;
}

OpenSession* reserve_session(const char* name) {
  const Locked locked(naming);
  for (std::size_t i = 0; i < kMostSessions; ++i) {
    const void* free_slot = nullptr;
    if (!slots[i].session.compare_exchange_strong(free_slot, &reserved)) continue;
    OpenSession& slot = slots[i];
    slot.gate.open(false);
    slot.name[0] = 0;
    char candidate[sizeof slot.name];
    std::snprintf(candidate, sizeof candidate, "%s", name);
    for (unsigned number = 2; name_is_taken(candidate); ++number)
      std::snprintf(candidate, sizeof candidate, "%.100s %u", name, number);
    std::memcpy(slot.name, candidate, sizeof candidate);
    std::size_t used = slots_used.load();
    while (used < i + 1 && !slots_used.compare_exchange_weak(used, i + 1)) {
    }
    return &slot;
  }
  return nullptr;
}

void open_session(OpenSession* slot, const void* session, int runtime, std::uint32_t scope, bool profiled) {
  slot->runtime = runtime;
  slot->scope = scope;
  slot->gate.open(profiled);
  slot->session.store(session, std::memory_order_release);
}

void remove_session(OpenSession* slot) { slot->session.store(nullptr, std::memory_order_release); }

OpenSession* all_sessions(std::size_t& count) {
  count = slots_used.load(std::memory_order_acquire);
  return slots;
}

}  // namespace headroom::preload
