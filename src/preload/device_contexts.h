// The process's contexts on each device: which exist, and how much of the driver's own memory they take.
#pragma once

#include <cstdint>

#include "preload/driver_calls.h"
#include "types/lock.h"

namespace headroom::preload {

// The current context and its device.
struct CurrentDevice {
  std::uint64_t context = 0;
  unsigned device = 0;
};

inline std::uint64_t number_of(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }

namespace driver {

// The legacy and the per-thread default stream have fixed numbers instead of handles. They belong to the
// current context.
inline bool is_default_stream(const void* stream) { return reinterpret_cast<std::uint64_t>(stream) <= 2; }
// The context to synchronize so that the work in this stream is complete; 0 if unknown.
std::uint64_t context_of_stream(Opaque stream);

// Adds a live context, with the device memory that it took. False: another thread that asked for the same
// context has added it already, or there is no space for it. Then nothing is known about that context, and
// its memory counts as growth of the driver's.
bool add_context(std::uint64_t number, unsigned device, std::int64_t bytes);
// Changes the bytes of a live context. False: the context is gone.
bool add_to_context(std::uint64_t number, std::int64_t bytes);
void rename_context(std::uint64_t from, std::uint64_t to);
bool has_context(unsigned device);
struct RemovedContext {
  bool is_known = false, is_last = false;  // is_last: of its device
  unsigned device = 0;
  std::int64_t bytes = 0;
};
RemovedContext remove_context(std::uint64_t number);

bool is_device(Device device);
bool is_primary_active(Device device);
// The handle of the device's primary context; 0 if no call has returned it.
std::uint64_t known_primary(unsigned device);
void set_primary(unsigned device, std::uint64_t context);

// Held around calls that create or destroy a device's primary context. The handle can be reused and the state
// is asked after the call, so no other thread may create the context in between. The lock is recursive
// because the driver's own calls reach the hooks.
class PrimaryLocked {
 public:
  explicit PrimaryLocked(Device device);
  ~PrimaryLocked();
  PrimaryLocked(const PrimaryLocked&) = delete;
  PrimaryLocked& operator=(const PrimaryLocked&) = delete;

 private:
  Lock* lock_;  // null: no such device
};

// In the child after fork: drops the parent's contexts, which the child cannot use.
void reset_contexts_in_child();

}  // namespace driver
}  // namespace headroom::preload
