// Samples out of what other tools printed, a line after the other: tegrastats, nvidia-smi, /proc/meminfo.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/sample.h"
#include "sources/unread.h"

namespace headroom::sources {

using OnSample = std::function<void(SystemSample& sample)>;

class TextReader {
 public:
  virtual ~TextReader() = default;
  // Takes a line without its end. Calls `on_sample` when a sample is whole; it is valid during the call. What
  // is not understood comes in the unknown_tokens of the sample among whose lines it stood. Memory is bounded
  // whatever the lines are: a sample of garbage alone is given out, too.
  virtual void read_line(std::string_view line, const OnSample& on_sample) = 0;
  // There are no more lines.
  virtual void finish(const OnSample& /*on_sample*/) {}
  // Of what was not understood so far: what tells most, and was first.
  const Unread& unread() const { return unread_; }

 protected:
  Unread unread_;
};

// "tegrastats", "nvidia-smi", "meminfo".
const std::vector<std::string>& text_reader_names();
// nullptr for another name. `columns` are of a CSV of nvidia-smi that has no header, as its query named them;
// a header takes their place.
std::unique_ptr<TextReader> make_text_reader(std::string_view name,
                                             const std::vector<std::string>& columns = {});

}  // namespace headroom::sources
