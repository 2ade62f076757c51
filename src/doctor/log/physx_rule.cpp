// PhysX on the GPU (Isaac Sim, Isaac Gym) got no memory: "PxgCudaDeviceMemoryAllocator fail to allocate
// memory 134217728 bytes!! Result = 2". The result is CUDA's: 2 is out of memory, 700 an illegal access
// before it.
#include <fmt/format.h>

#include "doctor/log/message_text.h"
#include "doctor/log/requested_size.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kPinned = "pinned";

std::optional<LogMessage> read(std::string_view line) {
  constexpr std::int64_t kOutOfMemory = 2;
  const auto asked = text_after(line, "MemoryAllocator fail to allocate memory ");
  if (!asked || !has(line, "Pxg") || integer_after(*asked, "Result = ") != kOutOfMemory) return std::nullopt;
  LogMessage message;
  if (!add_requested(message, asked)) return std::nullopt;
  if (has(line, "PinnedHost") || has(line, "HostMemory")) message.subject = kPinned;
  return message;
}

Finding explain(const LogMessage& message) {
  const bool is_pinned = message.subject == kPinned;
  Finding finding;
  finding.id = "physx-out-of-memory";
  finding.severity = Severity::severe;
  finding.title = fmt::format("PhysX could not allocate {} of {} memory", words_for_requested(message),
                              is_pinned ? "pinned host" : "GPU");
  if (has_wrong_size(message)) {
    finding.cause = cause_of_wrong_size(message);
    finding.confidence = Confidence::likely;
    finding.cures = {{"check the buffer sizes in the PhysX settings", "", {}}};
    return finding;
  }
  finding.cause = is_pinned ? "The driver could not pin that much host memory."
                            : "The GPU's memory was full: simulation buffers, rendering and a policy network "
                              "share it. Later kernel errors and illegal accesses follow from this failure.";
  finding.confidence = Confidence::likely;
  finding.cures = {
      {"simulate fewer environments at once", "--num_envs N, half of the current number", {}},
      {"give PhysX smaller buffers (the defaults are for large scenes)",
       "gpu_max_rigid_contact_count, gpu_found_lost_pairs_capacity; Isaac Gym: max_gpu_contact_pairs, "
       "default_buffer_size_multiplier",
       {}},
      {"disable rendering", "--headless", {}},
      {"if JAX runs on the same GPU, make it allocate on demand", "XLA_PYTHON_CLIENT_PREALLOCATE=false", {}},
      {"see which processes hold the memory while it happens", "headroom top", {}}};
  return finding;
}

}  // namespace

LogRule physx_rule() { return {"physx", {"MemoryAllocator fail to allocate"}, read, explain}; }

}  // namespace headroom::doctor
