#include "trace/growing_recordings.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <string>

#include "base/files.h"
#include "base/text.h"
#include "recording/format.h"

namespace headroom::trace {
namespace fs = std::filesystem;
namespace {

// When a process started, in clock ticks since boot: field 22 of its stat file. Counting begins after the
// name, which may contain anything.
std::optional<std::uint64_t> start_of(const fs::path& process) {
  const auto stat = read_small_file(process / "stat");
  if (!stat) return std::nullopt;
  const auto words =
      split_words(std::string_view(*stat).substr(std::min(stat->rfind(')'), stat->size() - 1) + 1));
  return words.size() > 19 ? parse_number<std::uint64_t>(words[19]) : std::nullopt;
}

// The process's PID in its own namespace: in a container it differs from the PID here.
std::optional<std::int32_t> own_pid_of(const fs::path& process) {
  constexpr std::string_view kKey = "\nNSpid:";
  const auto status = read_small_file(process / "status");
  const std::size_t at = status ? status->find(kKey) : std::string::npos;
  if (at == std::string::npos) return parse_number<std::int32_t>(process.filename().string());
  const std::size_t begin = at + kKey.size();
  const auto ids = split_words(std::string_view(*status).substr(begin, status->find('\n', begin) - begin));
  return ids.empty() ? std::nullopt : parse_number<std::int32_t>(ids.back());
}

// A file as a line of /proc/PID/maps names it. Its path may differ there (a link, a container's root), and
// some file systems report another device in stat().
struct MappedFile {
  std::string device_and_inode, path;
  bool is_same(const MappedFile& other) const {
    return device_and_inode == other.device_and_inode || path == other.path;
  }
};

MappedFile mapped_file(const fs::path& path) {
  MappedFile file;
  std::error_code code;
  file.path = fs::canonical(path, code).string();
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0)
    file.device_and_inode =
        fmt::format("{:02x}:{:02x} {}", major(info.st_dev), minor(info.st_dev), info.st_ino);
  return file;
}

// The tracer maps a recording shared and writable. Readers map it without 'w', or private.
std::vector<MappedFile> files_written_by(std::string_view maps) {
  std::vector<MappedFile> files;
  for (const std::string_view line : split(maps, '\n')) {
    const auto words = split_words(line);  // address, permissions, offset, device, inode, path
    constexpr std::size_t kPath = 5;
    if (words.size() <= kPath || words[1].size() < 4 || words[1][1] != 'w' || words[1][3] != 's') continue;
    const auto path_at = static_cast<std::size_t>(words[kPath].data() - line.data());
    files.push_back({fmt::format("{} {}", words[3], words[4]), std::string(line.substr(path_at))});
  }
  return files;
}

// A process with the same PID may have started after the recording's process had ended, so later than the
// recording. The process's start includes the time that the machine slept; the recording's does not.
bool can_have_begun(const fs::path& process, const recording::FileHeader& header) {
  const auto start = start_of(process);
  const auto pid = own_pid_of(process);
  if (!start || !pid || *pid != header.pid) return false;
  const auto now = [](clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double asleep = now(CLOCK_BOOTTIME) - now(CLOCK_MONOTONIC);
  const double began = static_cast<double>(header.first_monotonic_ns) * 1e-9 + asleep;
  const auto ticks_a_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return static_cast<double>(*start) <= began * ticks_a_second + 1;
}

}  // namespace

std::size_t mark_growing(const fs::path& root, std::vector<RecordingFile>& recordings, const fs::path& proc) {
  const std::uint64_t since = start_of(proc / "self").value_or(0);
  const std::string tree_variable = "HEADROOM_TRACE_FILE=" + root.string() + '\0';
  std::vector<MappedFile> files;
  for (const RecordingFile& recording : recordings) files.push_back(mapped_file(recording.path));
  std::size_t running = 0;
  std::error_code code;
  for (fs::directory_iterator entry(proc, code), end; !code && entry != end; entry.increment(code)) {
    const fs::path& process = entry->path();
    const auto pid = parse_number<pid_t>(process.filename().string());
    if (!pid || *pid == ::getpid() || start_of(process).value_or(0) < since) continue;
    const auto environment = read_small_file(process / "environ");
    const auto maps = read_small_file(process / "maps");
    const auto written = maps ? files_written_by(*maps) : std::vector<MappedFile>();
    bool in_tree = environment && environment->find(tree_variable) != std::string::npos;
    for (std::size_t i = 0; i < recordings.size(); ++i) {
      bool writes = false;
      if (maps) {
        writes = std::any_of(written.begin(), written.end(),
                             [&](const MappedFile& file) { return file.is_same(files[i]); });
      } else if (const auto header = read_header(recordings[i].path)) {
        writes = can_have_begun(process, *header);
      }
      recordings[i].growing = recordings[i].growing || writes;
      in_tree = in_tree || writes;
    }
    running += in_tree ? 1 : 0;
  }
  return running;
}

}  // namespace headroom::trace
