// Programs that run out of memory, try again with less and go on: what they print then. An out-of-memory that
// such a line answers is no failure.
#pragma once

#include <string_view>
#include <vector>

namespace headroom::doctor {

// Words of which each such line holds one, or tells of an end or of a kill to come, for AnchorSearch.
const std::vector<std::string_view>& retry_anchors();

// "Batch size 16 failed, trying batch size 8": it goes on with less, or leaves a batch out. A
// choice is one, too.
bool tells_retry(std::string_view line);

// "AutoBatch: Using batch-size 14 for CUDA:0 …" (Ultralytics): what it ran out of memory for before was a
// search for the largest batch that fits, and this one does.
bool tells_choice(std::string_view line);

// "No executable batch size found, reached zero.": the last try failed, too.
bool tells_giving_up(std::string_view line);

// An exception is printed, or a program ends.
bool tells_failure(std::string_view line);

// A program ended with a failure, by its own last words or as whoever started it says (tells_end_of_another).
bool tells_end(std::string_view line);

// Whoever starts programs, or starts them again, tells that one of them ended with a failure: ROS 2's launch,
// docker and docker compose, systemd, supervisord, PM2, gunicorn, torchrun, Kubernetes.
bool tells_end_of_another(std::string_view line);

// Which of several programs a line is of: "detector-1" of "[detector-1] …" (ROS 2's launch) and of
// "detector-1  | …" (docker compose); empty if the line does not say.
std::string_view source_of(std::string_view line);

// The process that the journal or syslog says a line is of: "python3[4312]". After a restart it is another
// one, and answers nothing that the first one told. Empty if the line does not say, or tells of another
// process' end.
std::string_view process_of(std::string_view line);

// Python's report of an exception, from its first line to the one that names the exception: what is told
// there ended what the program was doing, and no later line answers it.
class Traceback {
 public:
  // Looks at each line. True: it is the last one of a report, which names the exception.
  bool ends_with(std::string_view line);
  bool is_open() const { return lines_ > 0; }

 private:
  std::size_t begin_ = 0;  // of its words in the first line; the logger's stand before
  int lines_ = 0;
};

}  // namespace headroom::doctor
