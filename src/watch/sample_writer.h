// Formats samples as text: JSON lines, CSV, or a readable line.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "types/alert.h"
#include "types/sample.h"

namespace headroom::watch {

// Appends one JSON object as a line, with the alerts that began or ended. unknown_tokens is always present:
// an empty list is a result, too.
void append_json_line(std::string& text, const SystemSample& sample, std::span<const AlertEvent> alerts = {});
std::string json_line(const SystemSample& sample, std::span<const AlertEvent> alerts = {});

// CSV rows after a header. The columns are the figures of the first sample. A figure that first appears
// later has no column; this is reported once.
class CsvRows {
 public:
  void append(std::string& text, const SystemSample& sample);

 private:
  std::vector<std::string> columns_, cells_;
  bool has_warned_ = false;
};

// The sample's main figures as one line, with a newline:
// "   12.0 s  RAM 6.80 GiB of 7.40 GiB (92 %)  swap 2.60 GiB  CPU 94 %  GPU 84 %  tj 66 °C".
std::string line_for_person(const SystemSample& sample);

}  // namespace headroom::watch
