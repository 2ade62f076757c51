#include "support/test_support.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace headroom::test {
namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "headroom-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::optional<fs::path> shared_data(const std::string& relative_path) {
  const char* elsewhere = std::getenv("HEADROOM_SHARED_DATA");
  const fs::path root =
      elsewhere != nullptr ? fs::path(elsewhere) : fs::path(HEADROOM_SOURCE_DIR) / "../shared/data";
  const fs::path path = root / relative_path;
  if (!fs::exists(path)) return std::nullopt;
  return fs::canonical(path);
}

std::optional<fs::path> dependency_file(const std::string& relative_path) {
  const fs::path path = fs::path(HEADROOM_SOURCE_DIR) / ".deps" / relative_path;
  if (!fs::exists(path)) return std::nullopt;
  return fs::canonical(path);
}

std::optional<fs::path> opencv_example(const std::string& relative_path) {
  const fs::path path = fs::path("/usr/share/doc/opencv-doc/examples") / relative_path;
  if (fs::exists(path)) return path;
  return dependency_file("opencv-doc/examples/" + relative_path);
}

std::string source_path(const std::string& relative) { return HEADROOM_SOURCE_DIR "/" + relative; }

std::string built_path(const std::string& relative) { return HEADROOM_BINARY_DIR "/" + relative; }

std::string absent_message(const std::string& what) {
  return what + " is not on this machine; this test needs it and is skipped";
}

void compare_with_golden(const std::string& file, const std::string& text) {
  const fs::path path = fs::path(source_path("tests/golden")) / file;
  if (std::getenv("HEADROOM_UPDATE_GOLDEN") != nullptr) {
    fs::create_directories(path.parent_path());
    write_text(path, text);
    return;
  }
  ASSERT_TRUE(fs::exists(path)) << path << " is missing; make it with HEADROOM_UPDATE_GOLDEN=1";
  EXPECT_EQ(read_text(path), text) << "differs from " << path;
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
}

}  // namespace headroom::test
