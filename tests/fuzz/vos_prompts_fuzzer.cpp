// Prompts files: any text gives prompts that are complete and in order, or one line that names the problem.
#include <cmath>

#include "fuzz.h"
#include "media/vos/prompts_file.h"

namespace {

using namespace headroom;
using namespace headroom::media::vos;

bool is_place(float value) { return std::isfinite(value) && std::abs(value) <= 1e6F; }

void check_prompts(std::string_view text, PromptsFormat format) {
  const auto entries = parse_prompts(text, format, "fuzz");
  if (!entries) return require(entries.error().sentence().find('\n') == std::string::npos);
  require(!entries->empty());
  std::int64_t frame = 0;
  for (const PromptEntry& entry : *entries) {
    const VosPrompt& prompt = entry.prompt;
    require(!entry.object.empty() && prompt.frame >= frame);
    frame = prompt.frame;
    require(!prompt.points.empty() || prompt.box);
    for (const PromptPoint& point : prompt.points) require(is_place(point.x) && is_place(point.y));
    if (prompt.box) require(prompt.box->left <= prompt.box->right && prompt.box->top <= prompt.box->bottom);
  }
}

}  // namespace

void fuzz(std::string_view text) {
  check_prompts(text, PromptsFormat::json);
  check_prompts(text, PromptsFormat::csv);
}
