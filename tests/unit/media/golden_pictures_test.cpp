// Real pictures of each kind, format and orientation have the same pixels as with OpenCV 4.6
// (fingerprints.tsv).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "media/media_engine.h"
#include "support/test_support.h"
#include "unit/media/media_test_support.h"

namespace headroom::media {
namespace {
namespace fs = std::filesystem;

const fs::path& golden_folder() {
  static const fs::path folder = test::source_path("tests/golden/pictures");
  return folder;
}

std::map<std::string, std::string> golden_fingerprints() {
  std::map<std::string, std::string> expected;
  std::istringstream lines(test::read_text(golden_folder() / "fingerprints.tsv"));
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with('#')) expected[line.substr(0, line.find('\t'))] = line.substr(line.find('\t') + 1);
  return expected;
}

std::string decoded_fingerprint(const std::string& name) {
  Picture picture;
  const auto decoded = engine().decode_image((golden_folder() / name).string(), picture);
  if (!decoded) return decoded.error().sentence();
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::uint8_t value : picture.bgr) hash = (hash ^ value) * 0x100000001b3U;
  return fmt::format("{}\t{}\t{:016x}", picture.width, picture.height, hash);
}

TEST(GoldenPictures, HaveThePixelsOfOpenCv) {
  const auto expected = golden_fingerprints();
  EXPECT_GT(expected.size(), 80U);
  for (const auto& [name, fingerprint] : expected) EXPECT_EQ(decoded_fingerprint(name), fingerprint) << name;
}

// OpenCV 4.6 gives wrong pixels for the first of each pair. The second is the same picture in another form.
const std::map<std::string, std::string> kTwins{
    {"bmp_8_runs_padded.bmp", "bmp_8_plain.bmp"},
    {"png_48_orientation_6.png", "tiff_48_orientation_6.tiff"},
    {"tiff_grey_2.tiff", "png_grey_2.png"},
    {"tiff_planes_48.tiff", "tiff_48.tiff"},
    {"tiff_tiles_orientation_6.tiff", "tiff_orientation_6.tiff"},
};

TEST(GoldenPictures, KindsThatOpenCvMisreadsEqualTheirTwins) {
  for (const auto& [name, twin] : kTwins)
    EXPECT_EQ(decoded_fingerprint(name), decoded_fingerprint(twin)) << name;
}

TEST(GoldenPictures, AnAnimationIsRejected) {
  Picture picture;
  const auto decoded = engine().decode_image((golden_folder() / "webp_animation.webp").string(), picture);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().why, "the WebP is an animation; only still pictures are decoded");
}

// The memory for a turned picture is asked for once, with its size as shown.
TEST(GoldenPictures, TurnedPicturesAreDecodedInPlace) {
  for (const char* name : {"jpeg_orientation_6.jpg", "png_orientation_6.png", "tiff_orientation_6.tiff"}) {
    std::vector<PictureSize> sizes;
    std::vector<std::uint8_t> memory;
    ASSERT_TRUE(engine().decode_image_into((golden_folder() / name).string(), [&](PictureSize size) {
      sizes.push_back(size);
      memory.resize(size.bytes());
      return memory.data();
    }));
    EXPECT_THAT(sizes, testing::ElementsAre(PictureSize{26, 37})) << name;
  }
}

TEST(GoldenPictures, MasksGivePaletteIndicesOrValues) {
  const auto ids = [](const char* name) {
    return engine().read_mask_ids((golden_folder() / name).string()).value();
  };
  EXPECT_THAT(ids("png_palette_1.png"), testing::ElementsAre(1));
  EXPECT_EQ(ids("png_palette_4.png").back(), 11);  // 12 colours
  EXPECT_EQ(ids("png_palette_8.png"), ids("png_palette_8_interlaced.png"));
  EXPECT_THAT(ids("png_grey_1.png"), testing::ElementsAre(255));
  EXPECT_LT(ids("tiff_grey_12.tiff").back(), 4096);
  EXPECT_EQ(ids("png_grey_16.png"), ids("tiff_grey_16.tiff"));
  EXPECT_GT(ids("png_grey_16.png").back(), 255);
}

TEST(GoldenPictures, AllHaveAFingerprint) {
  auto expected = golden_fingerprints();
  for (const auto& [name, twin] : kTwins) expected[name];
  for (const char* name : {"bmp_8_plain.bmp", "webp_animation.webp"}) expected[name];
  for (const auto& entry : fs::directory_iterator(golden_folder())) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name == "fingerprints.tsv" || expected.contains(name)) << name;
  }
}

// A cut or damaged file gives an error or a picture, never a crash, and never writes beyond the frame.
TEST(GoldenPictures, CutAndDamagedFilesStayInsideTheFrame) {
  test::TemporaryFolder folder;
  const std::string path = (folder / "damaged").string();
  constexpr std::size_t kGuard = 4096, kSteps = 12;
  for (const auto& entry : fs::directory_iterator(golden_folder())) {
    const std::string whole = test::read_text(entry.path());
    for (std::size_t step = 1; step < kSteps; ++step) {
      std::string damaged = whole;
      const std::size_t at = whole.size() * step / kSteps;
      if (step % 2 == 0)
        damaged.resize(at);
      else
        damaged[at] = static_cast<char>(damaged[at] ^ 0xA5);
      test::write_text(path, damaged);
      std::vector<std::uint8_t> memory;
      const auto decoded = engine().decode_image_into(path, [&](PictureSize size) -> std::uint8_t* {
        if (size.bytes() > 64U << 20U) return nullptr;
        memory.assign(size.bytes() + kGuard, 0xAB);
        return memory.data();
      });
      EXPECT_TRUE(decoded || !decoded.error().why.empty()) << entry.path();
      const std::size_t frame = memory.size() < kGuard ? 0 : memory.size() - kGuard;
      EXPECT_TRUE(std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(frame), memory.end(),
                              [](std::uint8_t value) { return value == 0xAB; }))
          << entry.path() << " at " << at;
    }
  }
}

}  // namespace
}  // namespace headroom::media
