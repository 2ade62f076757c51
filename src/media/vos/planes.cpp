#include "media/vos/planes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "base/unfinished.h"
#include "inference/vos/small_floats.h"
#include "media/vos/squash.h"

namespace headroom::media::vos {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kMagic = "headroom planes 1\n";
constexpr int kLargestSide = 8192;

// The path, size and time of each picture.
std::string stamp_of(const VosVideo& video, std::int64_t frames) {
  Fnv1a hash;
  for (std::size_t i = 0; i < static_cast<std::size_t>(frames); ++i) {
    struct stat status {};
    const bool is_there = ::stat(video.frames[i].c_str(), &status) == 0;
    hash.add(fmt::format("{}\n{} {} {}.{}\n", video.frames[i], is_there, status.st_size,
                         status.st_mtim.tv_sec, status.st_mtim.tv_nsec));
  }
  return hash.text();
}

std::string header_of(const PlanesFormat& format, std::int64_t frames, const std::string& stamp) {
  std::string header = fmt::format("{}side {}\nframes {}\nvalues {}\nsources {}\n", kMagic, format.side,
                                   frames, format.values(), stamp);
  header.resize(static_cast<std::size_t>(kPlanesHeader), '\n');
  return header;
}

std::string read_header(int fd) {
  std::string header(static_cast<std::size_t>(kPlanesHeader), '\0');
  const ssize_t got = ::pread(fd, header.data(), header.size(), 0);
  header.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return header;
}

// The first word of a line.
std::string_view word_in(std::string_view header, std::string_view key) {
  const std::string wanted = fmt::format("\n{} ", key);
  const std::size_t at = header.find(wanted);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = header.substr(at + wanted.size());
  return rest.substr(0, rest.find_first_of(" \n"));
}

std::optional<std::int64_t> number_in(std::string_view header, std::string_view key) {
  return parse_number<std::int64_t>(word_in(header, key));
}

std::optional<PlaneType> type_in(std::string_view header) {
  for (const PlaneType type : {PlaneType::uint8, PlaneType::fp16})
    if (word_in(header, "values") == name_of(type)) return type;
  return std::nullopt;
}

// The value of each level, by channel, in half precision.
using HalfTable = std::array<std::array<std::uint16_t, 256>, 3>;
HalfTable halves_of(const PlanesFormat& format) {
  HalfTable table{};
  for (std::size_t c = 0; c < table.size(); ++c)
    for (std::size_t level = 0; level < table[c].size(); ++level)
      table[c][level] =
          inference::vos::to_float16((static_cast<float>(level) / 255 - format.mean[c]) / format.std[c]);
  return table;
}

void to_halves(std::span<const std::uint8_t> levels, const HalfTable& table,
               std::span<std::uint16_t> halves) {
  const std::size_t plane = levels.size() / table.size();
  for (std::size_t i = 0; i < levels.size(); ++i) halves[i] = table[i / plane][levels[i]];
}

std::int64_t size_of(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? status.st_size : -1;
}

template <class Value>
std::string_view text_of(const std::vector<Value>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)};
}

