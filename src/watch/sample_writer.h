// Samples as text: JSON lines, CSV, or a line for a person.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/alert.h"
#include "model/sample.h"

namespace headroom::watch {

// An object on a line, with the alerts that began or ended. unknown_tokens is always there: that there are
// none is a result.
void append_json_line(std::string& text, const SystemSample& sample, std::span<const AlertEvent> alerts = {});
std::string json_line(const SystemSample& sample, std::span<const AlertEvent> alerts = {});

// Rows of CSV behind a header. The columns are the figures of the first sample; a figure that comes later has
// none, which is said once.
class CsvRows {
 public:
  void append(std::string& text, const SystemSample& sample);

 private:
  std::vector<std::string> columns_, cells_;
  bool told_ = false;
};

// "12.0 s  RAM 6.8/7.4 GiB (92 %)  swap 2.6 GiB  CPU 94 %  GPU 84 %  65.6 °C  17.9 W": what the sample has.
std::string line_for_person(const SystemSample& sample);

}  // namespace headroom::watch
