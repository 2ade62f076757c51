// Logs with any content are read to the end, and the findings go through every view. Reading by file and
// reading line by line give the same result.
#include <unistd.h>

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "doctor/log/log_findings.h"
#include "doctor/log/log_reader.h"
#include "fuzz.h"
#include "report/finding/finding_views.h"

void fuzz(std::string_view text) {
  using namespace headroom;
  doctor::LogFindings logs;
  std::int64_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    logs.read_line("log", ++number, text.substr(at, end - at));
    at = end + 1;
  }
  const report::DoctorReport report{{"log"}, {}, logs.findings()};
  if (!parse_json(to_text(findings_to_json(report)))) std::abort();
  if (findings_to_terminal(report, false).find('\x1b') != std::string::npos) std::abort();
  (void)findings_to_markdown(report);

  UniqueFd file(::memfd_create("log", MFD_CLOEXEC));
  if (!file || !write_all(file.get(), text)) return;
  ::lseek(file.get(), 0, SEEK_SET);
  const doctor::AnchorSearch anchors({"ut of memory", "Killed process "});
  std::int64_t last = 0;
  (void)doctor::read_log(std::move(file), "log", anchors, [&](std::int64_t line, std::string_view content) {
    if (line < last || content.size() > doctor::kLongestLogLine) std::abort();
    last = line;
    return !content.empty() && content.front() == 'p';
  });
}
