// Lines that show that a program ran out of memory, tried again with less, and continued. The failure before
// such a line is only a warning.
#pragma once

#include <string_view>
#include <vector>

namespace headroom::doctor {

// Each such line contains one of these words. They also find ends of programs and announced kills.
const std::vector<std::string_view>& retry_anchors();

// The program continues with less, or skips a batch: "Batch size 16 failed, trying batch size 8". Includes
// tells_choice().
bool tells_retry(std::string_view line);

// Ultralytics found the largest batch that fits: "AutoBatch: Using batch-size 14 for CUDA:0 …". Failures
// before it were part of the search.
bool tells_choice(std::string_view line);

// The last try failed, too: "No executable batch size found, reached zero."
bool tells_giving_up(std::string_view line);

// A program ended with a failure, by its own last words or in the words of its parent (tells_end_of_another).
bool tells_end(std::string_view line);

// A parent reports that a program ended with a failure: ROS 2's launch, docker, docker compose, systemd,
// supervisord, PM2, gunicorn, torchrun, Kubernetes.
bool tells_end_of_another(std::string_view line);

// The program that a line belongs to: "detector-1" in "[detector-1] …" (ROS 2's launch) and in "detector-1  |
// …" (docker compose). Empty if the line does not name it.
std::string_view source_of(std::string_view line);

// The process in the line's prefix of the journal or syslog: "python3[4312]". A restarted program has another
// number, so it cannot answer an earlier message. Empty if there is none, or if the line reports the end of
// another process.
std::string_view process_of(std::string_view line);

}  // namespace headroom::doctor
