// Reads ONNX Runtime's profile of a session (JSON trace events). It contains the time and thread of each
// node's execution, and figures of the runtime's arena. Joined with a recording by time and thread, it splits
// "run" into the graph's nodes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace headroom::recording {

// One execution of one node.
struct NodeRun {
  std::uint32_t node = 0;       // index into RuntimeProfileData::nodes
  std::int64_t tid = 0;         // kernel id of the thread that ran it
  Nanoseconds start, duration;  // since the profile's time zero; resolution 1 µs
  // The arena after the node, if this version of the runtime reports it (1.29 does).
  // in_use: in use with rounding; requested_in_use: without; arena_held: allocated by the arena, used or not.
  std::optional<Bytes> in_use, requested_in_use, arena_held;
};

struct NodeInfo {
  std::string name, operation, provider;
  std::optional<Bytes> output, activations, parameters;  // per run: bytes written, read, and owned
};

struct RuntimeProfileData {
  std::vector<NodeInfo> nodes;  // in the order of their first run
  std::vector<NodeRun> runs;    // by start
};

// Errors: file missing, not a regular file (folder, FIFO, device), not JSON, or not a list of trace events. A
// profile without nodes is not an error.
Result<RuntimeProfileData> read_runtime_profile(const std::filesystem::path& path);

}  // namespace headroom::recording
