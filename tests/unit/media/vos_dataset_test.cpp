#include "media/vos/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "media/vos/masks.h"
#include "support/test_support.h"
#include "unit/evaluation/masks_of_text.h"
#include "unit/media/media_test_support.h"

namespace headroom::media::vos {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kWidth = 40, kHeight = 30;

std::string frame_name(int frame, const char* extension) {
  return "000" + std::string(frame < 10 ? "0" : "") + std::to_string(frame) + extension;
}

class VosDatasetTest : public testing::Test {
 protected:
  void frames(const std::string& folder, int count) {
    for (int i = 0; i < count; ++i)
      write_image(root_ / folder / frame_name(i, ".jpg"), test_picture(kWidth, kHeight));
  }
  // Stripes of these values, each 5 pixels wide.
  void mask(const std::string& file, const std::vector<int>& values, int width = kWidth) {
    LabelPicture labels{width, kHeight, std::vector<std::uint8_t>(static_cast<std::size_t>(width * kHeight))};
    for (std::size_t i = 0; i < labels.values.size(); ++i) {
      const std::size_t stripe = i % static_cast<std::size_t>(width) / 5;
      if (stripe < values.size()) labels.values[i] = static_cast<std::uint8_t>(values[stripe]);
    }
    fs::create_directories((root_ / file).parent_path());
    ASSERT_TRUE(engine().write_labels(labels, (root_ / file).string()));
  }
  void text(const std::string& file, const std::string& content) {
    fs::create_directories((root_ / file).parent_path());
    test::write_text(root_ / file, content);
  }
  VosDataset scan(const DatasetOptions& options = {}) {
    auto dataset = scan_dataset(engine(), root_, options);
    EXPECT_TRUE(dataset) << dataset.error().sentence();
    return dataset ? std::move(*dataset) : VosDataset{};
  }
  std::string error_of(const DatasetOptions& options = {}) {
    const auto dataset = scan_dataset(engine(), root_, options);
    return dataset ? "no error" : dataset.error().sentence();
  }
  static std::vector<std::string> ids_of(const VosDataset& dataset) {
    std::vector<std::string> ids;
    for (const VosVideo& video : dataset.videos)
      for (const VosObject& object : video.objects) ids.push_back(video.id + "/" + object.id);
    return ids;
  }
  static std::vector<std::string> left_out_of(const VosDataset& dataset) {
    std::vector<std::string> all;
    for (const VosLeftOut& item : dataset.left_out)
      all.push_back(item.video + "/" + item.object + ": " + item.why);
    return all;
  }

