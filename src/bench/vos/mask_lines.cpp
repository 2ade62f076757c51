#include "bench/vos/mask_lines.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <iterator>
#include <sstream>

#include "bench/vos/videos.h"

namespace headroom::bench {

Result<MaskWriter> MaskWriter::create(const std::filesystem::path& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) return input_error(fmt::format("cannot write {}", path.string()), errno_text(errno));
  return MaskWriter(std::move(file));
}

Status MaskWriter::add(std::size_t video, std::int64_t frame, std::size_t object, const BinaryMask& mask) {
  runs_.clear();
  append_runs(mask, runs_);
  line_.clear();
  fmt::format_to(std::back_inserter(line_), "{} {} {} {} {}", video, frame, object, mask.width, mask.height);
  for (const std::int64_t run : runs_) fmt::format_to(std::back_inserter(line_), " {}", run);
  line_ += '\n';
  return write_all(file_.get(), line_);
}

std::optional<MaskLine> read_mask_line(std::istream& lines) {
  std::string text;
  if (!std::getline(lines, text) || lines.eof()) return std::nullopt;  // the last line has a newline
  std::istringstream words(text);
  MaskLine line;
  int width = 0, height = 0;
  if (!(words >> line.video >> line.frame >> line.object >> width >> height)) return std::nullopt;
  const std::vector<std::int64_t> runs{std::istream_iterator<std::int64_t>(words), {}};
  auto mask = mask_of_runs(width, height, runs);
  if (!mask) return std::nullopt;
  line.mask = std::move(*mask);
  return line;
}

}  // namespace headroom::bench
