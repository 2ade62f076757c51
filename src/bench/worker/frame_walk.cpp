#include "bench/worker/frame_walk.h"

#include <algorithm>

namespace headroom::bench {

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
