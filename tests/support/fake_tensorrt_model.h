// A model of the fake TensorRT: a text of lines, and the log of calls. FAKE_TENSORRT_LOG is the log's path.
//
// Lines:
// - input NAME DIM …, output NAME DIM …: float32; a -1 in an output becomes 1 at run time
// - scratch BYTES, weights BYTES
// - trial BYTES: allocated by the builder
// - lacks FILE: the builder cannot load this library
// - quantized
// - bad TEXT: an error of the parser
// - plugin NAME: the engine has a layer of this plug-in
#pragma once

#include <NvInfer.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace fake_tensorrt {

using namespace nvinfer1;

struct Tensor {
  std::string name;
  Dims dims{};
  bool is_input = false;
};
struct Model {
  std::vector<Tensor> tensors;
  std::uint64_t scratch = 0, weights = 0, trial = 0;
  bool quantized = false;
  std::string bad, lacks, plugin, text;
  const Tensor* find(const char* name) const {
    for (const Tensor& tensor : tensors)
      if (tensor.name == name) return &tensor;
    return nullptr;
  }
};

template <class... Values>
void note(const Values&... values) {
  const char* file = std::getenv("FAKE_TENSORRT_LOG");
  if (file == nullptr) return;
  std::ostringstream line;
  ((line << values << ' '), ...);
  std::string text = line.str();
  text.back() = '\n';
  if (std::FILE* out = std::fopen(file, "a")) {
    std::fputs(text.c_str(), out);
    std::fclose(out);
  }
}

inline std::string text_of(const Dims& dims) {
  std::string text;
  for (int32_t i = 0; i < dims.nbDims; ++i) text += (i > 0 ? "x" : "") + std::to_string(dims.d[i]);
  return text;
}

inline std::uint64_t bytes_of(const Dims& dims) {
  std::uint64_t bytes = sizeof(float);
  for (int32_t i = 0; i < dims.nbDims; ++i) bytes *= static_cast<std::uint64_t>(std::abs(dims.d[i]));
  return bytes;
}

inline Model read_model(const std::string& text) {
  Model model;
  model.text = text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "input" || word == "output") {
      Tensor tensor;
      tensor.is_input = word == "input";
      words >> tensor.name;
      for (std::int64_t dim = 0; words >> dim;) tensor.dims.d[tensor.dims.nbDims++] = dim;
      model.tensors.push_back(tensor);
    }
    if (word == "scratch") words >> model.scratch;
    if (word == "weights") words >> model.weights;
    if (word == "trial") words >> model.trial;
    if (word == "lacks") words >> model.lacks;
    if (word == "quantized") model.quantized = true;
    if (word == "plugin") words >> model.plugin;
    if (word == "bad") std::getline(words >> std::ws, model.bad);
  }
  return model;
}

}  // namespace fake_tensorrt
