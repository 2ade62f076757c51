#include "preload/graph_nodes.h"

#include <algorithm>

namespace headroom::preload::driver {

// The second version fails for captures with edge data; the third supports them.
Capture capture_of(DefaultStream kind, Opaque stream) {
  Capture capture;
  std::uint64_t id = 0;
  const Opaque* nodes = nullptr;
  const void* edges = nullptr;
  std::size_t count = 0;
  const bool is_legacy = kind == DefaultStream::legacy;
  const auto v3 = is_legacy ? real.cuStreamGetCaptureInfo_v3 : real.cuStreamGetCaptureInfo_v3_ptsz;
  const auto v2 = is_legacy ? real.cuStreamGetCaptureInfo_v2 : real.cuStreamGetCaptureInfo_v2_ptsz;
  const Result result = v3 != nullptr
                            ? v3(stream, &capture.status, &id, &capture.graph, &nodes, &edges, &count)
                        : v2 != nullptr ? v2(stream, &capture.status, &id, &capture.graph, &nodes, &count)
                                        : kNotFound;
  if (result != kSuccess) capture.status = kCaptureNone;
  if (capture.status != kCaptureActive) {
    capture.graph = nullptr;
    return capture;
  }
  if (nodes == nullptr) return capture;
  capture.count = std::min(count, Capture::kMostNodes);
  std::copy_n(nodes, capture.count, capture.nodes);
  return capture;
}

}  // namespace headroom::preload::driver
