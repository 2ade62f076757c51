#include "bench/processes.h"

#include <fcntl.h>

#include "base/files.h"
#include "base/log.h"
#include "bench/prepared_data.h"
#include "bench/protocol.h"
#include "media/decoder.h"
#include "media/frame_ring.h"
#include "media/media_engine.h"

namespace headroom::bench {
namespace {

Status serve(const std::string& metadata) {
  // Not for the program that decodes a video: the worker could not notice the decoder's end.
  for (const int fd : {kDecoderFd, kFrameRingFd}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  auto source = read_metadata(metadata);
  if (!source) return forward_error(source);
  auto ring = media::FrameRing::attach(UniqueFd(kFrameRingFd));
  if (!ring) return forward_error(ring);
  auto engine = media::load_media_engine();
  if (!engine) return forward_error(engine);
  return media::serve_decoder(**engine, *source, *ring, kDecoderFd);
}

}  // namespace

int run_decode_process(const std::string& metadata) {
  const auto served = serve(metadata);
  if (served) return 0;
  log::error("{}", served.error().sentence());
  return 1;
}

}  // namespace headroom::bench
