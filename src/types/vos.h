// Data of video object segmentation that several modules share. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "types/enum_names.h"

namespace headroom {

// 1 inside the object, 0 outside; row by row.
struct BinaryMask {
  int width = 0, height = 0;
  std::vector<std::uint8_t> pixels{};
};

// In pixels of the frame; (0, 0) is the top left pixel.
struct PromptPoint {
  float x = 0, y = 0;
  bool positive = true;  // false: this point is outside the object
};

// In pixels of the frame; right and bottom are inside the box.
struct PromptBox {
  float left = 0, top = 0, right = 0, bottom = 0;
};

enum class PromptKind { points, box, mask };
constexpr std::string_view name_of(PromptKind kind) { return name_in({"points", "box", "mask"}, kind); }

// What is said about one object in one frame: points, a box with or without points, or a mask.
struct VosPrompt {
  std::int64_t frame = 0;  // index in VosVideo::frames
  std::vector<PromptPoint> points{};
  std::optional<PromptBox> box{};
  std::optional<BinaryMask> mask{};
};

struct VosObject {
  std::string id;
  std::map<std::int64_t, std::string> masks{};  // files of the ground truth, by index of the frame
  int value = 0;                     // of the object's pixels in these files; 0: every pixel that is not 0
  std::vector<VosPrompt> prompts{};  // of a prompts file; empty: made from the ground truth
};

struct VosVideo {
  std::string id;
  std::vector<std::string> frames{};  // picture files in order
  int width = 0, height = 0;          // of the first frame, in pixels
  std::vector<VosObject> objects{};
};

// A video, or one object of it, that is left out, and why.
struct VosLeftOut {
  std::string video, object, why;
  friend bool operator==(const VosLeftOut&, const VosLeftOut&) = default;
};

enum class VosLayout {
  sav,     // JPEGImages_24fps/ID/00000.jpg, Annotations_6fps/ID/OBJECT/00000.png
  davis,   // JPEGImages/480p/ID/00000.jpg, Annotations/480p/ID/00000.png
  folder,  // frames and a prompts file
};
constexpr std::string_view name_of(VosLayout layout) { return name_in({"sav", "davis", "folder"}, layout); }

struct VosDataset {
  VosLayout layout = VosLayout::folder;
  std::string folder;
  std::vector<VosVideo> videos{};
  std::vector<VosLeftOut> left_out{};
};

}  // namespace headroom
