#include "media/decoder.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <type_traits>

#include "base/files.h"
#include "base/log.h"
#include "base/units.h"
#include "media/source_scan.h"
#include "media/streams/open_stream.h"

namespace headroom::media {
namespace {
namespace fs = std::filesystem;

static_assert(std::is_trivially_copyable_v<DecoderRequest> && std::is_trivially_copyable_v<DecoderAnswer>);

// Reads the frames of one sequence of images, of a video or of a live source in order.
class FrameCursor {
 public:
  static Result<FrameCursor> open(MediaEngine& engine, const SourceMetadata& source, std::int32_t index) {
    FrameCursor cursor(engine, source.sequences[static_cast<std::size_t>(index)]);
    if (source.spec.kind == SourceKind::image_dir) return cursor;
    auto video = open_stream(source.spec, cursor.sequence_->path);
    if (!video) return forward_error(video);
    cursor.video_ = std::move(*video);
    return cursor;
  }

  // Like VideoReader::next_into. After a frame, an error or skip_frame(), position() is that of the next
  // frame.
  Result<Decoded> next_into(const AllocateFrame& allocate_frame) {
    if (!video_ && position_ >= static_cast<std::int64_t>(sequence_->images.size())) return Decoded::end;
    auto decoded = video_ ? video_->next_into(allocate_frame)
                          : engine_->decode_image_into((fs::path(sequence_->path) / image_name()).string(),
                                                       allocate_frame);
    if (!decoded || *decoded == Decoded::frame) ++position_;
    return decoded;
  }
  void skip_frame() {
    if (video_) video_->skip_frame();
    ++position_;
  }
  void pause() {
    if (video_) video_->pause();
  }
  std::int64_t position() const { return position_; }
  Nanoseconds sensor_wait() const { return video_ ? video_->sensor_wait() : Nanoseconds{}; }
  // The name of the frame at position().
  std::string name() const {
    if (video_) return fmt::format("frame {}", position_);
    return position_ < static_cast<std::int64_t>(sequence_->images.size()) ? image_name() : std::string();
  }
  const std::string& sequence_name() const { return sequence_->name; }

 private:
  FrameCursor(MediaEngine& engine, const SourceSequence& sequence) : engine_(&engine), sequence_(&sequence) {}
  const std::string& image_name() const { return sequence_->images[static_cast<std::size_t>(position_)]; }

  MediaEngine* engine_;
  const SourceSequence* sequence_;
  std::unique_ptr<VideoReader> video_;  // null for images
  std::int64_t position_ = 0;
};

void copy_text(std::string_view text, char* field, std::size_t capacity) {
  const std::size_t length = std::min(text.size(), capacity - 1);
  std::memcpy(field, text.data(), length);
  field[length] = '\0';
}

constexpr Nanoseconds kAliveInterval{250'000'000};

class DecoderServer {
 public:
  DecoderServer(MediaEngine& engine, const SourceMetadata& source, FrameRing& ring)
      : engine_(engine), source_(source), ring_(ring) {}

  DecoderAnswer answer(const DecoderRequest& request) {
    DecoderAnswer answer;
    Status done;
    switch (request.verb) {
      case DecoderVerb::start_sequence:
        done = start(request.sequence);
        break;
      case DecoderVerb::next_window:
        fill_window(request.maximum_frames);
        answer.frames = ring_.header().slot_count;
        break;
      default:
        done = internal_error("unknown decoder request");
    }
    // A program that decodes the next frames would compete with the worker for the cores.
    if (cursor_) cursor_->pause();
    answer.ok = done ? 1 : 0;
    if (!done) copy_text(done.error().sentence(), answer.error, sizeof(answer.error));
    answer.newly_skipped = std::exchange(newly_skipped_, 0U);
    return answer;
  }

 private:
  Status start(std::int32_t sequence) {
    cursor_.reset();
    ring_.header().slot_count = 0;
    waiting_time_ = {};
    if (sequence < 0 || static_cast<std::size_t>(sequence) >= source_.sequences.size())
      return internal_error(fmt::format("the source has no sequence {}", sequence));
    sequence_ = sequence;
    auto cursor = FrameCursor::open(engine_, source_, sequence);
    if (cursor) {
      cursor_ = std::move(*cursor);
      return {};
    }
    if (source_.sequences.size() == 1) return forward_error(cursor);
    skip(source_.sequences[static_cast<std::size_t>(sequence)].name, cursor.error());
    return {};
  }

