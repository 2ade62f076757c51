#include "snapshot/pickle_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <new>

#include "base/utf8.h"

namespace headroom::snapshot {

namespace {

constexpr std::size_t kWindow = 1 << 20;
// Snapshots unpack to 10 to 30 times their size, decompression bombs to 1000 times. Sizes up to
// kAlwaysAllowed are always accepted.
constexpr std::uint64_t kMostRatio = 100, kAlwaysAllowed = 64 << 20;
constexpr std::uint8_t kGzipMagic[] = {0x1f, 0x8b};

}  // namespace

struct PickleInput::Gzip {
  z_stream stream{};
  std::array<std::uint8_t, 1 << 16> packed;
  std::uint64_t packed_bytes = 0, plain_bytes = 0;
  bool in_member = true;  // between a header and its checksum

  Gzip() {
    constexpr int kLargestWindow = 15, kGzipOnly = 16;
    if (inflateInit2(&stream, kLargestWindow + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
  ~Gzip() { inflateEnd(&stream); }
};

PickleInput::PickleInput() = default;
PickleInput::PickleInput(PickleInput&&) noexcept = default;
PickleInput& PickleInput::operator=(PickleInput&&) noexcept = default;
PickleInput::~PickleInput() = default;

bool PickleInput::is_gzip() const { return gzip_ != nullptr; }

const std::uint8_t* PickleInput::window_begin() const { return buffer_ ? buffer_.get() : memory_; }

Result<PickleInput> PickleInput::open(const std::filesystem::path& path) {
  const std::string what = fmt::format("cannot read {}", path.string());
  PickleInput input;
  input.file_ = path.string();
  input.fd_.reset(::open(
      path.c_str(),
      O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // O_NONBLOCK: opening a FIFO must not block; it is rejected below
  struct stat info {};
  if (!input.fd_ || ::fstat(input.fd_.get(), &info) != 0)
    return input_error(what, errno_text(errno), "check the path of the snapshot");
  if (!S_ISREG(info.st_mode)) return input_error(what, "it is not a file", "give the path of a snapshot");
  input.capacity_ = kWindow;
  input.buffer_ = std::make_unique_for_overwrite<std::uint8_t[]>(kWindow);
  input.at_ = input.end_ = input.buffer_.get();
  std::array<std::uint8_t, sizeof kGzipMagic> magic{};
  if (::pread(input.fd_.get(), magic.data(), magic.size(), 0) == static_cast<ssize_t>(magic.size()) &&
      std::memcmp(magic.data(), kGzipMagic, sizeof kGzipMagic) == 0)
    input.gzip_ = std::make_unique<Gzip>();
  return input;
}

PickleInput PickleInput::of(std::string_view bytes) {
  PickleInput input;
  input.file_ = "the pickle";
  input.memory_ = input.at_ = reinterpret_cast<const std::uint8_t*>(bytes.data());
  input.end_ = input.at_ + bytes.size();
  input.ended_ = true;
  return input;
}

bool PickleInput::refill(std::size_t bytes) {
  while (!ended_ && ready() < bytes) {
    const std::size_t kept = ready();
    if (kept > 0 && at_ != buffer_.get()) std::memmove(buffer_.get(), at_, kept);
    window_offset_ += static_cast<std::uint64_t>(at_ - buffer_.get());
    // The window grows with the received bytes, not with the announced length.
    if (kept == capacity_) {
      auto larger = std::make_unique_for_overwrite<std::uint8_t[]>(2 * capacity_);
      std::memcpy(larger.get(), buffer_.get(), kept);
      buffer_ = std::move(larger);
      capacity_ *= 2;
    }
    at_ = buffer_.get();
    const std::size_t more = read_more(buffer_.get() + kept, capacity_ - kept);
    end_ = at_ + kept + more;
    ended_ = more == 0;
  }
  return ready() >= bytes;
}

std::size_t PickleInput::read_more(std::uint8_t* to, std::size_t space) {
  return gzip_ ? inflate_more(to, space) : read_file(to, space);
}

std::size_t PickleInput::read_file(std::uint8_t* to, std::size_t space) {
  while (true) {
    const ssize_t count = ::read(fd_.get(), to, space);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EINTR) continue;
    give_up(errno_text(errno), "check its disk");
    return 0;
  }
}

std::size_t PickleInput::inflate_more(std::uint8_t* to, std::size_t space) {
  z_stream& stream = gzip_->stream;
  stream.next_out = to;
  stream.avail_out = static_cast<uInt>(std::min<std::size_t>(space, 1 << 30));
  const uInt wanted = stream.avail_out;
  while (stream.avail_out == wanted) {
    if (stream.avail_in == 0) {
      const std::size_t count = read_file(gzip_->packed.data(), gzip_->packed.size());
      if (count == 0 && gzip_->in_member)
        give_up("its gzip stream is cut off", "copy the file again, or take the snapshot again");
      if (count == 0) return 0;
      gzip_->packed_bytes += count;
      stream.next_in = gzip_->packed.data();
      stream.avail_in = static_cast<uInt>(count);
    }
    // A gzip file may contain several streams. Other data after them (padding from a tape) is ignored.
    if (!gzip_->in_member) {
      if (*stream.next_in != kGzipMagic[0]) return 0;
      if (inflateReset(&stream) != Z_OK) return 0;
      gzip_->in_member = true;
    }
    const int code = ::inflate(&stream, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      gzip_->in_member = false;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      give_up("its gzip stream is damaged", "copy the file again, or take the snapshot again");
      return 0;
    }
  }
  const std::size_t plain = wanted - stream.avail_out;
  gzip_->plain_bytes += plain;
  if (gzip_->plain_bytes > kAlwaysAllowed && gzip_->plain_bytes / kMostRatio > gzip_->packed_bytes) {
    give_up(fmt::format("it unpacks to more than {} times its size", kMostRatio),
            "if that is right, unpack it first: gunzip --keep FILE");
    return 0;
  }
  return plain;
}

std::optional<std::string_view> PickleInput::take_line() {
  constexpr std::size_t kLongestLine = 1 << 24;
  for (std::size_t looked = 0; looked < kLongestLine && need(looked + 1); looked = ready()) {
    const void* found = std::memchr(at_ + looked, '\n', ready() - looked);
    if (found == nullptr) continue;
    const auto length = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - at_);
    const std::string_view line(reinterpret_cast<const char*>(at_), length);
    skip(length + 1);
    return line;
  }
  return {};
}

void PickleInput::check_end() {
  constexpr std::size_t kMostBehind = 1 << 16;
  if (!gzip_) return;
  need(kMostBehind);
}

void PickleInput::give_up(std::string why, std::string fix) {
  if (problem_) return;
  problem_ = Error{ErrorKind::input, fmt::format("cannot read {}", file_), std::move(why), std::move(fix)};
}

namespace {

// Parses `digits` hexadecimal digits at `at`. Nothing if they are missing.
std::optional<std::uint32_t> hex_at(std::string_view text, std::size_t at, std::size_t digits) {
  if (at + digits > text.size()) return {};
  const char* const begin = text.data() + at;
  std::uint32_t code = 0;
  const auto [end, error] = std::from_chars(begin, begin + digits, code, 16);
  if (error != std::errc{} || end != begin + digits) return {};
  return code;
}

}  // namespace

std::optional<std::string> unquoted(std::string_view line) {
  if (line.size() < 2 || (line.front() != '\'' && line.front() != '"') || line.back() != line.front())
    return {};
  line = line.substr(1, line.size() - 2);
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) {
      text += line[i];
      continue;
    }
    const char escaped = line[++i];
    if (escaped == 'x') {
      const auto code = hex_at(line, i + 1, 2);
      if (!code) return {};
      text += static_cast<char>(*code);
      i += 2;
    } else {
      text += escaped == 'n' ? '\n' : escaped == 'r' ? '\r' : escaped == 't' ? '\t' : escaped;
    }
  }
  return text;
}

std::string from_raw_unicode(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char kind = line[i] == '\\' && i + 1 < line.size() ? line[i + 1] : '\0';
    const std::size_t digits = kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    const auto code = digits > 0 ? hex_at(line, i + 2, digits) : std::nullopt;
    if (code && *code <= 0x10ffff) {
      append_utf8(text, *code);
      i += 1 + digits;
    } else {
      append_utf8(text, static_cast<std::uint8_t>(line[i]));
    }
  }
  return text;
}

bool looks_like_pickle(std::string_view first_bytes) {
  if (first_bytes.size() < 3) return false;
  constexpr std::uint8_t kProto = 0x80;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(first_bytes[i]); };
  if (byte(0) == kProto) return byte(1) >= 2 && byte(1) <= 99;
  // Protocols 0 and 1 have no magic number, but start with a dict or a list and its number in the memo.
  const std::string_view start = first_bytes.substr(0, 3);
  return start == "(dp" || start == "(lp" || start.substr(0, 2) == "}q" || start.substr(0, 2) == "]q";
}

}  // namespace headroom::snapshot
