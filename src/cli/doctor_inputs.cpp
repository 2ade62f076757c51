#include "cli/doctor_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "analysis/recording_analysis.h"
#include "analysis/snapshot_analysis.h"
#include "base/files.h"
#include "cli/recording_report.h"
#include "doctor/machine_findings.h"
#include "doctor/recording_findings.h"
#include "doctor/run_findings.h"
#include "doctor/snapshot_findings.h"
#include "recording/recording.h"
#include "report/report_json.h"
#include "snapshot/snapshot_reader.h"
#include "sources/process_table.h"
#include "sources/system_sampler.h"
#include "tui/replay_log.h"
#include "watch/live_input.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

constexpr Bytes kLargestReport = mebibytes(256);

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  for (Finding& finding : more) {
    doctor::sort_cures(finding);
    findings.push_back(std::move(finding));
  }
}

std::string begin_of(const fs::path& file) {
  std::error_code code;
  if (!fs::is_regular_file(file, code)) return {};  // a FIFO can be read once
  std::string begin(4096, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(stream.gcount()));
  return begin;
}

// Whether these bytes are of no text: an executable, a model, a picture. Logs may hold colours, and runs of
// zeros where the power went; those count for nothing.
bool is_binary(const std::string& begin) {
  if (begin.starts_with("\x1f\x8b")) return false;  // gzip, which may hold a log
  const auto odd = std::count_if(begin.begin(), begin.end(), [](unsigned char byte) {
    return byte != 0 && (byte < 7 || (byte > 13 && byte < 27) || (byte > 27 && byte < 32));
  });
  return static_cast<std::size_t>(odd) * 50 > begin.size();
}

Status read_run(const fs::path& file, std::vector<Finding>& findings) {
  auto text = read_file(file, kLargestReport);
  if (!text) return forward_error(text);
  auto result = report::read_report(*text, file.string());
  if (!result) return forward_error(result);
  append(findings, doctor::run_findings(*result, file.string()));
  return {};
}

Status read_recording(const fs::path& file, std::vector<Finding>& findings) {
  auto recording = recording::Recording::open(file);
  if (!recording) return forward_error(recording);
  const auto analysis = analysis::analyze_recording(*recording, {});
  const auto grown = doctor::growth_by_layer(*recording, analysis);
  append(findings, doctor::recording_findings(analysis, grown, file.string()));
  return {};
}

Status read_snapshot(const fs::path& file, std::vector<Finding>& findings) {
  auto snapshot = snapshot::open_snapshot(file);
  if (!snapshot) return forward_error(snapshot);
  append(findings,
         doctor::snapshot_findings(*snapshot, analysis::analyze_snapshot(*snapshot, {}), file.string()));
  return {};
}

Status read_watch_log(const fs::path& file, std::vector<Finding>& findings) {
  auto log = tui::ReplayLog::open(file);
  if (!log) return forward_error(log);
  doctor::MachineHistory history;
  Status status;
  for (std::size_t i = 0; i < log->size(); ++i) {
    auto sample = log->read(i);
    if (!sample) {
      status = forward_error(sample);
      break;
    }
    history.add(*sample);
  }
  append(findings, doctor::machine_findings(history, file.string()));
  return status;
}

}  // namespace

Status read_doctor_input(const std::string& path, doctor::LogFindings& logs, std::vector<Finding>& findings) {
  if (path == "-") return logs.read_file(path);
  const fs::path file = path;
  std::error_code code;
  if (fs::is_directory(file, code)) {
    if (fs::exists(file / "report.json", code)) return read_run(file / "report.json", findings);
    return input_error(fmt::format("{} is a folder without a report.json", path),
                       "it is no run of headroom bench", "name its files");
  }
  const std::string begin = begin_of(file);
  if (file.extension() == ".hrec" || (!begin.empty() && is_recording(file)))
    return read_recording(file, findings);
  if (!begin.empty() && snapshot::is_snapshot_file(file)) return read_snapshot(file, findings);
  if (begin.starts_with('{')) {
    if (begin.find("\"run_name\"") != begin.npos && begin.find("\"schema_version\"") != begin.npos)
      return read_run(file, findings);
    if (begin.find("\"ram_total_bytes\"") != begin.npos) return read_watch_log(file, findings);
  }
  // A packed log of headroom watch; other packed lines of JSON are a log like any other.
  if (begin.starts_with("\x1f\x8b") && path.ends_with(".jsonl.gz") && tui::ReplayLog::open(file))
    return read_watch_log(file, findings);
  if (begin.starts_with("time_seconds,unix_time_seconds,"))
    return input_error(fmt::format("cannot read {}", path),
                       "it is a table of headroom watch, which has not all that is needed",
                       "log with --output FILE.jsonl, and give that");
  if (is_binary(begin))
    return input_error(fmt::format("cannot read {}", path),
                       "it is no text, and no file that Headroom writes or PyTorch",
                       "name logs, recordings, snapshots or runs");
  return logs.read_file(path);
}

Status examine_machine(const fs::path& root, std::vector<Finding>& findings) {
  if (auto sound = watch::expect_machine(root); !sound) return forward_error(sound);
  constexpr int kSamples = 5;
  constexpr std::chrono::milliseconds kBetween{250};
  constexpr std::size_t kProcesses = 300;
  sources::SystemSampler sampler(root);
  sources::ProcessTable processes(root);
  doctor::MachineHistory history;
  for (int i = 0; i < kSamples; ++i) {
    if (i > 0) std::this_thread::sleep_for(kBetween);
    SystemSample sample = sampler.sample();
    sources::ProcessChoice choice;
    choice.largest = kProcesses;
    if (i + 1 == kSamples) processes.read(sample, choice);
    history.add(sample);
  }
  append(findings, doctor::machine_findings(history, root == "/" ? "this machine" : root.string()));
  return {};
}

}  // namespace headroom::cli
