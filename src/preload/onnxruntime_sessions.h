// The ONNX Runtime sessions that the traced program has open: name, run count, and whether the runtime still
// profiles them. Uses fixed memory, and a run takes no lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/profile_gate.h"

namespace headroom::preload {

struct OpenSession {
  std::atomic<const void*> session{nullptr};  // null: the slot is free
  char name[128] = {};
  std::uint32_t scope = 0;
  int runtime = 0;            // index of the library copy, if a program loads several
  std::uint32_t profile = 0;  // its number in the recording; 0: not profiled
  ProfileGate gate;
};

// Finds the slot of a known session, or null.
OpenSession* find_session(const void* session);
// Reserves a slot for a session that is about to be loaded; null when kMostSessions are open. Its name
// differs from those of all open sessions: "inference", "inference 2". Afterwards call open_session() or
// remove_session().
OpenSession* reserve_session(const char* name);
void open_session(OpenSession* slot, const void* session, int runtime, std::uint32_t scope, bool profiled);
void remove_session(OpenSession* slot);
// The slots, to iterate over.
OpenSession* all_sessions(std::size_t& count);

inline constexpr std::size_t kMostSessions = 256;

}  // namespace headroom::preload
