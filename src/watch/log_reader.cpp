#include "watch/log_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/file_limits.h"
#include "base/gzip.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "report/run/report_json.h"

namespace headroom::watch {
namespace {

constexpr std::int64_t kLongestLine = 16 << 20;
constexpr std::size_t kMostSamples = 16 << 20;  // half a year, one per second

// An unnamed file, which disappears when it is closed.
UniqueFd temporary_file() {
  std::error_code code;
  std::string name = (std::filesystem::temp_directory_path(code) / "headroom-XXXXXX").string();
  UniqueFd file(::mkostemp(name.data(), O_CLOEXEC));
  if (file) ::unlink(name.c_str());
  return file;
}

// Half of the file system's free space: other programs need some, too.
std::int64_t half_of_free_space(int file) {
  struct statvfs stats {};
  if (::fstatvfs(file, &stats) != 0) return 0;
  return static_cast<std::int64_t>(stats.f_bavail * stats.f_frsize / 2);
}

Result<OpenedLog> unpacked(int packed, const std::filesystem::path& path, Bytes most) {
  const std::string what = fmt::format("cannot unpack {}", path.string());
  OpenedLog plain{temporary_file()};
  if (!plain.file)
    return failure(what, errno_text(errno),
                   "set TMPDIR to a folder with free space, or unpack it with gunzip --keep");
  const std::int64_t limit = std::min(most.count, half_of_free_space(plain.file.get()));
  GzipReader reader(packed);
  std::vector<char> piece(256 << 10);
  for (;;) {
    const auto more = reader.read(piece.data(), piece.size());
    if (!more) return input_error(fmt::format("cannot read {}", path.string()), more.error().why);
    if (*more == 0) break;
    const auto size = static_cast<std::int64_t>(reader.plain_bytes());
    if (reader.is_bomb())
      return input_error(what, fmt::format("it unpacks to more than {} times its size", kMostGzipRatio),
                         "if that is right, unpack it with gunzip --keep and pass the unpacked file");
    if (size > most.count)
      return failure(what, fmt::format("it unpacks to more than {}", format_bytes(most)),
                     "unpack it with gunzip --keep and pass the unpacked file");
    if (size > limit)
      return failure(what,
                     fmt::format("it needs more than half of the free space in the temporary folder, "
                                 "which is {}",
                                 format_bytes({limit})),
                     "set TMPDIR to a folder with more free space, or unpack it with gunzip --keep");
    if (auto written = write_all(plain.file.get(), {piece.data(), *more}); !written)
      return failure(what, written.error().why, "set TMPDIR to a folder with free space");
  }
  plain.is_damaged = reader.state() == GzipReader::State::damaged;
  plain.is_cut = reader.state() == GzipReader::State::cut_off;
  if (::lseek(plain.file.get(), 0, SEEK_SET) != 0) return internal_error(what, errno_text(errno));
  return plain;
}

}  // namespace

Result<OpenedLog> open_log(const std::filesystem::path& path, const std::string& fix, Bytes most_unpacked) {
  // O_NONBLOCK: the caller waits for the writer of a FIFO.
  OpenedLog log{UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  if (!log.file) return input_error(fmt::format("cannot open {}", path.string()), errno_text(errno), fix);
  if (is_gzip(log.file.get())) return unpacked(log.file.get(), path, most_unpacked);
  return log;
}

Status ReplayLog::find_samples() {
  std::vector<char> buffer(256 << 10);
  Line line;
  const auto end_line = [&](std::int64_t end) {
    const std::int64_t size = end - line.begin;
    line.size = static_cast<std::uint32_t>(std::min(size, kLongestLine + 1));
    if (size > 1 && size <= kLongestLine) samples_.push_back(line);
    line.begin = end + 1;
    ++line.number;
  };
  struct stat facts {};
  const bool has_no_size = ::fstat(file_.get(), &facts) == 0 && facts.st_size == 0;
  std::int64_t offset = 0;
  for (;;) {
    const ssize_t got = ::pread(file_.get(), buffer.data(), buffer.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return input_error(fmt::format("cannot read {}", path_.string()), errno_text(errno));
    if (got == 0) break;
    for (ssize_t i = 0; i < got; ++i)
      if (buffer[static_cast<std::size_t>(i)] == '\n') end_line(offset + i);
    if (has_no_size && offset + got > kLargestWithoutSize.count)
      return input_error(fmt::format("cannot replay {}", path_.string()),
                         "it reports no size and does not end");
    if (samples_.size() > kMostSamples)
      return input_error(fmt::format("cannot replay {}", path_.string()),
                         fmt::format("it has more than {} lines", kMostSamples), "split it");
    offset += got;
  }
  end_line(offset);  // a line without its newline
  return {};
}

Result<ReplayLog> ReplayLog::open(const std::filesystem::path& path) {
  auto opened = open_log(path, kFixOwnLog);
  if (!opened) return forward_error(opened);
  struct stat facts {};
  if (::fstat(opened->file.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
    return input_error(fmt::format("cannot replay {}", path.string()), "it is not a regular file",
                       kFixOwnLog);
  ReplayLog log;
  log.path_ = path;
  log.file_ = std::move(opened->file);
  if (auto found = log.find_samples(); !found) return forward_error(found);
  // If headroom watch was killed while writing, the last line is incomplete.
  log.is_cut_ = log.size() > 1 && !log.read(log.size() - 1);
  if (log.is_cut_) log.samples_.pop_back();
  if (log.size() == 0)
    return input_error(fmt::format("no sample in {}", path.string()),
                       opened->is_damaged ? "it is damaged at the start" : "it is empty", kFixOwnLog);
  if (auto first = log.read(0); !first) return forward_error(first);
  if (opened->is_damaged)
    log::warning("{} is damaged after {} samples: the rest cannot be unpacked", path.string(), log.size());
  return log;
}

Result<SystemSample> ReplayLog::read(std::size_t index) const {
  const Line& line = samples_[index];
  const auto fail = [&](const std::string& why) {
    return input_error(fmt::format("invalid sample in line {} of {}", line.number, path_.string()), why,
                       kFixOwnLog);
  };
  std::string text(static_cast<std::size_t>(line.size), '\0');
  if (::pread(file_.get(), text.data(), text.size(), line.begin) != static_cast<ssize_t>(text.size()))
    return fail("the line can no longer be read");
  auto document = parse_json(text);
  if (!document) return fail(document.error().why.empty() ? document.error().what : document.error().why);
  if (!document->is_object() || !document->contains("time_ns")) return fail("it has no time_ns");
  auto sample = report::system_sample_from_json(*document);
  if (!sample) return fail(sample.error().why);
  return sample;
}

}  // namespace headroom::watch
