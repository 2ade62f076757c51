// The videos that the setup phase of --task vos prepared, as a file with one line of JSON per video. The
// worker, and the process that scores, read one video at a time, so their memory does not grow with the data
// set.
#pragma once

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "types/vos.h"

namespace headroom::bench {

struct PreparedVideo {
  // Its objects' own prompts are those of a prompts file.
  VosVideo video{};
  // For each object, made from its first mask: a prompt of each PromptKind. Empty for objects of a prompts
  // file.
  std::vector<std::vector<VosPrompt>> made{};

  // The prompts of an object. Empty if there is none of this kind.
  std::vector<VosPrompt> prompts_of(std::size_t object, PromptKind kind) const;
};

std::filesystem::path videos_path(const std::filesystem::path& prepared_folder);

nlohmann::ordered_json to_json(const PreparedVideo& video);
Result<PreparedVideo> prepared_video_from_json(const nlohmann::ordered_json& document);

Status write_videos(const std::filesystem::path& path, const std::vector<PreparedVideo>& videos);

class VideoLines {
 public:
  static Result<VideoLines> open(const std::filesystem::path& path);
  // The next video; absent at the end.
  Result<std::optional<PreparedVideo>> next();

 private:
  explicit VideoLines(std::string name) : name_(std::move(name)) {}
  std::string name_;
  std::ifstream file_;
};

// The lengths of alternating runs of zeros and ones, row by row, zeros first.
void append_runs(const BinaryMask& mask, std::vector<std::int64_t>& runs);
// Fails if the runs do not add up to width × height.
Result<BinaryMask> mask_of_runs(int width, int height, const std::vector<std::int64_t>& runs);

}  // namespace headroom::bench
