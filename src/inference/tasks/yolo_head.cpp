#include "inference/tasks/yolo_head.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace headroom::inference {
namespace {

// Anchors per tile: their running maxima (2 KiB) stay in the first-level cache while 80 rows stream
// through.
constexpr std::int64_t kTile = 256;

int stride_of(const ModelDescription& model) {
  const auto stride = parse_number<int>(trim(model.metadata_value("stride")));
  return stride && *stride > 0 && *stride <= 256 ? std::max(*stride, 32) : 32;
}

}  // namespace

bool may_be_ultralytics(const ModelDescription& model, std::string_view task) {
  const std::string declared = model.metadata_value("task");
  return declared.empty() || declared == task;
}

std::optional<ImageInput> find_yolo_input(const ModelDescription& model, int image_size) {
  auto image = find_image_input(model, image_size, stride_of(model));
  if (image && image->spec.channels == ChannelOrder::rgba) return std::nullopt;
  return image;
}

void add_v8_candidates(const float* rows, std::int64_t anchors, std::int64_t classes,
                       DetectionCollector& collector) {
  const float* const scores = rows + 4 * anchors;
  const float confidence = collector.confidence();
  std::array<float, kTile> best;
  std::array<std::int32_t, kTile> best_id;
  for (std::int64_t start = 0; start < anchors; start += kTile) {
    const std::int64_t n = std::min(kTile, anchors - start);
    best.fill(confidence);
    best_id.fill(-1);
    for (std::int64_t c = 0; c < classes; ++c) {
      const float* row = scores + c * anchors + start;
      const auto id = static_cast<std::int32_t>(c);
      for (std::int64_t i = 0; i < n; ++i) {
        const bool better = row[i] > best[i];
        best[i] = better ? row[i] : best[i];
        best_id[i] = better ? id : best_id[i];
      }
    }
    for (std::int64_t i = 0; i < n; ++i) {
      if (best_id[i] < 0) continue;
      const float* box = rows + start + i;
      collector.add(from_centre(box[0], box[anchors], box[2 * anchors], box[3 * anchors], best[i], best_id[i],
                                static_cast<std::uint32_t>(start + i)));
    }
  }
}

}  // namespace headroom::inference
