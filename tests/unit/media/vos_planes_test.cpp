#include "media/vos/planes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/files.h"
#include "base/unfinished.h"
#include "inference/vos/small_floats.h"
#include "media/vos/squash.h"
#include "support/test_support.h"
#include "unit/media/media_test_support.h"

namespace headroom::media::vos {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

std::string squashed(int width, int height, int side) {
  std::vector<std::uint8_t> bgr;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      bgr.push_back((x / 2 + y / 2) % 2 != 0 ? 255 : 0);
      bgr.push_back(static_cast<std::uint8_t>((x * x * 5 + y * 13) % 256));
      bgr.push_back(static_cast<std::uint8_t>((x * 37 + y * 91) % 256));
    }
  std::vector<std::uint8_t> planes(static_cast<std::size_t>(3 * side * side));
  Squasher(side).run(bgr.data(), width, height, planes);
  return fingerprint_of({reinterpret_cast<const char*>(planes.data()), planes.size()});
}

// Image.fromarray(picture).resize((side, side)) of Pillow 11.3 gives these planes.
TEST(Squasher, EqualsPillowToTheBit) {
  EXPECT_EQ(squashed(7, 5, 4), "67a3f8e3fbff2d5c");
  EXPECT_EQ(squashed(7, 5, 8), "811bc863f999e428");
  EXPECT_EQ(squashed(40, 30, 16), "7d1d5d9ef4ceba21");
  EXPECT_EQ(squashed(16, 16, 16), "8e02d6ad8ca1ce45");
  EXPECT_EQ(squashed(97, 211, 64), "63f385e5700d1b8c");
}

class Planes : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(out_);
    video_.id = "a clip";
    for (int i = 0; i < 6; ++i) add_frame(cv::Scalar(10 * i, 20, 30));
  }
  void add_frame(const cv::Scalar& bgr) {
    const fs::path path = folder_ / (std::to_string(video_.frames.size()) + ".png");
    write_image(path, cv::Mat(9, 12, CV_8UC3, bgr));
    video_.frames.push_back(path.string());
  }
  PreparedPlanes prepare(std::int64_t frames = 100) {
    decoded_ = 0;
    auto prepared = prepare_planes(engine(), video_, format_, frames, out_, [&] { ++decoded_; });
    EXPECT_TRUE(prepared) << prepared.error().sentence();
    return prepared.value_or(PreparedPlanes{});
  }
  static std::string error_of(const fs::path& path) {
    const auto reader = PlanesReader::open(path, 1);
    return reader ? "" : reader.error().sentence();
  }

  static constexpr int kSide = 64;  // a frame takes whole pages
  test::TemporaryFolder folder_;
  fs::path out_ = folder_ / "planes";
  VosVideo video_;
  PlanesFormat format_{kSide};
  int decoded_ = 0;
};

TEST_F(Planes, HoldTheFramesAsRedGreenAndBlue) {
  const PreparedPlanes prepared = prepare();
  EXPECT_EQ(prepared.frames, 6);
  EXPECT_EQ(decoded_, 6);
  auto reader = PlanesReader::open(prepared.path, 2);
  ASSERT_TRUE(reader) << reader.error().sentence();
  EXPECT_EQ(reader->side(), kSide);
  ASSERT_EQ(reader->frames(), 6);
  for (int i = 0; i < 6; ++i) {
    const auto planes = reader->frame(i);
    ASSERT_EQ(planes.size(), 3U * kSide * kSide);
    EXPECT_EQ(planes[0], 30);
    EXPECT_EQ(planes[kSide * kSide], 20);
    EXPECT_EQ(planes.back(), 10 * i);
  }
}

