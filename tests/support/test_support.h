// Helpers for tests: temporary folders, and the paths of real input files.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

namespace headroom::test {

// A new folder that is removed at the end of the test.
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

// The path of a file of the shared test data outside the project ("models/mnist.onnx"). HEADROOM_SHARED_DATA
// sets another folder. Returns nothing if the file is missing; the test then skips with GTEST_SKIP() <<
// absent_message(...).
std::optional<std::filesystem::path> shared_data(const std::string& relative_path);
// A file of an npm package that scripts/install_dependencies.sh installed:
// "models/ch_PP-OCRv4_det_infer.onnx".
std::optional<std::filesystem::path> dependency_file(const std::string& relative_path);
// A photo or video of Debian's opencv-doc ("data/messi5.jpg"), at the path that scripts/opencv_examples.sh
// finds.
std::optional<std::filesystem::path> opencv_example(const std::string& relative_path);
// A file of the source tree ("docs/doctor.md"), or of the build folder ("bin/headroom").
std::string source_path(const std::string& relative);
std::string built_path(const std::string& relative);
std::string absent_message(const std::string& what);

// Whether the build runs many times slower: under a sanitizer or an emulator.
#if defined(HEADROOM_SANITIZED) || defined(HEADROOM_EMULATED)
inline constexpr bool kIsSlowBuild = true;
#else
inline constexpr bool kIsSlowBuild = false;
#endif
// Why a slow build skips tests of a rate over thousands of trials, or of a search that takes minutes. Other
// tests run the same code in slow builds.
inline constexpr const char* kOnlyInPlainBuilds =
    "skipped in slow builds: the result is the same in every build";
// How many of `times` independent repetitions a build runs.
constexpr int repetitions(int times) { return kIsSlowBuild ? (times + 9) / 10 : times; }

// Compares the text with the file in tests/golden. With HEADROOM_UPDATE_GOLDEN=1 writes the file instead.
void compare_with_golden(const std::string& file, const std::string& text);

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace headroom::test
