// The ONNX Runtime plug-in of this build, started once for a test program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "inference/backend.h"
#include "inference/synthetic_input.h"
#include "support/test_support.h"

namespace headroom::test {

inline std::filesystem::path onnxruntime_plugin() {
  return std::filesystem::path(test::built_path("bin/libheadroom_backend_onnxruntime.so"));
}

// A model with its synthetic inputs.
struct LoadedModel {
  inference::Session session;
  std::vector<inference::SyntheticInput> inputs;
};

class OnnxRuntime : public ::testing::Test {
 protected:
  void SetUp() override {
    if (backend_) return;
    auto opened = inference::Backend::open({"onnxruntime", onnxruntime_plugin()});
    ASSERT_TRUE(opened) << opened.error().sentence();
    if (auto started = opened->start(); !started) GTEST_SKIP() << absent_message(started.error().sentence());
    backend_ = std::move(*opened);
  }
  static void TearDownTestSuite() { backend_.reset(); }

  static RuntimeSettings one_thread() {
    RuntimeSettings settings;
    settings.threads = 1;
    return settings;
  }

  // Loads a model and binds synthetic inputs.
  static Result<LoadedModel> load(const std::filesystem::path& path, const RuntimeSettings& settings,
                                  int image_size = 320) {
    auto session = backend_->load(path, settings);
    if (!session) return forward_error(session);
    auto inputs = inference::make_synthetic_inputs(session->description(), image_size, 1);
    if (!inputs) return forward_error(inputs);
    LoadedModel model{std::move(*session), std::move(*inputs)};
    for (std::size_t i = 0; i < model.inputs.size(); ++i) {
      auto& input = model.inputs[i];
      auto bound = model.session.bind_input(i, input.data.data(), input.data.size(), input.type, input.dims);
      if (!bound) return forward_error(bound);
    }
    return model;
  }

  static inline std::optional<inference::Backend> backend_;
};

}  // namespace headroom::test