  void fill_window(std::int64_t maximum_frames) {
    FrameRingHeader& header = ring_.header();
    header.slot_count = 0;
    if (!cursor_) return;
    const std::int64_t most = std::min<std::int64_t>(maximum_frames, kMaximumSlots);
    const auto arena = static_cast<std::size_t>(ring_.arena().count);
    std::size_t used = 0;
    while (header.slot_count < most) {
      FrameSlot slot;
      slot.index = cursor_->position();
      slot.sequence = sequence_;
      slot.offset = used;
      const std::string name = cursor_->name();
      copy_text(name, slot.name, sizeof(slot.name));
      const auto allocate_frame = [&](PictureSize size) -> std::uint8_t* {
        slot.width = size.width;
        slot.height = size.height;
        return size.bytes() <= arena - used ? ring_.pixels(slot) : nullptr;
      };

      const Nanoseconds began = monotonic_now();
      if (began - last_alive_ > kAliveInterval) {
        last_alive_ = began;
        [[maybe_unused]] const auto said = write_all(STDERR_FILENO, fmt::format("{}\n", kDecoderAliveLine));
      }
      const auto decoded = cursor_->next_into(allocate_frame);
      const Nanoseconds spent =
          monotonic_now() - began - cursor_->sensor_wait() + std::exchange(waiting_time_, Nanoseconds{});
      if (!decoded) {
        skip(cursor_->sequence_name() + " " + name, decoded.error());
        if (++failures_ < kMostFailuresInARow) continue;
        log::warning("{} frames of {} in a row cannot be decoded; the rest is skipped", failures_,
                     cursor_->sequence_name());
        cursor_.reset();
        return;
      }
      failures_ = 0;
      if (*decoded == Decoded::end) return;
      const PictureSize size{slot.width, slot.height};
      if (*decoded == Decoded::no_space) {
        if (size.bytes() <= arena) {
          waiting_time_ = spent;  // the frame comes first in the next window
          return;
        }
        skip(cursor_->sequence_name() + " " + name, too_large(size));
        cursor_->skip_frame();
        continue;
      }
      slot.decode_ns = spent.count;
      header.slots[header.slot_count++] = slot;
      used += size.bytes();
    }
  }

  Error too_large(PictureSize size) const {
    return {ErrorKind::input, "the frame is too large",
            fmt::format("{} x {} pixels need {}, the frame memory has {}", size.width, size.height,
                        format_bytes({static_cast<std::int64_t>(size.bytes())}), format_bytes(ring_.arena())),
            "raise --max-frames-in-mem, or run the setup phase again"};
  }

  void skip(const std::string& name, const Error& error) {
    ++newly_skipped_;
    log::warning("skipped {}: {}", name, error.sentence());
  }

  MediaEngine& engine_;
  const SourceMetadata& source_;
  FrameRing& ring_;
  std::optional<FrameCursor> cursor_;
  std::int32_t sequence_ = 0;
  std::uint32_t newly_skipped_ = 0;
  std::int64_t failures_ = 0;  // consecutive failures
  Nanoseconds last_alive_ = monotonic_now();
  Nanoseconds waiting_time_;  // time already spent on the frame that did not fit
};

// Receives or sends one message, repeated after a signal. Returns the result of recv or send.
ssize_t receive(int socket, void* message, std::size_t size) {
  ssize_t got = 0;
  do got = ::recv(socket, message, size, MSG_TRUNC);
  while (got < 0 && errno == EINTR);
  return got;
}
ssize_t send_message(int socket, const void* message, std::size_t size) {
  ssize_t sent = 0;
  do sent = ::send(socket, message, size, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent;
}

bool peer_is_gone(int error_number) { return error_number == EPIPE || error_number == ECONNRESET; }

}  // namespace

Status serve_decoder(MediaEngine& engine, const SourceMetadata& source, FrameRing& ring, int socket) {
  DecoderServer server(engine, source, ring);
  for (;;) {
    DecoderRequest request;
    const ssize_t got = receive(socket, &request, sizeof(request));
    if (got == 0 || (got < 0 && peer_is_gone(errno))) return {};
    if (got < 0) return internal_error("the decoder cannot read its requests", errno_text(errno));
    if (got != sizeof(request)) return internal_error("the decoder received a request of the wrong size");
    const DecoderAnswer answer = server.answer(request);
    if (send_message(socket, &answer, sizeof(answer)) >= 0) continue;
    if (peer_is_gone(errno)) return {};
    return internal_error("the decoder cannot answer", errno_text(errno));
  }
}

Result<DecoderAnswer> ask_decoder(int socket, const DecoderRequest& request) {
  const auto gone = [](std::string why) {
    return failure("the decoder process ended", std::move(why), "see run.log for its last messages");
  };
  if (send_message(socket, &request, sizeof(request)) < 0) return gone(errno_text(errno));
  DecoderAnswer answer;
  const ssize_t got = receive(socket, &answer, sizeof(answer));
  if (got < 0) return gone(errno_text(errno));
  if (got == 0) return gone({});
  if (got != sizeof(answer) || answer.frames > kMaximumSlots)
    return internal_error("invalid answer from the decoder");
  answer.error[sizeof(answer.error) - 1] = '\0';
  return answer;
}

}  // namespace headroom::media
