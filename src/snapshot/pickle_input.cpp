#include "snapshot/pickle_input.h"

#include <fmt/format.h>
#include <unistd.h>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace headroom::snapshot {

namespace {

constexpr std::size_t kWindow = 1 << 20;

}  // namespace

Result<PickleInput> PickleInput::open(const std::filesystem::path& path) {
  auto file = open_regular_file(path, "check the path of the snapshot");
  if (!file) return forward_error(file);
  PickleInput input;
  input.file_ = path.string();
  input.fd_ = std::move(*file);
  input.capacity_ = kWindow;
  input.buffer_ = std::make_unique_for_overwrite<std::uint8_t[]>(kWindow);
  input.at_ = input.end_ = input.buffer_.get();
  if (headroom::is_gzip(input.fd_.get())) input.gzip_.emplace(input.fd_.get());
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
  while (!gzip_) {
    const ssize_t count = ::read(fd_.get(), to, space);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EINTR) continue;
    give_up(errno_text(errno), "check its disk");
    return 0;
  }
  constexpr const char* kCopyAgain = "copy the file again, or take the snapshot again";
  const auto plain = gzip_->read(reinterpret_cast<char*>(to), space);
  if (!plain) give_up(plain.error().why, "check its disk");
  if (gzip_->state() == GzipReader::State::cut_off) give_up("its gzip stream is cut off", kCopyAgain);
  if (gzip_->state() == GzipReader::State::damaged) give_up("its gzip stream is damaged", kCopyAgain);
  if (gzip_->is_bomb())
    give_up(fmt::format("it unpacks to more than {} times its size", kMostGzipRatio),
            "if that is right, unpack it first: gunzip --keep FILE");
  return problem_ ? 0 : *plain;
}

void PickleInput::check_end() {
  constexpr std::size_t kMostBehind = 1 << 16;
  if (gzip_) need(kMostBehind);
}

void PickleInput::give_up(std::string why, std::string fix) {
  if (problem_) return;
  problem_ = Error{ErrorKind::input, fmt::format("cannot read {}", file_), std::move(why), std::move(fix)};
}

bool looks_like_pickle(std::string_view first_bytes) {
  constexpr std::uint8_t kProto = 0x80;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(first_bytes[i]); };
  return first_bytes.size() >= 3 && byte(0) == kProto && byte(1) >= 2 && byte(1) <= 99;
}

}  // namespace headroom::snapshot
