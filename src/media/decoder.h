// The decoder process: fills a FrameRing on request. Its hidden verb is `_decode`.
#pragma once

#include "base/files.h"
#include "base/result.h"
#include "media/frame_ring.h"
#include "media/media_engine.h"
#include "model/source.h"

namespace headroom::media {

// Serves DecoderRequests on `socket` until the peer closes it. Frames of `source` are decoded into `ring`, as
// many per window as asked for and as fit. A frame that cannot be decoded is skipped, named on the log, counted.
Status serve_decoder(MediaEngine& engine, const SourceMetadata& source, FrameRing& ring, int socket);

// The other side, in the worker: asks and waits.
Result<DecoderAnswer> ask_decoder(int socket, const DecoderRequest& request);

}  // namespace headroom::media
