// The decoder process, which fills a FrameRing on request. It runs as the hidden verb `_decode`.
#pragma once

#include "base/result.h"
#include "media/frame_ring.h"
#include "media/media_engine.h"
#include "types/source.h"

namespace headroom::media {

// The line that the decoder writes to standard error about four times a second while it fills a window, as
// a sign of life.
inline constexpr const char* kDecoderAliveLine = "alive";

// Serves DecoderRequests on `socket` until the peer closes it. Decodes frames of `source` directly into
// `ring`, as many per window as requested and as fit. A frame that does not fit becomes the first of the
// next window.
//
// The decoder skips, logs and counts a frame that it cannot decode or that is larger than the whole ring.
// After kMostFailuresInARow such failures in a row it skips the rest of the sequence. A sequence that cannot
// be opened is skipped, too; if it is the only one, the answer is not ok.
Status serve_decoder(MediaEngine& engine, const SourceMetadata& source, FrameRing& ring, int socket);

// The worker's side: sends a request and waits for the answer. Fails if the decoder is gone or its answer
// is invalid. An answer with ok = 0 is not an error here.
Result<DecoderAnswer> ask_decoder(int socket, const DecoderRequest& request);

}  // namespace headroom::media
