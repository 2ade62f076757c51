// Everything that was live at the heap's peak, each byte under one name: the layer that it was allocated in,
// or, outside of every layer, the module whose code asked for it (a runtime's own tables, the program's
// input buffers). What a runtime holds only because it is traced is a share of its own. What bears no name is
// told as such: no stack was taken, or its code is in no known module.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attribution/recording_analysis.h"
#include "recording/recording.h"

namespace headroom::attribution {

enum class ShareKind { layer, module, tracing, unnamed };

struct PeakShare {
  ShareKind kind = ShareKind::unnamed;
  std::string name;  // a layer's path, a module's file name; empty for the rest
  std::int64_t bytes = 0;
  double variance = 0;  // as in LiveFigures

  std::optional<double> standard_error() const {
    return variance > 0 ? std::optional(std::sqrt(variance)) : std::nullopt;
  }
};

// The largest first; they add up to analysis.peak_bytes. `stacks` and `analysis` are of the same recording.
std::vector<PeakShare> peak_shares(const recording::RecordingInfo& info, const recording::StackTable& stacks,
                                   const RecordingAnalysis& analysis);

// What the stacks of one module hold, by responsible_module().
struct ModuleFigures {
  std::string name;  // the file's name; empty where no module is known
  LiveFigures live;
};

// Those that hold anything at the heap's peak or at the end; the largest at the peak first, of equal ones the
// largest at the end. They add up to the heap.
std::vector<ModuleFigures> module_figures(const recording::RecordingInfo& info,
                                          const recording::StackTable& stacks,
                                          const RecordingAnalysis& analysis);

// The module that is to be held responsible for what this stack allocates: that of the innermost frame that
// does not belong to what only passes allocations on (the C and C++ libraries, the dynamic loader, another
// allocator, the tracer itself); where there is none, that of the outermost frame. Empty: not known.
std::string responsible_module(const recording::RecordingInfo& info, std::span<const std::uint64_t> frames);

// The innermost frame in that module; absent where the stack has none but those of what passes allocations
// on.
std::optional<std::uint64_t> responsible_frame(const recording::RecordingInfo& info,
                                               std::span<const std::uint64_t> frames);

// The part of the stack within that module, and what it calls: the frames from the innermost to the last one
// in a row that belongs to the module or to none. All frames where no module is responsible.
std::span<const std::uint64_t> frames_within_module(const recording::RecordingInfo& info,
                                                    std::span<const std::uint64_t> frames);

}  // namespace headroom::attribution