TEST_F(Planes, HoldNormalisedHalvesOnRequest) {
  format_ = {kSide, PlaneType::fp16, {0.5F, 0.25F, 0}, {0.25F, 0.5F, 2}};
  const PreparedPlanes prepared = prepare();
  EXPECT_EQ(static_cast<std::int64_t>(fs::file_size(prepared.path)),
            planes_file_size(kSide, PlaneType::uint8, 12).count);
  auto reader = PlanesReader::open(prepared.path, 2);
  ASSERT_TRUE(reader) << reader.error().sentence();
  EXPECT_EQ(reader->type(), PlaneType::fp16);
  for (int i = 0; i < 6; ++i) {
    const auto halves = PlanesReader::as_halves(reader->frame(i));
    ASSERT_EQ(halves.size(), 3U * kSide * kSide);
    EXPECT_EQ(halves[0], inference::vos::to_float16((30.0F / 255 - 0.5F) / 0.25F));
    EXPECT_EQ(halves[kSide * kSide], inference::vos::to_float16((20.0F / 255 - 0.25F) / 0.5F));
    EXPECT_EQ(halves.back(), inference::vos::to_float16(static_cast<float>(10 * i) / 255 / 2));
  }
}

TEST_F(Planes, OfEachTypeAndNormalisationAreWrittenOnce) {
  prepare();
  format_.type = PlaneType::fp16;
  EXPECT_FALSE(prepare().was_there);
  EXPECT_EQ(decoded_, 6);
  EXPECT_TRUE(prepare().was_there);
  EXPECT_EQ(decoded_, 0);
  format_.mean[1] = 0.5F;
  EXPECT_FALSE(prepare().was_there);
  format_ = {kSide};
  EXPECT_TRUE(prepare().was_there);  // the levels are still there
  format_.mean[1] = 0.25F;           // and have no mean
  EXPECT_TRUE(prepare().was_there);
}

TEST_F(Planes, AreNotWrittenTwice) {
  const PreparedPlanes first = prepare();
  EXPECT_FALSE(first.was_there);
  const PreparedPlanes second = prepare();
  EXPECT_TRUE(second.was_there);
  EXPECT_EQ(decoded_, 0);
  EXPECT_EQ(second.path, first.path);
}

TEST_F(Planes, AreWrittenAgainForAnotherPicture) {
  prepare();
  write_image(video_.frames[2], cv::Mat(9, 12, CV_8UC3, cv::Scalar(1, 2, 3)));
  fs::last_write_time(video_.frames[2], fs::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_FALSE(prepare().was_there);
  EXPECT_EQ(decoded_, 6);
}

TEST_F(Planes, WithMoreFramesAreUsedAsTheyAre) {
  const PreparedPlanes all = prepare();
  const std::string before = test::read_text(all.path);
  const PreparedPlanes first = prepare(4);
  EXPECT_TRUE(first.was_there);
  EXPECT_EQ(first.frames, 4);
  EXPECT_EQ(decoded_, 0);
  EXPECT_EQ(first.path, all.path);
  EXPECT_EQ(test::read_text(all.path), before);
}

TEST_F(Planes, WithFewerFramesAreWrittenAgain) {
  EXPECT_FALSE(prepare(4).was_there);
  EXPECT_EQ(decoded_, 4);
  EXPECT_FALSE(prepare(5).was_there);
  EXPECT_EQ(decoded_, 5);
  EXPECT_FALSE(prepare().was_there);
  EXPECT_EQ(decoded_, 6);
  EXPECT_TRUE(prepare(5).was_there);
}

TEST_F(Planes, WithMoreFramesThanPicturesAreWrittenAgain) {
  prepare();
  video_.frames.resize(4);
  EXPECT_FALSE(prepare().was_there);
  EXPECT_EQ(decoded_, 4);
}

TEST_F(Planes, WithAChangedLaterPictureAreWrittenAgain) {
  prepare();
  fs::last_write_time(video_.frames[5], fs::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_FALSE(prepare(4).was_there);
  EXPECT_EQ(decoded_, 4);
}

TEST_F(Planes, OfKilledSetupsAreRemovedAndThoseOfRunningOnesStay) {
  const fs::path finished = prepare().path;
  test::write_text(out_ / "gone-64-uint8-0123abcd.planes.tmp-4194304-1", "half a file");
  test::write_text(out_ / "notes.planes.tmp-mine", "the user's own file");
  test::write_text(out_ / "other.tmp-123-1", "the user's own file");
  auto running = UnfinishedFile::create(out_ / "running-64-uint8-0123abcd.planes");
  ASSERT_TRUE(running);
  remove_abandoned_planes(out_);
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(out_)) left.push_back(entry.path().filename().string());
  EXPECT_THAT(left, testing::UnorderedElementsAre(finished.filename().string(), "notes.planes.tmp-mine",
                                                  "other.tmp-123-1", running->path().filename().string()));
  remove_abandoned_planes(out_ / "none");  // does nothing
}

TEST_F(Planes, NameAFrameThatCannotBeDecoded) {
  test::write_text(video_.frames[3], "no picture");
  const auto prepared = prepare_planes(engine(), video_, format_, 100, out_);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().kind, ErrorKind::input);
  EXPECT_THAT(prepared.error().sentence(), HasSubstr(video_.frames[3]));
  EXPECT_TRUE(fs::is_empty(out_));  // nothing half written remains
}

