#include "doctor/log/ggml_programs.h"

#include <algorithm>

#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kWhisper = "whisper.cpp", kDiffusion = "stable-diffusion.cpp";

void add_whisper_cures(bool is_host, std::vector<Cure>& cures) {
  cures.push_back({"use a smaller model: medium takes half of large, small a sixth",
                   "./models/download-ggml-model.sh medium",
                   {}});
  cures.push_back({"use a quantized model: q5_0 takes about a third of f16",
                   "./build/bin/quantize MODEL.bin MODEL-q5_0.bin q5_0",
                   {}});
  if (!is_host) cures.push_back({"compute on the CPU", "-ng", {}});
  cures.push_back({"see which other processes hold the memory", "headroom top", {}});
}

// "vae", whose buffer grows with the picture; the text encoders ("clip", "t5") and the weights can be
// elsewhere.
void add_diffusion_cures(const LogMessage& message, bool is_host, std::vector<Cure>& cures) {
  const bool is_weights = message.text("wanted") == "weights";
  const Cure tiles{"decode the image in tiles", "--vae-tiling", {}},
      fewer_bits{"use weights with fewer bits", "--type q8_0", {}};
  if (is_weights) cures.push_back(fewer_bits);
  if (!is_weights) cures.push_back(tiles);
  if (!is_host) {
    cures.push_back({"keep the text encoders off the GPU", "--clip-on-cpu", {}});
    cures.push_back({"keep the VAE off the GPU (slow)", "--vae-on-cpu", {}});
  }
  if (is_weights) cures.push_back(tiles);
  if (!is_weights) {
    cures.push_back({"generate a smaller image", "-W 512 -H 512", {}});
    cures.push_back(fewer_bits);
  }
}

}  // namespace

std::string_view ggml_program_of(std::string_view line) {
  constexpr std::string_view kOfWhisper[] = {"whisper_init",  "whisper_model", "whisper_kv_cache",
                                             "whisper_sched", "whisper_full",  "whisper_backend",
                                             "whisper_print_"};
  if (std::any_of(std::begin(kOfWhisper), std::end(kOfWhisper),
                  [line](std::string_view words) { return is_word(line, words); }))
    return kWhisper;
  return has(line, "stable-diffusion.cpp") || has(line, "ggml_extend.hpp") ? kDiffusion : "";
}

const std::vector<std::string_view>& ggml_program_anchors() {
  // Their fifth and sixth byte are rare together (anchor_search.h).
  static const std::vector<std::string_view> kAnchors{"isper_", "-diffusion.cpp", "ggml_extend.hpp"};
  return kAnchors;
}

bool is_of_ggml(const LogMessage& message) {
  constexpr std::string_view kNames[] = {"backend",    "program",        "runtime",
                                         "layers",     "context_length", "micro_batch",
                                         "free_bytes", "gpu_layers",     "model_buffer_bytes",
                                         "wanted",     "kv_cache_bytes", "requested_bytes"};
  return std::any_of(message.figures.begin(), message.figures.end(), [&](const Figure& figure) {
    return std::find(std::begin(kNames), std::end(kNames), figure.name) != std::end(kNames);
  });
}

bool add_ggml_program_cures(const LogMessage& message, bool is_host, std::vector<Cure>& cures) {
  const std::string program = message.text("program");
  if (program == kWhisper) add_whisper_cures(is_host, cures);
  if (program == kDiffusion) add_diffusion_cures(message, is_host, cures);
  return program == kWhisper || program == kDiffusion;
}

}  // namespace headroom::doctor
