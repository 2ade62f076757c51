#include "bench/worker/frames.h"

#include <poll.h>
#include <sys/socket.h>
#include <algorithm>
#include <cerrno>

namespace headroom::bench {
namespace {

constexpr int kWaitIntervalMs = 250;
constexpr std::int32_t kNoProcessor = -1;
// The partner may load for one timeout, and then each warm-up frame may take another one.
constexpr std::int64_t kTimeoutsUntilWarm = 10;

struct TurnsHello {
  std::int32_t processor;  // first worker: its processor; second: only >= 0 if it would follow
};

}  // namespace

void FrameTurns::leave() {
  fd_.reset();
  if (before_) ::sched_setaffinity(0, sizeof *before_, &*before_);
  before_.reset();
}

bool FrameTurns::wait_until_readable(Nanoseconds timeout) const {
  const Nanoseconds deadline = monotonic_now() + timeout;
  for (;;) {
    pollfd end{fd_.get(), POLLIN, 0};
    const int ready = ::poll(&end, 1, kWaitIntervalMs);
    if (ready > 0) return true;
    if ((ready < 0 && errno != EINTR) || monotonic_now() > deadline) return false;
    waits_();
  }
}

bool FrameTurns::send(const void* bytes, std::size_t size) {
  if (!fd_) return false;
  ssize_t sent = 0;
  do sent = ::send(fd_.get(), bytes, size, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent != static_cast<ssize_t>(size)) leave();
  return static_cast<bool>(fd_);
}

bool FrameTurns::receive(void* bytes, std::size_t size, Nanoseconds timeout) {
  if (!fd_) return false;
  ssize_t got = -1;
  if (wait_until_readable(timeout)) {
    do got = ::recv(fd_.get(), bytes, size, 0);
    while (got < 0 && errno == EINTR);
  }
  if (got != static_cast<ssize_t>(size)) leave();
  return static_cast<bool>(fd_);
}

void FrameTurns::begin(bool computes_in_one_thread) {
  TurnsHello own{computes_in_one_thread ? ::sched_getcpu() : kNoProcessor}, theirs{kNoProcessor};
  if (!send(&own, sizeof own) || !receive(&theirs, sizeof theirs, {kTimeoutsUntilWarm * timeout_.count}))
    return;
  if (own.processor < 0 || theirs.processor < 0) return;
  cpu_set_t common;
  CPU_ZERO(&common);
  CPU_SET(static_cast<std::size_t>(first_ ? own.processor : theirs.processor), &common);
  // A container's CPU set may lack this processor; then both workers keep their affinity.
  before_.emplace();
  const bool moved = ::sched_getaffinity(0, sizeof *before_, &*before_) == 0 &&
                     ::sched_setaffinity(0, sizeof common, &common) == 0;
  if (!moved) before_.reset();
  char went = moved ? 1 : 0, partner_went = 0;
  on_one_processor_ = send(&went, 1) && receive(&partner_went, 1, timeout_) && moved && partner_went == 1;
  if (on_one_processor_ || !before_) return;
  ::sched_setaffinity(0, sizeof *before_, &*before_);
  before_.reset();
}

void FrameTurns::next() {
  char turn = 0;
  const bool takes_first = first_ && !has_begun_;
  if (has_begun_ && !send(&turn, 1)) return;
  has_begun_ = true;
  if (!takes_first && !receive(&turn, 1, timeout_)) return;
  if (fd_) ++frames_;
}

void FrameTurns::end() {
  char turn = 0;
  if (send(&turn, 1) && first_) receive(&turn, 1, timeout_);
  leave();
}

// Reports when the worker waits for the decoder. If the worker then falls silent or the decoder dies, the
// conductor knows which of the two failed.
Result<media::DecoderAnswer> FrameWalk::ask(const media::DecoderRequest& request) {
  events_.waits_for_decoder(true);
  auto answer = media::ask_decoder(kDecoderFd, request);
  if (!answer) return answer;
  events_.waits_for_decoder(false);
  skipped_ += answer->newly_skipped;
  if (answer->ok == 0) return failure("cannot read more frames from the source", answer->error);
  return answer;
}

Status FrameWalk::start(std::int32_t sequence) {
  done_ = 0;
  slots_.clear();
  media::DecoderRequest request;
  request.verb = media::DecoderVerb::start_sequence;
  request.sequence = sequence;
  auto answer = ask(request);
  return answer ? Status{} : Status(forward_error(answer));
}

Status FrameWalk::next_window() {
  slots_.clear();
  if (done_ >= limit_) return {};
  media::DecoderRequest request;
  request.maximum_frames = std::min(limit_ - done_, largest_window_);
  auto answer = ask(request);
  if (!answer) return forward_error(answer);
  for (std::uint32_t i = 0; i < answer->frames; ++i) {
    auto slot = ring_.slot(i);  // a checked copy, because the decoder can write to the original
    if (!slot) return forward_error(slot);
    slots_.push_back(*slot);
  }
  done_ += static_cast<std::int64_t>(slots_.size());
  return {};
}

std::vector<std::int64_t> sample_positions(const WorkerJob& job) {
  std::int64_t total = 0;
  for (const WorkerSequence& sequence : job.sequences)
    total += sequence.frames > 0 ? std::min(sequence.frames, job.max_frames) : job.max_frames;
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < job.sample_images; ++i) {
    const std::int64_t middle = (2 * i + 1) * total / (2 * job.sample_images);
    if (positions.empty() || positions.back() != middle) positions.push_back(middle);
  }
  return positions;
}

}  // namespace headroom::bench
