// Tests with the LibTorch plug-in, and with the modules that torchscript_models.py made with PyTorch.
#pragma once

#include <cstring>
#include <numeric>

#include "plugin_fixture.h"

namespace headroom::test {

// The input for which torchscript_models.py stored the expected results.
inline std::vector<float> filled(const Dims& dims) {
  std::vector<float> values(static_cast<std::size_t>(
      std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>())));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 251) / 251.0F;
  return values;
}

class LibTorch : public PluginTest {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(made("made")))
      GTEST_SKIP() << absent_message("PyTorch for python3 (python3-torch), which makes the modules");
    start("libtorch");
  }
  static std::filesystem::path made(const std::string& file) {
    return built_path("tests/torchscript/" + file);
  }
  static std::filesystem::path module(const std::string& name) { return made(name + ".pt"); }
  static std::vector<float> expected(const std::string& name) {
    const std::string bytes = read_text(made(name + ".expected"));
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }
};

}  // namespace headroom::test
