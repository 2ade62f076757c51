// What Ollama says in its own words when a model does not fit, and cures in its own settings: it runs ggml,
// and has none of llama.cpp's flags.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

const std::vector<std::string_view>& ollama_anchors();

// A refusal of Ollama's own, or the end of its runner for want of memory: a later start is another load.
std::optional<LogMessage> read_ollama(std::string_view line);
// Whether the line is Ollama's by what stands around it: the journal's or Docker's name of it, its runner.
bool is_ollama_line(std::string_view line);

// Whether the message is Ollama's, by its line or by what the log held before it.
bool is_of_ollama(const LogMessage& message);
// Whether it is a refusal before anything was allocated, which explain_ollama() tells.
bool is_ollama_refusal(const LogMessage& message);
Finding explain_ollama(const LogMessage& message);

// Of several GPUs, among which Ollama divided the layers ("layers_split"): how many the one that was full
// has, of how many. Nothing where it is not told.
struct LayersOfGpu {
  std::int64_t own = 0, all = 0;
};
std::optional<LayersOfGpu> layers_of_gpu(const LogMessage& message);

// How many layers the GPU keeps, and what the others free.
struct GpuLayers {
  std::int64_t stay = 0;
  Bytes freed;
};
void add_ollama_cures(const LogMessage& message, const std::optional<GpuLayers>& layers, bool is_host,
                      std::vector<Cure>& cures);

// "\"5.3 GiB\"" and "4939212390": a value as Go's logger writes it.
std::optional<Bytes> logged_size(std::string_view line, std::string_view key);

}  // namespace headroom::doctor
