// A plug-in of this build, started once for a test program, and what tests do with its sessions.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "inference/backend.h"
#include "support/test_support.h"
#include "unit/inference/results.h"

namespace headroom::test {

using Dims = std::vector<std::int64_t>;

inline std::filesystem::path plugin_path(const std::string& name) {
  return built_path("bin/libheadroom_backend_" + name + ".so");
}

inline std::vector<Dims> shapes_of(const std::vector<TensorView>& views) {
  std::vector<Dims> shapes;
  for (const TensorView& view : views) shapes.emplace_back(view.dims, view.dims + view.rank);
  return shapes;
}

// The values of all float outputs, in order.
inline std::vector<float> values_of(const std::vector<TensorView>& views) {
  std::vector<float> values;
  for (const TensorView& view : views)
    if (view.data != nullptr && view.type == ElementType::float32)
      values.insert(values.end(), view.as_float(), view.as_float() + view.count());
  return values;
}

inline std::int64_t threads_of_this_process() {
  const std::string status = value_of(read_small_file("/proc/self/status"));
  for (const std::string_view line : split(status, '\n'))
    if (line.starts_with("Threads:")) return parse_number<std::int64_t>(trim(line.substr(8))).value_or(0);
  return 0;
}

class PluginTest : public ::testing::Test {
 protected:
  static void start(const std::string& name) {
    if (backend_) return;
    inference::Backend opened = value_of(inference::Backend::open({name, plugin_path(name)}));
    const Status started = opened.start();
    if (!started && started.error().kind == ErrorKind::input)
      GTEST_SKIP() << absent_message(started.error().sentence());
    value_of(started);
    backend_ = std::move(opened);
  }
  static void TearDownTestSuite() { backend_.reset(); }

  static RuntimeSettings one_thread() {
    RuntimeSettings settings;
    settings.threads = 1;
    return settings;
  }
  static Error error_of_loading(const std::filesystem::path& path,
                                const RuntimeSettings& settings = one_thread()) {
    return error_of(backend_->load(path, settings));
  }
  static Status bind(inference::Session& session, std::vector<float>& values, const Dims& dims) {
    return session.bind_input(0, values.data(), values.size() * sizeof(float), ElementType::float32, dims);
  }

  static inline std::optional<inference::Backend> backend_;
};

}  // namespace headroom::test