TEST_F(Planes, RejectFilesThatAreCutOffOrOfAnotherKind) {
  const fs::path path = prepare().path;
  EXPECT_EQ(error_of(path), "");
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_THAT(error_of(path), HasSubstr("its size is not the one that its header announces"));
  EXPECT_FALSE(has_planes(video_, format_, 6, out_));
  test::write_text(path, "something else");
  EXPECT_THAT(error_of(path), HasSubstr("it is not a file of prepared frames"));
  EXPECT_THAT(error_of(out_ / "none"), HasSubstr("--skip-setup"));
}

std::int64_t resident_file_kib() {
  std::ifstream status("/proc/self/smaps");
  std::string line;
  bool is_ours = false;
  while (std::getline(status, line)) {
    if (line.find(".planes") != std::string::npos) is_ours = true;
    if (is_ours && line.starts_with("Rss:")) return std::stoll(line.substr(4));
  }
  return -1;
}

TEST_F(Planes, KeepsOnlyTheWindowResident) {
  constexpr int kLargeSide = 256, kFrames = 40, kWindow = 3;
  while (video_.frames.size() < kFrames) add_frame(cv::Scalar(1, 2, 3));
  const auto prepared = prepare_planes(engine(), video_, {kLargeSide}, kFrames, out_);
  ASSERT_TRUE(prepared);
  auto reader = PlanesReader::open(prepared->path, kWindow);
  ASSERT_TRUE(reader);
  const std::int64_t frame_kib = planes_frame_size(kLargeSide, PlaneType::uint8).count / 1024;
  for (int i = 0; i < kFrames; ++i) {
    reader->frame(i);
    const std::int64_t resident = resident_file_kib();
    EXPECT_GE(resident, frame_kib);
    // The kernel maps up to 16 pages around each page that is read.
    EXPECT_LE(resident, kWindow * frame_kib + 128) << "frame " << i;
  }
}

TEST_F(Planes, TellsThatTheDiskIsTooSmall) {
  EXPECT_TRUE(check_space(out_, mebibytes(1)));
  const auto fits = check_space(out_, gibibytes(1 << 20));
  ASSERT_FALSE(fits);
  EXPECT_THAT(fits.error().sentence(), HasSubstr("--limit-videos"));
}

TEST_F(Planes, OfTwoVideosWithOneNameAreTwoFiles) {
  VosVideo other = video_;
  other.frames.front() = "/elsewhere/0.png";
  EXPECT_NE(planes_path(video_, format_, out_), planes_path(other, format_, out_));
  EXPECT_NE(planes_path(video_, format_, out_), planes_path(video_, {2 * kSide}, out_));
}

}  // namespace
}  // namespace headroom::media::vos
