#include "report/snapshot/snapshot_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/units.h"
#include "base/utf8.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using namespace attribution;
using snapshot::Frame;
using snapshot::Snapshot;
using snapshot::StackIndex;

constexpr std::size_t kLongestFrameName = 120;

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Times of a trace are from a file, so they may be anything.
Nanoseconds time_between(std::int64_t from_us, std::int64_t to_us) {
  constexpr std::int64_t kNanosecondsPerMicrosecond = 1000, kMostMicroseconds = std::int64_t{1} << 52;
  return {std::clamp<std::int64_t>(to_us - from_us, 0, kMostMicroseconds) * kNanosecondsPerMicrosecond};
}

}  // namespace

bool is_passage(const Snapshot& snapshot, const Frame& frame) {
  const std::string_view function = snapshot.strings[frame.function], file = snapshot.strings[frame.file];
  constexpr const char* kFunctions[]{"CUDACachingAllocator",
                                     "_call_impl",
                                     "_wrapped_call_impl",
                                     "unwind::unwind",
                                     "CapturedTraceback::gather",
                                     "gather_with_cpp",
                                     "_start",
                                     "__libc_start_main",
                                     "PyEval_",
                                     "PyObject_",
                                     "PyFunction_"};
  constexpr const char* kFiles[]{"core/boxing",
                                 "/Register",
                                 "/Redispatch",
                                 "pythonrun.c",
                                 "Modules/main.c",
                                 "Objects/call.c",
                                 "Objects/methodobject.c",
                                 "pycore_ceval.h",
                                 "ceval.c",
                                 "cpython/abstract.h"};
  const auto holds = [](std::string_view text) {
    return [text](const char* part) { return text.find(part) != text.npos; };
  };
  return std::ranges::any_of(kFunctions, holds(function)) || std::ranges::any_of(kFiles, holds(file));
}

std::string words_for_frame(const Snapshot& snapshot, const Frame& frame) {
  const std::string_view file = base_name(snapshot.strings[frame.file]).substr(0, kLongestFrameName);
  constexpr std::size_t kLongestSignature = 2000;
  const std::string function =
      short_function(std::string(snapshot.strings[frame.function].substr(0, kLongestSignature)))
          .substr(0, kLongestFrameName);
  if (file.empty() || file == "??") return function.empty() ? "?" : function;
  return fmt::format("{} ({}:{})", function.empty() ? "?" : function, file, frame.line);
}

std::vector<std::string> telling_frames(const Snapshot& snapshot, StackIndex stack) {
  std::vector<std::string> telling, all;
  for (const std::uint32_t i : snapshot.frames_of(stack)) {
    const Frame& frame = snapshot.frames[i];
    all.push_back(words_for_frame(snapshot, frame));
    if (!is_passage(snapshot, frame)) telling.push_back(all.back());
  }
  return telling.empty() ? all : telling;
}

std::string one_line_place(const Snapshot& snapshot, const snapshot::AllocationPlace& place, int width) {
  if (place.requested_bytes)
    return fit_to_width(fmt::format("(no stack) blocks of {}", format_bytes({*place.requested_bytes})),
                        width);
  std::string line;
  for (const std::string& frame : telling_frames(snapshot, place.stack)) {
    const std::string longer = line.empty() ? frame : fmt::format("{} ← {}", line, frame);
    if (!line.empty() && display_width(longer) > width) break;
    line = longer;
  }
  return fit_to_width(line.empty() ? "(no stack)" : line, width);
}

std::string common_frame(const Snapshot& snapshot, const std::vector<snapshot::AllocationPlace>& places) {
  if (places.size() < 2) return {};
  const auto first = snapshot.frames_of(places.front().stack);
  std::size_t common = first.size();  // so many of the outermost
  for (const snapshot::AllocationPlace& place : places) {
    const auto frames = snapshot.frames_of(place.stack);
    std::size_t same = 0;
    while (same < std::min(common, frames.size()) &&
           frames[frames.size() - 1 - same] == first[first.size() - 1 - same])
      ++same;
    common = same;
  }
  for (std::size_t i = first.size() - common; i < first.size(); ++i) {
    const Frame& frame = snapshot.frames[first[i]];
    if (!is_passage(snapshot, frame)) return words_for_frame(snapshot, frame);
  }
  return {};
}

