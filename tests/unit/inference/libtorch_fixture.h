// The LibTorch plug-in of this build, started once per test program, and the modules that
// torchscript_models.py made with PyTorch.
#pragma once

#include <cstring>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "inference/backend.h"
#include "inference/synthetic_input.h"
#include "support/test_support.h"

namespace headroom::test {

using Dims = std::vector<std::int64_t>;

// The input for which torchscript_models.py stored the expected results.
inline std::vector<float> filled(const Dims& dims) {
  std::vector<float> values(static_cast<std::size_t>(
      std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>())));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 251) / 251.0F;
  return values;
}

inline std::vector<float> floats_of(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// The values of all float outputs, in order.
inline std::vector<float> values_of(const std::vector<TensorView>& views) {
  std::vector<float> values;
  for (const TensorView& view : views)
    if (view.data != nullptr && view.type == ElementType::float32)
      values.insert(values.end(), view.as_float(), view.as_float() + view.count());
  return values;
}

class LibTorch : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(std::filesystem::path(test::built_path("tests/torchscript")) / "made"))
      GTEST_SKIP() << absent_message("PyTorch for python3 (python3-torch), which makes the modules");
    if (backend_) return;
    auto opened = inference::Backend::open(
        {"libtorch", std::filesystem::path(test::built_path("bin/libheadroom_backend_libtorch.so"))});
    ASSERT_TRUE(opened) << opened.error().sentence();
    const Status started = opened->start();
    ASSERT_TRUE(started) << started.error().sentence();
    backend_ = std::move(*opened);
  }
  static void TearDownTestSuite() { backend_.reset(); }

  static std::filesystem::path module(const std::string& name) {
    return std::filesystem::path(test::built_path("tests/torchscript")) / (name + ".pt");
  }
  static std::vector<float> expected(const std::string& name) {
    return floats_of(
        read_text(std::filesystem::path(test::built_path("tests/torchscript")) / (name + ".expected")));
  }
  static RuntimeSettings one_thread() {
    RuntimeSettings settings;
    settings.threads = 1;
    return settings;
  }
  static Error error_of_loading(const std::filesystem::path& path,
                                const RuntimeSettings& settings = one_thread()) {
    const auto session = backend_->load(path, settings);
    EXPECT_FALSE(session);
    return session ? Error{} : session.error();
  }
  static Status bind(inference::Session& session, std::vector<float>& values, const Dims& dims) {
    return session.bind_input(0, values.data(), values.size() * sizeof(float), ElementType::float32, dims);
  }

  static inline std::optional<inference::Backend> backend_;
};

}  // namespace headroom::test
