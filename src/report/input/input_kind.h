// Detects what a file or folder is by its content. All verbs that accept several kinds use it.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace headroom::report {

enum class InputKind { recording, run, footprint, watch_log };
// "a run of headroom bench": for sentences.
std::string_view words_for(InputKind kind);

// The kind of a regular file. Accepts JSON keys in any order (jq --sort-keys), empty lines or a byte order
// mark before them, and a watch log compressed with gzip. A damaged report or watch log is still detected:
// reading it reports the damage. Every FILE.hrec is a recording. Absent for other files, also for a log of
// another program with one JSON document per line.
std::optional<InputKind> known_kind(const std::filesystem::path& file);

// Detects a watch log, compressed or not, by its first bytes: all that is known of a pipe.
bool begins_as_watch_log(std::string_view begin);

// What the fix of kind_of_input()'s errors names.
inline constexpr std::string_view kWhatIsCompared =
    "use recordings (.hrec), run folders of headroom bench, footprints or logs of headroom watch";
inline constexpr std::string_view kWhatIsKept =
    "use run folders of headroom bench, or folders of run folders";

// The kind of a file or a folder; a folder is a run, or contains runs. Fails if it is none of these or cannot
// be read.
Result<InputKind> kind_of_input(const std::filesystem::path& path,
                                std::string_view what_fits = kWhatIsCompared);

}  // namespace headroom::report
