// Parts that several views of a recording have: rows of JSON, the nodes of a graph, GPUs and mapped memory.
#pragma once

#include <string>
#include <vector>

#include "attribution/live_rows.h"
#include "attribution/peak_shares.h"
#include "attribution/recording_analysis.h"
#include "base/json.h"
#include "base/units.h"
#include "report/recording/recording_views.h"
#include "report/text_layout.h"

namespace headroom::report {

// The figure, its standard error where it is an estimate, and what it can be at most where that is known.
void set(Json& object, const std::string& key, const attribution::Figure& figure);
void set(Json& object, const attribution::LiveFigures& live);

// The index, and the kernel's id and the name where they are known.
Json thread_json(const recording::RecordingInfo& info, ThreadIndex thread);

Json sessions_json(const RecordingReport& report);

// True if the runtime reported an arena that contains its nodes' tensors.
bool has_arena(const attribution::SessionMemory& session);
// That of any session.
bool has_arena(const recording::RecordingInfo& info, const attribution::RecordingAnalysis& analysis);

// A table of the nodes with most tensors, and of the node after which the arena was fullest, beside the
// memory of the nodes' layers. A layer has the memory allocated while its node ran: often a block for the
// arena, twice as large as the last one, which later nodes use, too. To make a model smaller, look at the
// tensors; to tune the arena, look at the layers. Without sizes from the runtime there is no table.
void add_nodes(ScreenLines& screen, const attribution::SessionMemory& session,
               const attribution::RecordingAnalysis& analysis);

// GPU memory, a section per device: over the whole recording, and at one moment (LiveRows::devices).
void add_devices(ScreenLines& screen, const RecordingReport& report);
Json devices_json(const RecordingReport& report);

// A device that held nothing at that time has no section.
void add_devices(ScreenLines& screen, const RecordingReport& report,
                 const std::vector<attribution::DeviceFigures>& at_moment);
Json devices_json(const RecordingReport& report, const std::vector<attribution::DeviceFigures>& at_moment);

// Memory that the program mapped itself, which is never added to the heap. From 1 MiB or one percent of the
// heap's peak on, it gets a section.
bool has_much_mapped(const attribution::RecordingAnalysis& analysis);

// The section, if there is enough to show. With `rows`: that of one moment.
void add_mapped(ScreenLines& screen, const RecordingReport& report);
void add_mapped(ScreenLines& screen, const RecordingReport& report, const attribution::LiveRows& rows);

// At most 50 stacks and layers each; all modules.
Json mapped_json(const RecordingReport& report);
Json mapped_json(const RecordingReport& report, const attribution::MappedRows& mapped);

}  // namespace headroom::report
