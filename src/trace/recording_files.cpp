#include "trace/recording_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/files.h"
#include "base/text.h"
#include "recording/recording.h"

namespace headroom::trace {
namespace fs = std::filesystem;
namespace {

using recording::SegmentHeader;

constexpr std::uint64_t kPage = 4096;

// Reads a struct from the file; null if the file ends before it does.
template <class Struct>
std::unique_ptr<Struct> read_struct(int fd, std::uint64_t offset) {
  auto content = std::make_unique<Struct>();
  const ssize_t got =
      ::pread(fd, static_cast<void*>(content.get()), sizeof(Struct), static_cast<off_t>(offset));
  if (got != static_cast<ssize_t>(sizeof(Struct))) return nullptr;
  return content;
}

void make_hole(int fd, std::uint64_t begin, std::uint64_t end) {
  begin = (begin + kPage - 1) / kPage * kPage;
  if (begin < end)
    ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                static_cast<off_t>(end - begin));
}

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

// A process that is killed before it writes the header leaves an empty file.
bool is_recording_or_empty(const fs::path& path) {
  std::error_code code;
  return recording::is_recording(path) || (fs::is_regular_file(path, code) && fs::file_size(path, code) == 0);
}

// Whether an earlier trace created this file: recordings of other processes, their index, and runtime
// profiles (onnxruntime-PID-N_DATE.json). Only such files are removed.
bool is_trace_file(const fs::path& path) {
  const std::string name = path.filename();
  return name.starts_with("index.json") || (name.starts_with("onnxruntime-") && name.ends_with(".json")) ||
         (name.ends_with(".hrec") && is_recording_or_empty(path));
}

Status remove_earlier(const fs::path& file) {
  std::error_code code;
  const std::string what = fmt::format("cannot replace {}", file.string());
  if (fs::exists(file, code) && !is_recording_or_empty(file))
    return usage_error(what, "it is not a recording", "choose another file with --out");
  fs::remove(file, code);
  if (code) return usage_error(what, code.message(), "choose another file with --out");
  const fs::path folder = tree_folder(file);
  for (const auto& entry : fs::directory_iterator(folder, code))
    if (is_trace_file(entry.path())) {
      std::error_code ignored;
      fs::remove(entry.path(), ignored);
    }
  fs::remove(folder, code);  // fails, as it should, if other files are in it
  return {};
}

// Creates and removes the file as a test: the preload library will create it anew, and cannot report an
// error.
Status check_writable(const fs::path& file) {
  constexpr off_t kFirstBytes = 256 << 10;  // header, first names, and the first records of one thread
  const UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  int problem = errno;
  if (fd) {
    ::unlink(file.c_str());  // first, because --force replaces an empty file, but not one of zeros
    problem = ::posix_fallocate(fd.get(), 0, kFirstBytes);
  }
  if (problem != 0)
    return usage_error(fmt::format("cannot write {}", file.string()), errno_text(problem),
                       problem == ENOSPC ? "free space on its disk, or choose another folder with --out"
                                         : "choose a writable folder with --out");
  return {};
}

Json entry_of(const RecordingFile& file, const fs::path& folder) {
  Json entry{{"file", file.path.lexically_relative(folder).string()}};
  const auto recording = recording::Recording::open(file.path);
  if (!recording) {
    entry["error"] = recording.error().sentence();
    return entry;
  }
  const recording::RecordingInfo& info = recording->info();
  entry["pid"] = info.pid;
  entry["parent_pid"] = info.parent_pid;
  entry["generation"] = info.exec_generation;
  entry["command"] = info.command;
  entry["start_unix_ns"] = info.started_realtime_ns;
  entry["duration_seconds"] = info.duration.seconds();
  entry["host_recorded"] = info.host_recorded;
  entry["segments"] = info.segments;
  entry["file_bytes"] = info.file_bytes;
  entry["disk_bytes"] = disk_bytes_of(file.path);
  entry["closed"] = info.closed;
  entry["growing"] = file.growing;
  return entry;
}

}  // namespace

std::unique_ptr<recording::FileHeader> read_header(const fs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  auto header = fd ? read_struct<recording::FileHeader>(fd.get(), 0) : nullptr;
  if (header != nullptr && std::memcmp(header->magic, recording::kMagic, sizeof recording::kMagic) != 0)
    return nullptr;
  return header;
}