  test::TemporaryFolder folder_;
  fs::path root_ = folder_.path();
};

TEST_F(VosDatasetTest, ReadsSav) {
  for (const char* video : {"sav_1", "sav_2"}) frames("JPEGImages_24fps/" + std::string(video), 9);
  for (const int frame : {0, 4, 8}) {
    mask("Annotations_6fps/sav_1/000/" + frame_name(frame, ".png"), {1});
    mask("Annotations_6fps/sav_1/001/" + frame_name(frame, ".png"), {0, 1});
    mask("Annotations_6fps/sav_2/000/" + frame_name(frame, ".png"), {1});
  }
  const VosDataset dataset = scan();
  EXPECT_EQ(dataset.layout, VosLayout::sav);
  EXPECT_THAT(ids_of(dataset), ElementsAre("sav_1/000", "sav_1/001", "sav_2/000"));
  const VosVideo& video = dataset.videos[0];
  EXPECT_EQ(video.frames.size(), 9U);
  EXPECT_EQ(video.width, kWidth);
  EXPECT_EQ(video.height, kHeight);
  EXPECT_EQ(video.objects[1].value, 0);
  ASSERT_EQ(video.objects[1].masks.size(), 3U);
  EXPECT_THAT(video.objects[1].masks.at(4), HasSubstr("Annotations_6fps/sav_1/001/00004.png"));
  EXPECT_TRUE(dataset.left_out.empty());
}

TEST_F(VosDatasetTest, ListOfVideosChoosesThem) {
  for (const char* video : {"a", "b", "c"}) {
    frames("JPEGImages_24fps/" + std::string(video), 1);
    mask("Annotations_6fps/" + std::string(video) + "/000/00000.png", {1});
  }
  text("sav_val.txt", "c\n\na\r\nnot_there\nc\n");
  const VosDataset dataset = scan();
  EXPECT_THAT(ids_of(dataset), ElementsAre("c/000", "a/000"));
  ASSERT_EQ(dataset.left_out.size(), 1U);
  EXPECT_THAT(left_out_of(dataset)[0], HasSubstr("not_there/: it has no folder "));
}

TEST_F(VosDatasetTest, LeavesOutBrokenObjectsAndVideos) {
  for (const char* video : {"broken_frame", "good", "no_frames", "no_masks"})
    frames("JPEGImages_24fps/" + std::string(video), 1);
  fs::remove(root_ / "JPEGImages_24fps/no_frames/00000.jpg");
  text("JPEGImages_24fps/broken_frame/00000.jpg", "\xFF\xD8\xFF");
  mask("Annotations_6fps/broken_frame/000/00000.png", {1});
  mask("Annotations_6fps/good/000/00000.png", {1});
  mask("Annotations_6fps/good/001/00000.png", {0});
  text("Annotations_6fps/good/002/00000.png", "no picture");
  mask("Annotations_6fps/good/003/00007.png", {1});
  mask("Annotations_6fps/good/004/00000.png", {1}, 20);
  const VosDataset dataset = scan();
  EXPECT_THAT(ids_of(dataset), ElementsAre("good/000"));
  EXPECT_THAT(
      left_out_of(dataset),
      ElementsAre(HasSubstr("broken_frame/: its first frame 00000.jpg: truncated JPEG"),
                  "good/001: its first mask is empty", HasSubstr("good/002: its first mask: "),
                  "good/003: it has no mask with the name of a frame",
                  "good/004: its first mask has 20 x 30 pixels, its first frame 40 x 30",
                  HasSubstr("no_frames/: "), HasSubstr("no_masks/: it has no masks: there is no folder ")));
  EXPECT_THAT(ids_of(scan({.check_first_masks = false})),
              ElementsAre("good/000", "good/001", "good/002", "good/004"));
}

TEST_F(VosDatasetTest, ReadsDavis2017) {
  frames("JPEGImages/480p/bear", 3);
  frames("JPEGImages/480p/dog", 2);
  frames("JPEGImages/Full-Resolution/bear", 1);
  mask("Annotations/480p/bear/00000.png", {1, 3, 255});
  mask("Annotations/480p/bear/00001.png", {1});
  mask("Annotations/480p/dog/00000.png", {1});
  const VosDataset dataset = scan();
  EXPECT_EQ(dataset.layout, VosLayout::davis);
  EXPECT_THAT(ids_of(dataset), ElementsAre("bear/1", "bear/3", "dog/1"));
  EXPECT_EQ(dataset.videos[0].objects[1].value, 3);
  EXPECT_EQ(dataset.videos[0].objects[1].masks.size(), 2U);
  EXPECT_THAT(left_out_of(dataset), ElementsAre("bear/2: it is not in the video's first mask"));
  text("ImageSets/2016/val.txt", "bear\n");
  text("ImageSets/2017/val.txt", "dog\n");
  EXPECT_THAT(ids_of(scan()), ElementsAre("dog/1"));
}

TEST_F(VosDatasetTest, ReadsDavis2016) {
  frames("JPEGImages/480p/bear", 2);
  frames("JPEGImages/480p/dog", 2);
  for (const char* video : {"bear", "dog"})
    for (const char* name : {"00000.png", "00001.png"})
      mask("Annotations/480p/" + std::string(video) + "/" + name, {255});
  text("ImageSets/480p/val.txt",
       "/JPEGImages/480p/dog/00000.jpg /Annotations/480p/dog/00000.png\n"
       "/JPEGImages/480p/dog/00001.jpg /Annotations/480p/dog/00001.png\n");
  const VosDataset dataset = scan();
  EXPECT_THAT(ids_of(dataset), ElementsAre("dog/1"));
  EXPECT_EQ(dataset.videos[0].objects[0].value, 0);
}

TEST_F(VosDatasetTest, ReadsFramesAndGt) {
  frames("clips/bear/frames", 2);
  mask("clips/bear/gt/00000.png", {1, 2});
  frames("clips/dog/frames", 2);
  mask("clips/dog/gt/00000.png", {1});
  root_ = folder_ / "clips";
  EXPECT_THAT(ids_of(scan()), ElementsAre("bear/1", "bear/2", "dog/1"));
  root_ = folder_ / "clips/bear/";
  const VosDataset dataset = scan();
  EXPECT_THAT(ids_of(dataset), ElementsAre("bear/1", "bear/2"));
  EXPECT_EQ(dataset.layout, VosLayout::davis);
}

TEST_F(VosDatasetTest, LimitsCountUsableOnes) {
  for (const char* video : {"a", "b", "c"}) {
    frames(std::string(video) + "/frames", 1);
    mask(std::string(video) + "/gt/00000.png", {std::string(video) == "a" ? 0 : 1, 2, 3});
  }
  mask("a/gt/00000.png", {0});
  const VosDataset dataset = scan({.limit_videos = 1, .limit_objects = 2});
  EXPECT_THAT(ids_of(dataset), ElementsAre("b/1", "b/2"));
  EXPECT_THAT(left_out_of(dataset), ElementsAre("a/: its first mask is empty"));
}

TEST_F(VosDatasetTest, ReadsAFolderOfFramesWithPrompts) {
  frames("", 5);
  text("prompts.csv", "object,frame,points,box\ncat,0,10 10,\ncat,3,12 12,\ndog,1,,1 1 20 20\n");
  const VosDataset dataset = scan();
  EXPECT_EQ(dataset.layout, VosLayout::folder);
  ASSERT_EQ(dataset.videos.size(), 1U);
  EXPECT_EQ(dataset.videos[0].id, root_.filename().string());
  ASSERT_EQ(dataset.videos[0].objects.size(), 2U);
  EXPECT_EQ(dataset.videos[0].objects[0].prompts.size(), 2U);
  EXPECT_EQ(dataset.videos[0].objects[0].prompts[1].frame, 3);
  EXPECT_TRUE(dataset.videos[0].objects[0].masks.empty());
}

TEST_F(VosDatasetTest, ReadsVideosWithPrompts) {
  for (const char* video : {"a", "b", "c"}) frames(video, 2);
  text("a/prompts.json", R"([{"object": 1, "frame": 0, "points": [1, 2]}])");
  text("prompts.json", R"([{"video": "b", "object": 1, "frame": 0, "points": [1, 2]},
                           {"object": 2, "frame": 0, "points": [1, 2]},
                           {"object": 2, "frame": 1, "points": [1, 2]},
                           {"object": 3, "frame": 0, "points": [1, 2]},
                           {"video": "z", "object": 1, "frame": 0, "points": [1, 2]}])");
  const VosDataset dataset = scan();
  EXPECT_THAT(ids_of(dataset), ElementsAre("a/1", "b/1"));
  EXPECT_THAT(left_out_of(dataset), ElementsAre("c/: no prompt names it", "/2: its prompt names no video",
                                                "/3: its prompt names no video",
                                                "z/1: its prompt names a video that is not there"));
}

