// A buffer of a mebibyte is filled and searched up to its last line end; the rest is moved to its front. Line
// ends are counted by memchr, between one hit and the next.
#include "doctor/log/log_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace headroom::doctor {
namespace {

constexpr std::size_t kBuffer = 1 << 20;

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
  (void)fd.release();  // closed with it
  gzbuffer(file.get(), 256 << 10);
  std::vector<char> buffer(kBuffer);
  LineSearch lines(anchors, on_line);
  std::size_t kept = 0;
  for (;;) {
    const int got = gzread(file.get(), buffer.data() + kept, static_cast<unsigned>(kBuffer - kept));
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
    const std::size_t filled = kept + static_cast<std::size_t>(got);
    const std::size_t last = std::string_view(buffer.data(), filled).rfind('\n');
    std::size_t searched = last + 1;  // 0 if there is no line end
    if (searched == 0 && filled == kBuffer) searched = filled;
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
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    const int code = errno;
    const bool is_refused = code == EACCES || code == EPERM;
    return input_error(fmt::format("cannot open {}", path), errno_text(code),
                       is_refused ? "check its permissions" : "check the path");
  }
  if (S_ISDIR(info.st_mode))
    return input_error(fmt::format("cannot read {}", path), "it is a folder", "pass its files by name");
  return read_log(std::move(fd), path, anchors, on_line);
}

}  // namespace headroom::doctor
