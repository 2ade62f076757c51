// A buffer of a mebibyte is filled and searched up to its last line end; the rest is moved to its front. Line
// ends are counted by memchr, between one hit and the next.
#include "doctor/log/log_reader.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/file_limits.h"
#include "base/gzip.h"
#include "base/text.h"
#include "base/text_decoder.h"

namespace headroom::doctor {
namespace {

constexpr std::size_t kBuffer = 1 << 20;
// A message that repeats packs as well as zeros do. Half a gigabyte takes about a second.
constexpr std::uint64_t kAlwaysUnpacked = 512 << 20;
// Files of /proc report no size. Some never end: /proc/PID/pagemap.

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

class LineSearch {
 public:
  LineSearch(const AnchorSearch& anchors, const OnLogLine& on_line) : anchors_(anchors), on_line_(on_line) {}

  // Searches whole lines, or a piece of a line that is longer than the buffer.
  void search(std::string_view text) {
    std::size_t at = 0;  // where the search continues
    counted_ = 0;
    while (at < text.size()) {
      std::size_t begin = at, word = at;
      if (!wants_next_) {
        word = anchors_.find(text, at);
        if (word == text.npos) break;
        const std::size_t newline = text.substr(at, word - at).rfind('\n');
        if (newline != text.npos) begin = at + newline + 1;
      }
      at = hand_on(text, begin, word);
    }
    count_lines(text, text.size());
  }

  // Of whole lines.
  std::int64_t count() const { return line_ - 1; }

 private:
  // Passes on the line that begins here, or the part of a long line around the word. Returns the begin of the
  // next line, or of the rest.
  std::size_t hand_on(std::string_view text, std::size_t begin, std::size_t word) {
    std::size_t length = text.substr(begin, kLongestLogLine + 1).find('\n');
    if (length == text.npos && text.size() - begin > kLongestLogLine) {
      if (word > begin + kLongestLogLine / 2) begin = word - kLongestLogLine / 2;
      length = text.substr(begin, kLongestLogLine).find('\n');
    }
    std::string_view line = text.substr(begin, std::min(length, kLongestLogLine));
    const std::size_t next = begin + line.size() + (length == text.npos ? 0 : 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    count_lines(text, begin);
    wants_next_ = on_line_(line_, line);
    return next;
  }
  void count_lines(std::string_view text, std::size_t up_to) {
    const char* at = text.data() + counted_;
    const char* const end = text.data() + up_to;
    while (at < end) {
      const void* newline = std::memchr(at, '\n', static_cast<std::size_t>(end - at));
      if (!newline) break;
      ++line_;
      at = static_cast<const char*>(newline) + 1;
    }
    counted_ = std::max(counted_, up_to);
  }

  const AnchorSearch& anchors_;
  const OnLogLine& on_line_;
  std::int64_t line_ = 1;
  std::size_t counted_ = 0;
  bool wants_next_ = false;
};

}  // namespace

Result<std::int64_t> read_log(UniqueFd fd, const std::string& name, const AnchorSearch& anchors,
                              const OnLogLine& on_line) {
  const std::unique_ptr<gzFile_s, CloseGzip> file(gzdopen(fd.get(), "rb"));
  if (!file) return internal_error(fmt::format("cannot read {}", name), "no memory left for zlib");
  const int fd_number = fd.release();  // closed with it
  gzbuffer(file.get(), 256 << 10);
  std::vector<char> buffer(kBuffer);
  LineSearch lines(anchors, on_line);
  TextDecoder decoder;
  std::size_t kept = 0;
  std::uint64_t plain = 0;
  struct stat info {};
  const bool has_no_size = ::fstat(fd_number, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0;
  for (;;) {
    const std::size_t most = decoder.most(kBuffer - kept);
    const int got = gzread(file.get(), buffer.data() + kept, static_cast<unsigned>(most));
    int code = Z_OK;
    if (got <= 0) {
      if (kept > 0) lines.search({buffer.data(), kept});
      std::string why = gzerror(file.get(), &code);
      if (why.starts_with("<fd:")) why = why.substr(std::min(why.find(": ") + 2, why.size()));
      if (got == 0 && code == Z_OK) return lines.count() + (kept > 0 ? 1 : 0);
      if (code == Z_ERRNO) return input_error(fmt::format("cannot read {}", name), why);
      return input_error(fmt::format("cannot read all of {}", name),
                         "its gzip stream is damaged or truncated", "copy the file again");
    }
    plain += static_cast<std::uint64_t>(got);
    if (has_no_size && plain > static_cast<std::uint64_t>(kLargestWithoutSize.count))
      return input_error(fmt::format("cannot read all of {}", name), "it reports no size and does not end");
    const z_off_t packed = gzoffset(file.get());  // -1 for a pipe
    if (gzdirect(file.get()) == 0 && packed >= 0 &&
        is_bomb(static_cast<std::uint64_t>(packed), plain, kAlwaysUnpacked))
      return input_error(fmt::format("cannot read all of {}", name),
                         fmt::format("it unpacks to more than {} times its size", kMostGzipRatio),
                         fmt::format("if that is right: zcat {} | headroom doctor -", shell_word(name)));
    const std::size_t filled = kept + decoder.decode(buffer.data() + kept, static_cast<std::size_t>(got));
    const std::size_t last = std::string_view(buffer.data(), filled).rfind('\n');
    std::size_t searched = last + 1;  // 0 if there is no line end
    if (searched == 0 && decoder.most(kBuffer - filled) == 0) searched = filled;
    if (searched > 0) lines.search({buffer.data(), searched});
    kept = filled - searched;
    std::memmove(buffer.data(), buffer.data() + searched, kept);
  }
}

Result<std::int64_t> read_log_file(const std::string& path, const AnchorSearch& anchors,
                                   const OnLogLine& on_line) {
  struct stat info {};
  if (path == "-") {
    if (::fstat(STDIN_FILENO, &info) == 0 && S_ISDIR(info.st_mode))
      return input_error("cannot read standard input", "it is a folder",
                         "pass the folder by name: headroom doctor FOLDER");
    return read_log(UniqueFd(::dup(STDIN_FILENO)), "standard input", anchors, on_line);
  }
  auto fd = open_file_or_pipe(path);
  if (!fd) return forward_error(fd);
  return read_log(std::move(*fd), path, anchors, on_line);
}

}  // namespace headroom::doctor