// ErrorKind::input is for pictures.
tl::unexpected<Error> not_written(Error error, const fs::path& path) {
  error.kind = ErrorKind::failed;
  error.what = fmt::format("cannot write {}", path.string());
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace

std::string PlanesFormat::values() const {
  if (type == PlaneType::uint8) return std::string(name_of(type));
  return fmt::format("{} {} {}", name_of(type), fmt::join(mean, " "), fmt::join(std, " "));
}

Bytes planes_frame_size(int side, PlaneType type) { return {std::int64_t{3} * side * side * bytes_of(type)}; }

Bytes planes_file_size(int side, PlaneType type, std::int64_t frames) {
  return {kPlanesHeader + frames * planes_frame_size(side, type).count};
}

// Two videos of one name may lie in different folders.
fs::path planes_path(const VosVideo& video, const PlanesFormat& format, const fs::path& folder) {
  const std::string place =
      video.frames.empty() ? std::string() : fs::path(video.frames.front()).parent_path().string();
  return folder / fmt::format("{}-{}-{}-{}.planes", file_name_of(video.id), format.side, name_of(format.type),
                              fingerprint_of(place + '\n' + video.id + '\n' + format.values()).substr(0, 8));
}

bool has_planes(const VosVideo& video, const PlanesFormat& format, std::int64_t frames,
                const fs::path& folder) {
  const UniqueFd file(::open(planes_path(video, format, folder).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  const std::string header = read_header(file.get());
  // The header has one hash, of the pictures of all its frames.
  const std::int64_t written = number_in(header, "frames").value_or(-1);
  return written >= frames && written <= std::ssize(video.frames) &&
         size_of(file.get()) == planes_file_size(format.side, format.type, written).count &&
         header == header_of(format, written, stamp_of(video, written));
}

void remove_abandoned_planes(const fs::path& folder) { remove_unfinished(folder, ".planes"); }

Result<PreparedPlanes> prepare_planes(MediaEngine& engine, const VosVideo& video, const PlanesFormat& format,
                                      std::int64_t frames, const fs::path& folder,
                                      const std::function<void()>& on_frame) {
  frames = std::min(frames, static_cast<std::int64_t>(video.frames.size()));
  PreparedPlanes prepared{planes_path(video, format, folder), frames, false};
  if (has_planes(video, format, frames, folder)) {
    prepared.was_there = true;
    return prepared;
  }
  // Before the pictures are read: a picture that changes meanwhile makes the file outdated.
  const std::string header = header_of(format, frames, stamp_of(video, frames));
  auto file = UnfinishedFile::create(prepared.path);
  if (!file) return not_written(file.error(), prepared.path);
  Status written = write_all(file->fd(), header);
  Squasher squasher(format.side);
  Picture picture;
  std::vector<std::uint8_t> planes(
      static_cast<std::size_t>(planes_frame_size(format.side, PlaneType::uint8).count));
  const bool is_fp16 = format.type == PlaneType::fp16;
  const HalfTable table = is_fp16 ? halves_of(format) : HalfTable{};
  std::vector<std::uint16_t> halves(is_fp16 ? planes.size() : 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(frames) && written; ++i) {
    if (auto decoded = engine.decode_image(video.frames[i], picture); !decoded) return forward_error(decoded);
    squasher.run(picture.bgr.data(), picture.width, picture.height, planes);
    if (is_fp16) to_halves(planes, table, halves);
    written = write_all(file->fd(), is_fp16 ? text_of(halves) : text_of(planes));
    if (on_frame) on_frame();
  }
  if (written) written = file->finish();
  if (written) return prepared;
  return not_written(written.error(), prepared.path);
}

Status check_space(const fs::path& folder, Bytes size) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return {};  // the write reports it
  const Bytes free{static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize)};
  if (size <= free) return {};
  return input_error(fmt::format("the resized frames do not fit in {}", folder.string()),
                     fmt::format("they need {}, and {} are free", format_bytes(size), format_bytes(free)),
                     "use --limit-videos, --max-frames, --planes uint8 or another --prepared-dir");
}

Result<PlanesReader> PlanesReader::open(const fs::path& path, std::int64_t window) {
  PlanesReader reader;
  auto file = open_regular_file(path, "run the setup phase again, without --skip-setup");
  if (!file) return forward_error(file);
  reader.fd_ = std::move(*file);
  const std::string header = read_header(reader.fd_.get());
  const auto side = number_in(header, "side"), frames = number_in(header, "frames");
  const auto type = type_in(header);
  const bool is_known = header.starts_with(kMagic) && side && frames && type && *side > 0 &&
                        *side <= kLargestSide && *frames > 0 && *frames <= std::int64_t{1} << 32;
  if (!is_known ||
      size_of(reader.fd_.get()) != planes_file_size(static_cast<int>(*side), *type, *frames).count)
    return input_error(fmt::format("cannot use {}", path.string()),
                       is_known ? "its size is not the one that its header announces"
                                : "it is not a file of prepared frames",
                       "run the setup phase again, without --skip-setup");
  reader.side_ = static_cast<int>(*side);
  reader.type_ = *type;
  reader.frames_ = *frames;
  reader.window_ = std::max<std::int64_t>(1, window);
  reader.size_ = static_cast<std::size_t>(planes_file_size(reader.side_, reader.type_, *frames).count);
  void* memory = ::mmap(nullptr, reader.size_, PROT_READ, MAP_SHARED, reader.fd_.get(), 0);
  if (memory == MAP_FAILED) return failure(fmt::format("cannot map {}", path.string()), errno_text(errno));
  reader.memory_ = static_cast<std::uint8_t*>(memory);
  // Advice only: without it, the kernel reads less ahead.
  [[maybe_unused]] const int advised = ::madvise(memory, reader.size_, MADV_SEQUENTIAL);
  return reader;
}

PlanesReader::~PlanesReader() {
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

std::span<const std::uint8_t> PlanesReader::frame(std::int64_t index) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto size = static_cast<std::size_t>(planes_frame_size(side_, type_).count);
  const auto start = [&](std::int64_t i) {
    return static_cast<std::size_t>(kPlanesHeader) + static_cast<std::size_t>(i) * size;
  };
  const std::size_t keep = start(std::max<std::int64_t>(0, index - window_ + 1)) / page * page;
  if (keep > dropped_) {
    ::madvise(memory_ + dropped_, keep - dropped_, MADV_DONTNEED);
    // The page cache counts in a control group's limit.
    [[maybe_unused]] const int advised = ::posix_fadvise(
        fd_.get(), static_cast<off_t>(dropped_), static_cast<off_t>(keep - dropped_), POSIX_FADV_DONTNEED);
    dropped_ = keep;
  }
  const std::uint8_t* first = memory_ + start(index);
  // Reads each page, so that the model does not wait for the disk.
  for (std::size_t at = 0; at < size; at += page)
    [[maybe_unused]] const volatile std::uint8_t touched = first[at];
  return {first, size};
}

// The header and each frame have a whole number of halves, so they are aligned.
std::span<const std::uint16_t> PlanesReader::as_halves(std::span<const std::uint8_t> planes) {
  return {reinterpret_cast<const std::uint16_t*>(planes.data()), planes.size() / sizeof(std::uint16_t)};
}

}  // namespace headroom::media::vos
