// ONNX Runtime's profile of a session (its JSON of trace events): which node ran when, on which thread, and
// what the runtime says of its own arena. Joined with a recording by time and thread, it turns "run" into the
// graph's nodes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace headroom::recording {

// One node, one time.
struct NodeRun {
  std::uint32_t node = 0;       // index into RuntimeProfileData::nodes
  std::int64_t tid = 0;         // the kernel's id of the thread that ran it
  Nanoseconds start, duration;  // since the profile's own zero; the runtime counts in microseconds
  // The arena after the node, where this version of the runtime tells (1.29 does).
  std::optional<Bytes> in_use, requested_in_use, arena_held;
};

struct NodeInfo {
  std::string name, operation, provider;
  std::optional<Bytes> output, activations, parameters;  // of one run: what it writes, reads and owns
};

struct RuntimeProfileData {
  std::vector<NodeInfo> nodes;  // in the order of their first run
  std::vector<NodeRun> runs;    // by start
};

// Error: no such file, none of bytes (a folder, a FIFO, a device), not JSON, or not a list of trace events. A
// profile without nodes is none.
Result<RuntimeProfileData> read_runtime_profile(const std::filesystem::path& path);

}  // namespace headroom::recording
