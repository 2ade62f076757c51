// Decodes the first frames of a source, for the programs of this folder.
#pragma once

#include <string>
#include <vector>

#include "media/media_engine.h"
#include "media/source_scan.h"
#include "media/streams/open_stream.h"

namespace headroom::bench_support {

inline Result<std::vector<media::Picture>> decode_first(media::MediaEngine& engine,
                                                        const SourceMetadata& source, std::size_t count) {
  std::vector<media::Picture> frames;
  for (const SourceSequence& sequence : source.sequences) {
    for (const std::string& image : sequence.images) {
      if (frames.size() == count) return frames;
      media::Picture picture;
      if (engine.decode_image(sequence.path + "/" + image, picture)) frames.push_back(std::move(picture));
    }
    if (!sequence.images.empty()) continue;
    auto video = media::open_stream(source.spec, sequence.path);
    if (!video) return forward_error(video);
    while (frames.size() < count) {
      media::Picture picture;
      auto more = (*video)->next(picture);
      if (!more || !*more) break;
      frames.push_back(std::move(picture));
    }
  }
  return frames;
}

// `source`: a value of --source.
inline Result<std::vector<media::Picture>> first_frames(const std::string& source, std::size_t count) {
  auto engine = media::load_media_engine();
  if (!engine) return forward_error(engine);
  auto spec = media::parse_source(source);
  if (!spec) return forward_error(spec);
  auto scanned = media::scan_source(**engine, *spec, {0, 0, static_cast<std::int64_t>(count)});
  if (!scanned) return forward_error(scanned);
  return decode_first(**engine, *scanned, count);
}

}  // namespace headroom::bench_support
