#include "doctor/run/model_cures.h"

#include <fmt/format.h>

#include <utility>

namespace headroom::doctor {

Cure with_settings(const ModelResult& model, std::string what, const std::string& words,
                   std::optional<Bytes> saves) {
  Cure cure{std::move(what), fmt::format("--model {}=PATH,{}", model.name, words), saves};
  cure.settings = CureSettings{model.name, words};
  return cure;
}

void add_settings(Finding& finding, const ModelResult& model, std::string what, const std::string& words,
                  std::optional<Bytes> saves) {
  RuntimeSettings changed = model.settings;
  set_settings(changed, words);
  if (!(changed == model.settings))
    finding.cures.push_back(with_settings(model, std::move(what), words, saves));
}

void add_leaner_settings(Finding& finding, const ModelResult& model) {
  const auto add = [&](const char* what, const char* words) { add_settings(finding, model, what, words); };
  if (!is_on_cpu(model)) {
    add("choose convolutions that need little workspace", "workspace=small");
    add("choose convolutions by heuristics: the search needs workspace too", "convolutions=heuristic");
    if (is_onnxruntime(model))
      add("let the arena grow by the requested size, not to the next power of two",
          "extend=same_as_requested");
    return;
  }
  if (model.backend == "libtorch") return;  // it has none of these
  add("disable the memory pattern, which plans blocks ahead", "pattern=off");
  if (!is_onnxruntime(model)) return;
  // Weights are pages of a file then, which the kernel can take back.
  if (can_map(model))
    add_settings(finding, model, "map the weights from a prepared file", "mapped=on", model.file_size);
  add("disable the arena", "arena=off");
  add("keep no re-packed copies of the weights (slower runs)", "prepack=off");
}

Cure smaller_input() {
  return {"use a smaller input: --imgsz 320 (models with a fixed input size ignore it)", "", {}};
}

}  // namespace headroom::doctor
