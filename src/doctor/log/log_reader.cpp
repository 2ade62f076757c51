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
// Between two pieces of a long line, so that an anchor on their border is found.
constexpr std::size_t kOverlap = 256;

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

class LineSearch {
 public:
  LineSearch(const AnchorSearch& anchors, const OnLogLine& on_line) : anchors_(anchors), on_line_(on_line) {}

  // Searches whole lines, or a piece of a long line whose first `known` bytes were in the piece before.
  void search(std::string_view text, std::size_t known = 0) {
    counted_ = rest_ = 0;
    line_begin_ = line_end_ = 0;
    std::size_t from = 0;
    if (wants_next_) from = hand_on(text, 0);
    while (from < text.size()) {
      const std::size_t at = from < known ? find_new(text, from, known) : anchors_.find(text, from);
      if (at == text.npos) break;
      if (const std::size_t newline = text.substr(from, at - from).rfind('\n'); newline != text.npos)
        line_begin_ = from + newline + 1;
      from = hand_on(text, std::max(line_begin_, rest_), at);
    }
    count_lines(text, text.size());
  }

  // Of whole lines.
  std::int64_t count() const { return line_ - 1; }

 private:
  // The first anchor behind `from` that does not lie within the first `known` bytes.
  std::size_t find_new(std::string_view text, std::size_t from, std::size_t known) const {
    std::size_t found = text.npos;
    anchors_.visit(text, from, [&](std::size_t begin, std::size_t number) {
      if (begin + anchors_.words()[number].size() <= known) return true;
      found = begin;
      return false;
    });
    return found;
  }
  // Passes on the line that begins here, or its rest, and the following lines as long as they are needed.
  // Returns where to continue: at the next line, or at the next anchor of a long line behind the part that
  // was passed on.
  std::size_t hand_on(std::string_view text, std::size_t begin, std::size_t word = 0) {
    do {
      count_lines(text, begin);
      if (line_end_ <= begin) line_end_ = std::min(text.find('\n', begin), text.size());
      const std::size_t end = line_end_;
      const std::string_view line = text.substr(begin, end - begin);
      const std::string_view part = around(line, word > begin ? word - begin : 0);
      wants_next_ = on_line_(line_, part);
      if (line.size() > kLongestLogLine) {
        const auto behind = static_cast<std::size_t>(part.data() + part.size() - text.data());
        rest_ = behind - std::min(behind, kOverlap);
        if (const std::size_t next = find_new(text.substr(0, end), rest_, behind); next != text.npos)
          return next;
      }
      word = 0;
      begin = line_begin_ = end + 1;
    } while (wants_next_ && begin < text.size());
    return begin;
  }
  static std::string_view around(std::string_view line, std::size_t word) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.size() <= kLongestLogLine) return line;
    const std::size_t begin = word > kLongestLogLine / 2 ? word - kLongestLogLine / 2 : 0;
    return line.substr(std::min(begin, line.size()), kLongestLogLine);
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
  // The line in which the search continues. Searching for its begin and end from each anchor of a long line
  // took 11 times as long.
  std::size_t line_begin_ = 0, line_end_ = 0;
  std::size_t rest_ = 0;  // of a long line, where what was not handed out begins
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
  std::size_t kept = 0, known = 0;
  for (;;) {
    const int got = gzread(file.get(), buffer.data() + kept, static_cast<unsigned>(kBuffer - kept));
    int code = Z_OK;
    if (got <= 0) {
      if (kept > 0) lines.search({buffer.data(), kept}, known);
      std::string why = gzerror(file.get(), &code);
      if (why.starts_with("<fd:")) why = why.substr(std::min(why.find(": ") + 2, why.size()));
      if (got == 0 && code == Z_OK) return lines.count() + (kept > 0 ? 1 : 0);
      if (code == Z_ERRNO) return input_error(fmt::format("cannot read {}", name), why);
      return input_error(fmt::format("cannot read all of {}", name),
                         "its gzip stream is damaged or truncated", "copy the file again");
    }
    const std::size_t filled = kept + static_cast<std::size_t>(got);
    const std::size_t last = std::string_view(buffer.data(), filled).rfind('\n');
    std::size_t searched = last == std::string_view::npos ? 0 : last + 1;
    if (searched > 0) lines.search({buffer.data(), searched}, std::exchange(known, 0));
    if (searched == 0 && filled == kBuffer) {
      lines.search({buffer.data(), filled}, known);
      searched = filled - kOverlap;
      known = kOverlap;
    }
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