std::vector<RecordingFile> find_recordings(const fs::path& root) {
  std::vector<RecordingFile> others;
  std::error_code code;
  for (fs::directory_iterator entry(tree_folder(root), code), end; !code && entry != end;
       entry.increment(code))
    if (entry->path().extension() == ".hrec") others.push_back({entry->path()});
  std::sort(others.begin(), others.end(), [](const RecordingFile& a, const RecordingFile& b) {
    return natural_less(a.path.filename().string(), b.path.filename().string());
  });
  if (fs::exists(root, code)) others.insert(others.begin(), {root});
  return others;
}

std::uint64_t disk_bytes_of(const fs::path& recording) {
  constexpr std::uint64_t kBlock = 512;
  struct stat info {};
  return ::stat(recording.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * kBlock : 0;
}

void compact_recording(const fs::path& recording) {
  const auto header = read_header(recording);
  const UniqueFd fd(::open(recording.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info {};
  if (!fd || header == nullptr || header->version != recording::kVersion || ::fstat(fd.get(), &info) != 0)
    return;
  const std::uint64_t segment_bytes = header->segment_bytes;
  const std::uint64_t begin = std::uint64_t{header->header_bytes} + header->metadata_bytes;
  const std::uint64_t slots = std::min<std::uint64_t>(header->segments_claimed, header->segments_limit);
  if (segment_bytes < kPage || slots > static_cast<std::uint64_t>(info.st_size) / kPage) return;

  make_hole(fd.get(),
            header->header_bytes + std::min<std::uint64_t>(header->metadata_used, header->metadata_bytes),
            begin);
  std::uint64_t end = begin;
  for (std::uint64_t slot = 0; slot < slots; ++slot) {
    const std::uint64_t at = begin + slot * segment_bytes;
    const auto segment = read_struct<SegmentHeader>(fd.get(), at);
    if (segment == nullptr) break;  // claimed, but the process ended before the file reached it
    const std::uint64_t used = sizeof(SegmentHeader) + segment->committed;
    if (segment->magic != recording::kSegmentMagic || used > segment_bytes) {
      end = at + segment_bytes;  // damaged: keep its bytes for inspection
      continue;
    }
    end = at + used;
    if (slot + 1 < slots) make_hole(fd.get(), end, at + segment_bytes);
  }
  if (end >= static_cast<std::uint64_t>(info.st_size)) return;
  // Write the new size before truncating: a crash in between leaves a file that is longer than its header
  // states.
  if (::pwrite(fd.get(), &end, sizeof end, offsetof(recording::FileHeader, file_bytes)) == sizeof end)
    ::ftruncate(fd.get(), static_cast<off_t>(end));
}

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

fs::path tree_folder(const fs::path& recording) { return recording.string() + ".d"; }

Result<fs::path> prepare_output(const fs::path& wanted, const std::string& program, bool replace) {
  fs::path file = wanted;
  if (file.empty()) {
    auto folder = create_run_folder("outputs");
    if (!folder) {
      folder.error().fix = "choose a writable folder with --out";
      return forward_error(folder);
    }
    file = folder->path / (file_name_of(fs::path(program).filename().string()) + ".hrec");
  }
  std::error_code code;
  file = fs::absolute(file, code);
  if (fs::is_directory(file, code) || file.filename().empty())
    return usage_error(fmt::format("cannot write {}", wanted.string()), "it is a folder",
                       "give --out a file name, for example app.hrec");
  if (fs::exists(file, code) || fs::exists(tree_folder(file), code)) {
    if (!replace)
      return usage_error(fmt::format("{} already exists", file.string()), "",
                         "choose another name with --out, or replace it with --force");
    if (auto removed = remove_earlier(file); !removed) return forward_error(removed);
  }
  if (auto made = make_folder(file.parent_path()); !made) {
    made.error().kind = ErrorKind::usage;
    made.error().fix = "choose a writable folder with --out";
    return forward_error(made);
  }
  if (auto writable = check_writable(file); !writable) return forward_error(writable);
  return file;
}

Status write_tree_index(const fs::path& root, const std::vector<RecordingFile>& recordings) {
  std::error_code code;
  if (!fs::is_directory(tree_folder(root), code)) return {};
  const auto entry = [&](const RecordingFile& file) { return entry_of(file, tree_folder(root)); };
  const Json index{{"schema_version", 1}, {"recordings", json_list(recordings, entry)}};
  return write_file_atomically(tree_folder(root) / "index.json", to_text(index));
}

}  // namespace headroom::trace
