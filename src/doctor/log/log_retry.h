// Programs that run out of memory, try again with less and go on: what they print then. An out-of-memory that
// such a line answers is no failure.
#pragma once

#include <string_view>
#include <vector>

namespace headroom::doctor {

// Words of which each such line holds one, for AnchorSearch.
const std::vector<std::string_view>& retry_anchors();

// "Batch size 16 failed, trying batch size 8": it goes on with less, or leaves a batch out.
bool tells_retry(std::string_view line);

// "No executable batch size found, reached zero.": the last try failed, too.
bool tells_giving_up(std::string_view line);
// A program of several ended with a failure, as whoever started it says: ROS 2's launch, docker compose.
// It ends by an exception.
bool tells_failure(std::string_view line);
bool tells_end(std::string_view line);
// Which of several programs a line is of: "detector-1" of "[detector-1] …" (ROS 2's launch) and of
// "detector-1  | …" (docker compose); empty if the line does not say.
std::string_view source_of(std::string_view line);

}  // namespace headroom::doctor
