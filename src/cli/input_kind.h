// What a file that Headroom wrote is, by its content: the same answer for all verbs that take several kinds.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "base/units.h"

namespace headroom::cli {

// Of a report.json or a footprint that is read; more is none of Headroom's.
inline constexpr Bytes kLargestReport = mebibytes(256);

enum class InputKind { recording, run, footprint, watch_log };
// "a run of headroom bench": for sentences.
std::string_view words_for(InputKind kind);

// Of a regular file: keys in any order (jq --sort-keys), empty lines or a byte order mark before them, a
// watch log packed by gzip. A report or a watch log of which a part is damaged is still one: whoever reads it
// says what is wrong with it. Absent of all else, and of a log of another program that is a document a line.
// What ends in .hrec is meant as a recording whatever it is.
std::optional<InputKind> known_kind(const std::filesystem::path& file);

// The same of a watch log of which only the first bytes are there, as of a pipe: packed or not.
bool begins_as_watch_log(std::string_view begin);

}  // namespace headroom::cli
