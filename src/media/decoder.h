// The decoder process: fills a FrameRing on request. Its hidden verb is `_decode`.
#pragma once

#include "base/result.h"
#include "media/frame_ring.h"
#include "media/media_engine.h"
#include "model/source.h"

namespace headroom::media {

// Written to standard error about four times a second while a window is filled: a sign of life.
inline constexpr const char* kDecoderAliveLine = "alive";

// Serves DecoderRequests on `socket` until the peer closes it. Frames of `source` are decoded straight into
// `ring`, as many per window as asked for and as fit; one that does not fit any more comes first in the next
// window. A frame that cannot be decoded, or is larger than the whole ring, is skipped, named on the log,
// counted. So is a sequence that cannot be opened, unless it is the only one: then the answer is not ok.
Status serve_decoder(MediaEngine& engine, const SourceMetadata& source, FrameRing& ring, int socket);

// The other side, in the worker: asks and waits. Error: the decoder is gone or talks nonsense; an answer that
// is not ok is not an error here.
Result<DecoderAnswer> ask_decoder(int socket, const DecoderRequest& request);

}  // namespace headroom::media
