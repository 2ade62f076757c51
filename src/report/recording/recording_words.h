// Words that the views of a recording and those of a comparison share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attribution/cycle_leaks.h"
#include "attribution/recording_analysis.h"
#include "recording/recording.h"
#include "report/recording/recording_views.h"
#include "report/words.h"

namespace headroom::report {

// " ± 0.4 MiB   " after the bytes of a row, 12 columns wide; blank for an exact figure.
std::string error_column(std::optional<double> standard_error);

// "12.3 MiB"; for an estimate "≈ 12.3 MiB ± 0.4 MiB", for a small one "at most 78.4 KiB"; for an overwritten
// ring "at least 12.3 MiB".
std::string words_for(const attribution::Figure& bytes);
// The end of such a sentence; empty if all blocks are counted.
std::string_view words_for_older_blocks(const attribution::Figure& bytes);
// "1 block", "≈ 1,234 blocks".
std::string words_for_count(const attribution::Figure& count, std::string_view noun);

// Of a process that ran before the recording: the memory that it had then, and releases of it. Empty for
// other recordings.
std::string words_for_memory_before(const recording::RecordingInfo& info,
                                    const attribution::RecordingAnalysis& analysis);

// How to avoid dropped events, by the limit that was reached: "record with a larger --max-size".
std::string cure_for_drops(const recording::RecordingInfo& info);

// Explains a peak below the memory live at the end. In a sampled recording the two are separate estimates, so
// this can happen. Empty if the peak is not below.
std::string words_for_end_above_peak(const attribution::RecordingAnalysis& analysis);

// Why a full recording has no figures of fragmentation, without a full stop. Empty if it has, and for a
// sampled recording.
std::string words_for_no_fragmentation(const recording::RecordingInfo& info);

// Why a recording is incomplete, each without a full stop; empty for a complete one.
std::vector<std::string> problems_of(const recording::RecordingInfo& info,
                                     const attribution::RecordingAnalysis& analysis);
// Sentences about missing data, for a screen that already says how the process ended.
std::vector<std::string> missing_parts(const recording::RecordingInfo& info,
                                       const attribution::RecordingAnalysis& analysis);
// The same without an analysis, after all events were read.
std::vector<std::string> missing_parts(const recording::Recording& recording);

// "device memory (cuMemAlloc)".
std::string_view words_for(DeviceMemoryKind kind);

// Null if the recording does not describe the device.
const recording::Device* find_device(const RecordingReport& report, std::uint32_t ordinal);

// The command of another process that held memory when a limit refused a request. For a process outside of
// the tree: its name in the kernel. Empty if unknown.
std::string command_of(const RecordingReport& report, const attribution::DeviceProcess& process);

// By the index of a share. The name is "(outside of any layer)" if the path is empty.
std::string path_of_layer(const RecordingReport& report, std::uint32_t index);
std::string name_of_layer(const RecordingReport& report, std::uint32_t index);

// The verdict on one cycle, a sentence or two: "Leak: net/run leaves 3.0 KiB more behind with each of 11
// cycles."
std::string words_for_leaks(const attribution::LeakVerdict& leaks);

// "2 more layers repeat, which were not watched."
std::string words_for_cycles_left_out(const attribution::LeakVerdict& leaks);

// "3.0 KiB", and of what grows by a byte in several cycles "under 1 B"; never "0 B".
std::string words_for_slow_growth(double bytes);

// The class of allocations whose size has this number of bits: 0; 1; 2 to 3; 4 to 7; …
std::uint64_t smallest_of_class(std::size_t bits);
std::uint64_t largest_of_class(std::size_t bits);
// "2.0 MiB to 4.0 MiB".
std::string words_for_size_class(std::size_t bits);

// "worker (tid 42)", or "thread 3" if the recording does not name the thread.
std::string words_for_thread(const recording::RecordingInfo& info, std::size_t thread);

}  // namespace headroom::report