std::string cells_of(const Snapshot& snapshot, const snapshot::Segment& segment, int count, char waiting) {
  constexpr double kAlmost = 0.999;
  std::string cells;
  const auto blocks = snapshot.blocks_of(segment);
  // In doubles: a segment of 64 TiB times the number of cells does not fit twice over.
  const double size = static_cast<double>(segment.size) / count;
  const auto begin = [&](std::size_t i) { return static_cast<double>(blocks[i].address - segment.address); };
  const auto end = [&](std::size_t i) { return begin(i) + static_cast<double>(blocks[i].size); };
  std::size_t at = 0;
  for (int cell = 0; cell < count; ++cell) {
    const double from = size * cell, to = size * (cell + 1);
    double live = 0, released = 0;
    while (at < blocks.size() && end(at) <= from) ++at;
    for (std::size_t i = at; i < blocks.size() && begin(i) < to; ++i) {
      if (!blocks[i].is_live()) continue;
      const bool waits = waiting != '\0' && blocks[i].state == snapshot::BlockState::pending_free;
      (waits ? released : live) += std::min(to, end(i)) - std::max(from, begin(i));
    }
    cells += released > live ? waiting : live <= 0 ? '.' : live >= kAlmost * size ? '#' : '+';
  }
  return cells;
}

Nanoseconds duration_of_trace(const snapshot::DeviceAnalysis& device) {
  return device.first_time_us == 0 ? Nanoseconds{} : time_between(device.first_time_us, device.last_time_us);
}

std::string words_for_leaks(const snapshot::SnapshotLeaks& leaks, Nanoseconds trace) {
  constexpr Nanoseconds kShortTrace{1'000'000'000};
  const auto late = format_bytes({leaks.late_bytes});
  switch (leaks.growth) {
    case monitoring::Growth::unknown:
      return "The trace is too short for a verdict, which needs 80 entries.";
    case monitoring::Growth::none:
      return "No leak: the minimum of live memory does not grow.";
    case monitoring::Growth::grew_then_stayed:
    case monitoring::Growth::grew_then_released:  // of recordings only
      return "No leak: the minimum of live memory grew, and then stayed the same, as weights and caches do.";
    case monitoring::Growth::grew_late:
      return fmt::format(
          "Unclear: the minimum of live memory grew late (by {} since the first third). Record a longer "
          "trace to see whether it stays.",
          late);
    case monitoring::Growth::leak:
      return fmt::format(
          "Leak: the minimum of live memory grows by {} in each of {} equal parts of the trace ({} "
          "entries).{}",
          words_for_slow_growth(leaks.bytes_per_window), leaks.windows, grouped(leaks.entries_per_window),
          trace.count > 0 && trace < kShortTrace
              ? fmt::format(" The trace is only {} long; record more steps to be sure.",
                            format_duration(trace))
              : "");
  }
  return {};
}

std::string words_for_room(const snapshot::OomAutopsy& oom, const snapshot::RoomMaker& way,
                           const snapshot::AllocatorSettings& settings) {
  const std::string bytes = format_bytes({way.bytes});
  const std::string blocks = counted(way.blocks, "block");
  const std::string where = way.as_hole ? "in one of the segments" : "on the device";
  switch (way.by) {
    case snapshot::RoomBy::defragmenting: {
      const bool expands = settings.expandable_segments.value_or(false);
      return fmt::format(
          "No free piece was large enough: {} was free in {}, {} on the device, and {} was requested{}",
          bytes, counted(way.blocks, "piece"), format_bytes({oom.device_free}), format_bytes({oom.requested}),
          expands ? "." : "; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True keeps pieces together.");
    }
    case snapshot::RoomBy::waiting:
      return fmt::format(
          "{} in {} was released but waited for another stream; with it, the request would have fit {}.",
          bytes, blocks, where);
    case snapshot::RoomBy::one_place:
      return fmt::format("Without the memory of this place ({} in {}), the request would have fit {}.", bytes,
                         blocks, where);
    case snapshot::RoomBy::fewest_bytes:
      return fmt::format("The smallest set to release so that the request fits {}: {} in {}.", where, bytes,
                         blocks);
  }
  return {};
}

std::string words_for_moment(const snapshot::DeviceAnalysis& device, std::size_t position,
                             std::int64_t time_us) {
  if (time_us == 0 || device.first_time_us == 0)
    return fmt::format("after entry {}", grouped(static_cast<std::int64_t>(position)));
  return fmt::format("{} after the first entry",
                     format_duration(time_between(device.first_time_us, time_us)));
}

}  // namespace headroom::report
