#include "tracer/onnxruntime_sessions.h"

#include <cstring>

namespace headroom::tracer {
namespace {

OpenSession slots[kMostSessions];
std::atomic<std::size_t> slots_used{0};  // slots at and past it were never taken
const char reserved = 0;                 // a slot that holds its address is being filled

}  // namespace

OpenSession* find_session(const void* session) {
  const std::size_t used = slots_used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < used; ++i)
    if (slots[i].session.load(std::memory_order_acquire) == session) return &slots[i];
  return nullptr;
}

OpenSession* add_session(const void* session, const char* name, std::uint32_t scope, bool profiled) {
  for (std::size_t i = 0; i < kMostSessions; ++i) {
    const void* free_slot = nullptr;
    if (!slots[i].session.compare_exchange_strong(free_slot, &reserved)) continue;
    OpenSession& slot = slots[i];
    std::strncpy(slot.name, name, sizeof slot.name - 1);
    slot.scope = scope;
    slot.profiled = profiled;
    slot.runs = 0;
    slot.running = 0;
    slot.ending = false;
    std::size_t used = slots_used.load();
    while (used < i + 1 && !slots_used.compare_exchange_weak(used, i + 1)) {
    }
    slot.session.store(session, std::memory_order_release);
    return &slot;
  }
  return nullptr;
}

void remove_session(OpenSession* slot) { slot->session.store(nullptr, std::memory_order_release); }

OpenSession* all_sessions(std::size_t& count) {
  count = slots_used.load(std::memory_order_acquire);
  return slots;
}

}  // namespace headroom::tracer
