// Tests with the ONNX Runtime plug-in, and with models of the shared test data and of npm packages.
#pragma once

#include <cctype>

#include "inference/synthetic_input.h"
#include "plugin_fixture.h"

// Declares the path of a model; skips the test if the model is absent.
#define FIND_MODEL(path, name)                        \
  const auto path = headroom::test::find_model(name); \
  if (!path) GTEST_SKIP() << headroom::test::absent_message(name)

namespace headroom::test {

inline std::optional<std::filesystem::path> find_model(const std::string& name) {
  if (auto shared = shared_data("models/" + name)) return shared;
  return dependency_file("models/" + name);
}

// The name of a test with this file: letters, digits and underscores.
inline std::string name_of_case(std::string file) {
  for (char& c : file)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return file;
}

// A model with its synthetic inputs.
struct LoadedModel {
  inference::Session session;
  std::vector<inference::SyntheticInput> inputs;
};

class OnnxRuntime : public PluginTest {
 protected:
  void SetUp() override { start("onnxruntime"); }

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

  // Runs the model; returns the values of its float outputs.
  static std::vector<float> run(inference::Session& session) {
    value_of(session.run());
    std::vector<TensorView> views;
    value_of(session.outputs(views));
    return values_of(views);
  }
};

}  // namespace headroom::test
