// Reads prompts for the objects of a folder of frames, from JSON or CSV (docs/evaluate.md).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "types/vos.h"

namespace headroom::media::vos {

// The prompt of one object in one frame.
struct PromptEntry {
  std::string video{};  // empty: the only video
  std::string object{};
  VosPrompt prompt{};  // with points, a box, or both
};

enum class PromptsFormat { json, csv };

// Parses the text of a prompts file. Entries of the same video, object and frame are joined: their points
// add up. The entries are in the order of the file, each object's by frame. Checks everything that does not
// depend on the frames. The error names `file`, and the entry or line.
Result<std::vector<PromptEntry>> parse_prompts(std::string_view text, PromptsFormat format,
                                               const std::string& file);

// Reads a file, whose extension chooses the format.
Result<std::vector<PromptEntry>> read_prompts(const std::filesystem::path& file);

}  // namespace headroom::media::vos
