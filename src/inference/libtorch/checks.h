// Checks a module's file and its settings, and interprets LibTorch's error messages. Does not need LibTorch's
// headers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "inference/backend_plugin.h"
#include "inference/plugin/plugin_failure.h"
#include "types/runtime_choices.h"

namespace headroom::libtorch {

using plugin::failed;
using plugin::Failure;
using plugin::unavailable;

// What kind of file a model file is, by its first bytes and by the names in its ZIP directory. LibTorch's own
// message for a file of weights is only that a record is missing, which does not help the user.
enum class ArchiveKind {
  torchscript,
  checkpoint,        // from torch.save(): weights, or a pickled Python object
  exported_program,  // torch.export.save()
  damaged,           // begins as an archive, but its directory is incomplete
  foreign,
};

// Reads only the beginning, the end and the ZIP directory of the file.
ArchiveKind archive_kind(const std::string& path);

// Throws plugin::Failure if the file is not a TorchScript archive; the message says what it is instead.
void require_torchscript(const std::string& path);

// Shortens a message to one line: what failed, and in which function of the model. Removes the stacks of
// C++ and of the interpreter, and advice to developers.
std::string clean_message(std::string_view message);

// Converts a message of LibTorch to a Failure with a short explanation.
Failure classify(std::string_view message);

// How the graph is transformed at load. Corresponds to ONNX Runtime's graph levels.
enum class GraphOptimization {
  none,      // unchanged
  freeze,    // inline calls, make weights constant, fold constants
  fold,      // also fold normalisation into convolutions
  optimize,  // also fuse operators; on the CPU, convert weights to oneDNN's layout
};

struct Capabilities {
  std::optional<int> compute_capability;  // major number; absent: the CPU
  bool has_half_on_cpu = false;           // the CPU supports autocast to float16
};

// Throws plugin::Failure for settings that LibTorch does not support. Otherwise a report would show a
// setting that had no effect.
void check_settings(const hr_settings& settings, bool on_device);
// The requested precision, or the default: bfloat16 if the GPU supports it, else float32. Throws
// plugin::Failure.
Precision precision_of(const hr_settings& settings, const Capabilities& capabilities);
GraphOptimization graph_optimization_of(const hr_settings& settings, Precision precision);

}  // namespace headroom::libtorch
