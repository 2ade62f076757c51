#include <array>

#include "base/text.h"
#include "inference/tasks/task_base.h"

namespace headroom::inference {
namespace {

constexpr std::array<std::string_view, 80> kCoco{"person",        "bicycle",      "car",
                                                 "motorcycle",    "airplane",     "bus",
                                                 "train",         "truck",        "boat",
                                                 "traffic light", "fire hydrant", "stop sign",
                                                 "parking meter", "bench",        "bird",
                                                 "cat",           "dog",          "horse",
                                                 "sheep",         "cow",          "elephant",
                                                 "bear",          "zebra",        "giraffe",
                                                 "backpack",      "umbrella",     "handbag",
                                                 "tie",           "suitcase",     "frisbee",
                                                 "skis",          "snowboard",    "sports ball",
                                                 "kite",          "baseball bat", "baseball glove",
                                                 "skateboard",    "surfboard",    "tennis racket",
                                                 "bottle",        "wine glass",   "cup",
                                                 "fork",          "knife",        "spoon",
                                                 "bowl",          "banana",       "apple",
                                                 "sandwich",      "orange",       "broccoli",
                                                 "carrot",        "hot dog",      "pizza",
                                                 "donut",         "cake",         "chair",
                                                 "couch",         "potted plant", "bed",
                                                 "dining table",  "toilet",       "tv",
                                                 "laptop",        "mouse",        "remote",
                                                 "keyboard",      "cell phone",   "microwave",
                                                 "oven",          "toaster",      "sink",
                                                 "refrigerator",  "book",         "clock",
                                                 "vase",          "scissors",     "teddy bear",
                                                 "hair drier",    "toothbrush"};

constexpr std::size_t kMostClasses = 100000;

// Reads a quoted Python string at the front of `text` and removes it; returns nothing if there is none.
std::optional<std::string> take_quoted(std::string_view& text) {
  if (text.empty() || (text.front() != '\'' && text.front() != '"')) return std::nullopt;
  const char quote = text.front();
  std::string value;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == quote) {
      text.remove_prefix(i + 1);
      return value;
    }
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    value += text[i];
  }
  return std::nullopt;
}

// Reads a key such as "12:" at the front of `text` and removes it.
std::optional<std::size_t> take_key(std::string_view& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view digits = trim(text.substr(0, colon));
  if (digits.size() >= 2 && (digits.front() == '\'' || digits.front() == '"'))
    digits = digits.substr(1, digits.size() - 2);
  const auto key = parse_number<std::size_t>(digits);
  text.remove_prefix(colon + 1);
  return key;
}

}  // namespace

std::span<const std::string_view> coco_class_names() { return kCoco; }

std::vector<std::string> parse_names(std::string_view text) {
  text = trim(text);
  const bool dict = text.starts_with('{') && text.ends_with('}');
  const bool list = text.starts_with('[') && text.ends_with(']');
  if (!dict && !list) return {};
  text = trim(text.substr(1, text.size() - 2));
  std::vector<std::string> names;
  while (!text.empty()) {
    std::size_t index = names.size();
    if (dict) {
      const auto key = take_key(text);
      if (!key || *key >= kMostClasses) return {};
      index = *key;
    }
    text = trim(text);
    auto name = take_quoted(text);
    if (!name) return {};
    if (names.size() <= index) names.resize(index + 1);
    names[index] = std::move(*name);
    text = trim(text);
    if (text.starts_with(',')) text = trim(text.substr(1));
  }
  return names;
}

std::vector<std::string> class_names_of(const ModelDescription& model, std::int64_t count) {
  std::vector<std::string> names = parse_names(model.metadata_value("names"));
  if (!names.empty() && (count < 0 || static_cast<std::int64_t>(names.size()) == count)) return names;
  if (count == static_cast<std::int64_t>(kCoco.size())) return {kCoco.begin(), kCoco.end()};
  return {};
}

}  // namespace headroom::inference