TEST_F(VosDatasetTest, LeavesOutPromptsThatDoNotFit) {
  frames("clip", 2);
  root_ = folder_ / "clip";
  text("prompts.csv",
       "object,frame,points,box\n1,0,10 10,\n2,2,1 1,\n3,0,40 10,\n4,0,,0 0 39 30\n5,0,-1 2,\n");
  const VosDataset dataset = scan();
  EXPECT_EQ(dataset.videos[0].objects.size(), 1U);
  EXPECT_THAT(left_out_of(dataset),
              ElementsAre("clip/3: its point 40, 10 is outside the frame of 40 x 30 pixels",
                          "clip/4: its box is not inside the frame of 40 x 30 pixels",
                          "clip/5: its point -1, 2 is outside the frame of 40 x 30 pixels",
                          "clip/2: its prompt is for frame 2, but the last frame is 1"));
}

TEST_F(VosDatasetTest, PromptsReplaceThoseOfTheGroundTruth) {
  frames("frames", 1);
  mask("gt/00000.png", {1, 2});
  text("elsewhere.json", R"([{"object": "02", "frame": 0, "points": [1, 2]}])");
  const VosDataset dataset = scan({.prompts = (root_ / "elsewhere.json").string()});
  ASSERT_EQ(dataset.videos[0].objects.size(), 2U);
  EXPECT_TRUE(dataset.videos[0].objects[0].prompts.empty());
  EXPECT_EQ(dataset.videos[0].objects[1].prompts.size(), 1U);
  EXPECT_FALSE(dataset.videos[0].objects[1].masks.empty());
}

TEST_F(VosDatasetTest, NamesTheProblemOfTheFolder) {
  EXPECT_THAT(error_of(), HasSubstr("it has neither frames nor the folders of SA-V or DAVIS"));
  frames("clip", 1);
  EXPECT_THAT(error_of(), HasSubstr("its frames have neither masks nor prompts; write prompts.json"));
  EXPECT_THAT(error_of({.prompts = (root_ / "none.csv").string()}), HasSubstr("none.csv"));
  text("prompts.csv", "object\n");
  EXPECT_THAT(error_of(), HasSubstr("cannot read the prompts "));
  text("prompts.csv", "object,frame,points\n1,5,1 1\n");
  EXPECT_THAT(error_of(), HasSubstr("no object of the data set "));
  root_ = folder_ / "nowhere";
  EXPECT_THAT(error_of(), HasSubstr("cannot list the folder "));
}

TEST_F(VosDatasetTest, NeedsMasksBesideTheFrames) {
  frames("JPEGImages_24fps/a", 1);
  EXPECT_THAT(error_of(), HasSubstr("has no folder of masks beside it; add Annotations_6fps (SA-V)"));
  fs::create_directories(root_ / "Annotations_6fps/a");
  EXPECT_THAT(error_of(),
              HasSubstr("video a: no mask has the name of a frame; replace or complete its files"));
}

}  // namespace
}  // namespace headroom::media::vos
