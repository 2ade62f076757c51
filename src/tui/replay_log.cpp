#include "tui/replay_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "report/metrics_json.h"

namespace headroom::tui {
namespace {

constexpr std::int64_t kLongestLine = 16 << 20;

bool is_gzip(int file) {
  char begin[2];
  return ::pread(file, begin, sizeof begin, 0) == 2 && begin[0] == '\x1f' && begin[1] == '\x8b';
}

// A file without a name, which goes when it is closed.
UniqueFd temporary_file() {
  std::error_code code;
  const auto folder = std::filesystem::temp_directory_path(code);
  UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  std::string name = (folder / "headroom-XXXXXX").string();  // of a file system that has no such files
  file.reset(::mkostemp(name.data(), O_CLOEXEC));
  if (file) ::unlink(name.c_str());
  return file;
}

struct Unpacked {
  UniqueFd file;
  bool is_damaged = false;  // more follows what could be unpacked
};

// Lines are read at their places, so all of it is unpacked: gzip members behind each other, as headroom watch
// writes them. What a killed watch did not write to the end is left out. What comes before damage is kept, to
// the byte, for which gzread is no good: it drops what it has unpacked when it finds an error.
Result<Unpacked> unpacked(int packed, const std::filesystem::path& path) {
  Unpacked plain{temporary_file()};
  if (!plain.file)
    return failure(fmt::format("cannot unpack {}", path.string()), errno_text(errno),
                   "set TMPDIR to a folder with room, or unpack it with gunzip --keep");
  z_stream stream{};
  if (::inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
    return internal_error(fmt::format("cannot unpack {}", path.string()), "out of memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end_of_stream(&stream, ::inflateEnd);
  std::vector<unsigned char> input(256 << 10), output(256 << 10);
  for (std::int64_t offset = 0; !plain.is_damaged;) {
    const ssize_t got = ::pread(packed, input.data(), input.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return input_error(fmt::format("cannot read {}", path.string()), errno_text(errno));
    if (got == 0) break;
    offset += got;
    stream.next_in = input.data();
    stream.avail_in = static_cast<unsigned>(got);
    do {
      stream.next_out = output.data();
      stream.avail_out = static_cast<unsigned>(output.size());
      const int result = ::inflate(&stream, Z_NO_FLUSH);
      const std::size_t size = output.size() - stream.avail_out;
      if (auto written = write_all(plain.file.get(), {reinterpret_cast<const char*>(output.data()), size});
          !written)
        return failure(fmt::format("cannot unpack {}", path.string()), written.error().why,
                       "set TMPDIR to a folder with room");
      if (result == Z_STREAM_END) ::inflateReset(&stream);
      // Z_BUF_ERROR: it wants more than is here.
      plain.is_damaged = result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR;
    } while (!plain.is_damaged && (stream.avail_in > 0 || stream.avail_out == 0));
  }
  return plain;
}

}  // namespace

Result<ReplayLog> ReplayLog::open(const std::filesystem::path& path) {
  const char* const fix = "give a log of headroom watch --jsonl";
  ReplayLog log;
  log.path_ = path;
  log.file_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!log.file_) return input_error(fmt::format("cannot open {}", path.string()), errno_text(errno), fix);
  struct stat facts {};
  if (::fstat(log.file_.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
    return input_error(fmt::format("cannot replay {}", path.string()), "it is no regular file", fix);
  bool is_damaged = false;
  if (is_gzip(log.file_.get())) {
    auto plain = unpacked(log.file_.get(), path);
    if (!plain) return forward_error(plain);
    log.file_ = std::move(plain->file);
    is_damaged = plain->is_damaged;
  }
  std::vector<char> buffer(256 << 10);
  std::int64_t offset = 0, number = 1;
  Line line;
  line.number = number;
  const auto end_line = [&](std::int64_t end) {
    const std::int64_t size = end - line.begin;
    if (size > 1 && size <= kLongestLine) {
      line.size = static_cast<std::int32_t>(size);
      log.lines_.push_back(line);
    }
    line.begin = end + 1;
    line.number = ++number;
  };
  for (;;) {
    const ssize_t got = ::pread(log.file_.get(), buffer.data(), buffer.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return input_error(fmt::format("cannot read {}", path.string()), errno_text(errno));
    if (got == 0) break;
    for (ssize_t i = 0; i < got; ++i) {
      const auto* const found =
          static_cast<const char*>(std::memchr(buffer.data() + i, '\n', static_cast<std::size_t>(got - i)));
      if (found == nullptr) break;
      i = found - buffer.data();
      end_line(offset + i);
    }
    offset += got;
  }
  end_line(offset);  // a line without its newline
  // Of a watch that was killed while it wrote.
  if (log.size() > 1 && !log.read(log.size() - 1)) log.lines_.pop_back();
  if (log.size() == 0)
    return input_error(fmt::format("{} has no sample", path.string()),
                       is_damaged ? "it is damaged at its begin" : "it is empty", fix);
  if (auto first = log.read(0); !first) return forward_error(first);
  if (is_damaged)
    log::warning("{} is damaged after {} samples: what follows cannot be unpacked", path.string(),
                 log.size());
  return log;
}

Result<SystemSample> ReplayLog::read(std::size_t index) const {
  const Line& line = lines_[index];
  const auto fail = [&](const std::string& why) {
    return input_error(fmt::format("line {} of {} is no sample", line.number, path_.string()), why,
                       "give a log of headroom watch --jsonl");
  };
  std::string text(static_cast<std::size_t>(line.size), '\0');
  if (::pread(file_.get(), text.data(), text.size(), line.begin) != static_cast<ssize_t>(text.size()))
    return fail("it cannot be read any more");
  auto document = parse_json(text);
  if (!document) return fail(document.error().why.empty() ? document.error().what : document.error().why);
  if (!document->is_object() || !document->contains("time_ns")) return fail("it has no time_ns");
  auto sample = report::system_sample_from_json(*document);
  if (!sample) return fail(sample.error().why);
  return sample;
}

}  // namespace headroom::tui
