// Compares the estimates of decoding_memory with the memory that the process really uses, from the kernel's
// high-water mark.
#include <malloc.h>

#include <fstream>

#include "base/files.h"
#include "base/text.h"
#include "media/image_memory.h"
#include "support/test_support.h"
#include "unit/media/media_test_support.h"

namespace headroom::media {
namespace {

#if defined(HEADROOM_SANITIZED)
constexpr bool kSanitized = true;  // a sanitizer keeps freed memory and allocates more
#else
constexpr bool kSanitized = false;
#endif

// A line of /proc/self/status in bytes, or -1.
std::int64_t status_of(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) {
      const auto words = split_words(line);
      return parse_number<std::int64_t>(words[1]).value_or(-1) * 1024;
    }
  return -1;
}

class MemoryOfDecoding : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer allocates memory, too";
    if (!(std::ofstream("/proc/self/clear_refs") << "5" << std::flush) || status_of("VmHWM") < 0)
      GTEST_SKIP() << test::absent_message("a high-water mark that can be reset");
    ::mallopt(M_MMAP_THRESHOLD, 1 << 20);  // the same setting as in the scan
  }

  // Writes the picture, decodes it, and compares.
  void check(const std::string& name, const cv::Mat& image, const std::vector<int>& parameters = {},
             double at_least = 0.8) {
    const std::string path = (folder_ / name).string();
    write_image(path, image, parameters);
    std::int64_t estimate = 0;
    {
      const auto file = read_file(path);
      ASSERT_TRUE(file);
      const auto header = inspect_image({reinterpret_cast<const std::uint8_t*>(file->data()), file->size()});
      ASSERT_TRUE(header) << header.error().what;
      estimate = decoding_memory(*header, {static_cast<std::int64_t>(file->size())}).count;
    }
    Picture warm;  // one-time allocations of the library
    ASSERT_TRUE(engine().decode_image(path, warm));
    warm = {};
    std::ofstream("/proc/self/clear_refs") << "5" << std::flush;
    const std::int64_t before = status_of("VmRSS");
    Picture picture;
    ASSERT_TRUE(engine().decode_image(path, picture));
    const std::int64_t taken = status_of("VmHWM") - before;
    constexpr std::int64_t kNoise = 2 << 20;  // small allocations, and pages of the library itself
    EXPECT_LE(taken, estimate + kNoise) << name;
    EXPECT_GE(static_cast<double>(taken + kNoise), static_cast<double>(estimate) * at_least)
        << name << ": a picture that fits would be skipped";
  }

  test::TemporaryFolder folder_;
  static cv::Mat of_type(int type) { return cv::Mat(2400, 3200, type, cv::Scalar(20, 120, 60, 200)); }
};

TEST_F(MemoryOfDecoding, MatchesTheEstimateForEightBits) {
  check("a.png", of_type(CV_8UC3));
  check("b.png", of_type(CV_8UC4));
  check("c.png", of_type(CV_8UC1));
  check("d.jpg", of_type(CV_8UC3));
  check("e.bmp", of_type(CV_8UC3));
  check("f.tiff", of_type(CV_8UC3));
}

TEST_F(MemoryOfDecoding, MatchesTheEstimateForProgressiveJpegAndWebp) {
  check("a.jpg", of_type(CV_8UC3), {cv::IMWRITE_JPEG_PROGRESSIVE, 1});
  check("b.jpg", of_type(CV_8UC1), {cv::IMWRITE_JPEG_PROGRESSIVE, 1});
  check("c.webp", of_type(CV_8UC3), {cv::IMWRITE_WEBP_QUALITY, 80});
  // In lossless mode a picture of one colour uses a palette, and so less memory than others.
  check("d.webp", of_type(CV_8UC3), {cv::IMWRITE_WEBP_QUALITY, 101}, 0.4);
  check("e.webp", of_type(CV_8UC4), {cv::IMWRITE_WEBP_QUALITY, 80});
  check("f.webp", of_type(CV_8UC4), {cv::IMWRITE_WEBP_QUALITY, 101}, 0.4);
}

TEST_F(MemoryOfDecoding, MatchesTheEstimateForDeepPictures) {
  check("a.png", of_type(CV_16UC1));
  check("b.png", of_type(CV_16UC3));
  check("c.png", of_type(CV_16UC4));
  check("d.tiff", of_type(CV_16UC1));
  check("e.tiff", of_type(CV_16UC3));
  check("f.tiff", of_type(CV_32FC1));
  check("g.tiff", of_type(CV_32FC3));
  check("h.tiff", of_type(CV_64FC1));
}

}  // namespace
}  // namespace headroom::media
