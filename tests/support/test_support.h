// What the tests share: temporary folders, and the places of real input.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

namespace headroom::test {

// A fresh folder, removed at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// A file of the shared test data ("models/mnist.onnx") that lies outside the project, or nothing where that
// folder is absent; tests then skip with GTEST_SKIP() << absent_message(...). HEADROOM_SHARED_DATA names
// another place.
std::optional<std::filesystem::path> shared_data(const std::string& relative_path);
// A file of an npm package that scripts/install_dependencies.sh installed:
// "models/ch_PP-OCRv4_det_infer.onnx".
std::optional<std::filesystem::path> dependency_file(const std::string& relative_path);
// A photo or video of Debian's opencv-doc ("data/messi5.jpg"), from where scripts/opencv_examples.sh finds
// it.
std::optional<std::filesystem::path> opencv_example(const std::string& relative_path);
std::string absent_message(const std::string& what);

// Under a sanitizer or an emulator, where all takes many times as long.
#if defined(HEADROOM_SANITIZED) || defined(HEADROOM_EMULATED)
inline constexpr bool kIsSlowBuild = true;
#else
inline constexpr bool kIsSlowBuild = false;
#endif
// For a test of a rate over thousands of trials, or of one search that takes minutes: what it says is the
// same of every build, and other tests run the same code there.
inline constexpr const char* kOnlyInPlainBuilds =
    "of arithmetic, the same in every build: a plain one has it";
// How many of `times` repetitions a build makes of what holds each time by itself.
constexpr int repetitions(int times) { return kIsSlowBuild ? (times + 9) / 10 : times; }

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace headroom::test
