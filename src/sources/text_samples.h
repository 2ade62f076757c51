// Converts the output of other tools into samples, line by line: tegrastats, nvidia-smi, /proc/meminfo.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sources/nvidia_smi_reader.h"
#include "types/sample.h"

namespace headroom::sources {

using OnSample = std::function<void(SystemSample& sample)>;

class TextReader {
 public:
  virtual ~TextReader() = default;
  // Reads a line without its newline. Calls `on_sample` for each complete sample, which is valid during the
  // call. Unknown text goes into unknown_tokens of the sample that contains the line. Memory is bounded for
  // any input: a sample of only unknown text is passed on, too.
  virtual void read_line(std::string_view line, const OnSample& on_sample) = 0;
  // Call it at the end of the text. Passes on the last, unfinished sample.
  virtual void finish(const OnSample& /*on_sample*/) {}
  // Why text could not be parsed so far: the first, most helpful reason.
  const ParseProblem& problem() const { return problem_; }

 protected:
  ParseProblem problem_;
};

// "tegrastats", "nvidia-smi", "meminfo".
const std::vector<std::string>& text_reader_names();
// Returns nullptr for another name. `columns` are the query's column names for an nvidia-smi CSV without a
// header; a header in the text replaces them.
std::unique_ptr<TextReader> make_text_reader(std::string_view name,
                                             const std::vector<std::string>& columns = {});

}  // namespace headroom::sources
