// Compares two recordings by layer, call stack and module. Pure: names come from the caller. docs/diff.md
// says which rows are paired: addresses mean nothing in another process, so stacks are paired by the names of
// their functions and modules.
//
//   const auto same = modules_of_one_build(before.info(), after.info());
//   const auto a = group_recording(before, names_of_a, same), b = group_recording(after, names_of_b, same);
//   const RecordingDiff diff = diff_recordings(a, b);
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "attribution/group_accounts.h"
#include "attribution/recording_analysis.h"
#include "comparison/compared_names.h"
#include "recording/recording.h"

namespace headroom::comparison {

enum class DiffBy { layer, stack, module };
inline constexpr std::array<DiffBy, 3> kDiffBy{DiffBy::layer, DiffBy::stack, DiffBy::module};
std::string_view name_of(DiffBy by);

// A layer, the stacks of one row of functions, or a module.
struct NamedGroup {
  std::string key;                    // the same in both recordings
  std::string name;                   // of a layer or a module; a layer's is empty outside of any
  std::vector<std::string> frames;    // of a stack, innermost first
  attribution::GroupFigures figures;  // of a layer without those inside it, so that they add up
  // False for a graph's node in a comparison with samples: only the row of the whole run has its counts.
  bool counts_known = true;
};

struct GroupedRecording {
  attribution::RecordingAnalysis analysis;
  std::optional<Nanoseconds> average_lifetime;    // of all blocks that were released
  std::array<std::vector<NamedGroup>, 3> groups;  // by DiffBy
  // Memory that the program mapped itself, by DiffBy: exact, only the live bytes are set.
  std::array<std::vector<NamedGroup>, 3> mapped;
};

// File names of the modules with equal build ids in both recordings: their addresses can be compared.
std::set<std::string> modules_of_one_build(const recording::RecordingInfo& a,
                                           const recording::RecordingInfo& b);

// Reads the recording twice: for the analysis, and for the groups of its stacks.
GroupedRecording group_recording(recording::Recording& recording, const FrameLookup& names,
                                 const std::set<std::string>& of_one_build);

struct DiffRow {
  std::string name;
  std::vector<std::string> frames;
  bool in_before = false, in_after = false;
  attribution::GroupFigures before, after;  // zeros where it is absent
  bool counts_known = true;  // of both; else their allocations and allocated bytes mean nothing

  std::int64_t peak_change() const { return after.live.peak_bytes - before.live.peak_bytes; }
  std::int64_t end_change() const { return after.live.end_bytes - before.live.end_bytes; }
  // Absent if exact.
  std::optional<double> peak_standard_error() const;
  std::optional<double> end_standard_error() const;
  // 0 if unknown.
  std::int64_t allocated_change() const {
    return counts_known ? after.allocated_bytes - before.allocated_bytes : 0;
  }
};

struct FigureChange {
  attribution::Figure before, after;

  std::int64_t change() const { return after.value - before.value; }
  // Absent if both figures are exact.
  std::optional<double> standard_error() const;
  // False for a change of less than two standard errors, or none.
  bool differs() const;
};

struct RecordingDiff {
  FigureChange peak_bytes, leaked_bytes, allocations, allocated_bytes;
  // By DiffBy; the largest growth at the peak first. Groups that never allocated are left out.
  std::array<std::vector<DiffRow>, 3> rows;
  // The same for mapped memory.
  std::array<std::vector<DiffRow>, 3> mapped;

  const std::vector<DiffRow>& by(DiffBy what) const { return rows[static_cast<std::size_t>(what)]; }
  const std::vector<DiffRow>& mapped_by(DiffBy what) const { return mapped[static_cast<std::size_t>(what)]; }
};

RecordingDiff diff_recordings(const GroupedRecording& before, const GroupedRecording& after);

}  // namespace headroom::comparison
