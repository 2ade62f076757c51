// Words that the views of a memory snapshot share.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "report/snapshot/snapshot_views.h"
#include "snapshot/snapshot.h"
#include "snapshot/snapshot_analysis.h"

namespace headroom::report {

// "forward (resnet.py:96)": the file's own name, without its folders.
std::string words_for_frame(const snapshot::Snapshot& snapshot, const snapshot::Frame& frame);

// True for a frame that only passes a call on: PyTorch's dispatch (_call_impl, _wrapped_call_impl), the
// interpreter, and the allocator's recording of stacks.
bool is_passage(const snapshot::Snapshot& snapshot, const snapshot::Frame& frame);

// The frames of a stack without those that only pass a call on, innermost first. All frames if no other is
// left.
std::vector<std::string> telling_frames(const snapshot::Snapshot& snapshot, snapshot::StackIndex stack);

// "forward (resnet.py:96) ← forward (resnet.py:285) ← main (train.py:10)", as much as fits; of a place
// without a stack "blocks of 3.0 MiB".
std::string one_line_place(const snapshot::Snapshot& snapshot, const snapshot::AllocationPlace& place,
                           int width);

// The innermost frame that the stacks of all these places have in common, with all around it; empty if there
// is none, or fewer than two places.
std::string common_frame(const snapshot::Snapshot& snapshot,
                         const std::vector<snapshot::AllocationPlace>& places);

// The verdict, a sentence or two. `trace`: the duration of the trace, 0 if unknown. A leak in a trace of less
// than a second gets a warning.
std::string words_for_leaks(const snapshot::SnapshotLeaks& leaks, Nanoseconds trace = {});
Nanoseconds duration_of_trace(const snapshot::DeviceAnalysis& device);

// What would have made room, a sentence.
std::string words_for_room(const snapshot::OomAutopsy& oom, const snapshot::RoomMaker& way,
                           const snapshot::AllocatorSettings& settings);

// "0.25 s after the first entry", "after entry 1,234" where no times were recorded.
std::string words_for_moment(const snapshot::DeviceAnalysis& device, std::size_t position,
                             std::int64_t time_us);

// A segment in `count` cells: # allocated throughout, + in part, . free. Blocks that were released and wait
// for another stream count as allocated, or as `waiting` where they fill most of a cell.
std::string cells_of(const snapshot::Snapshot& snapshot, const snapshot::Segment& segment, int count,
                     char waiting = '\0');

}  // namespace headroom::report
