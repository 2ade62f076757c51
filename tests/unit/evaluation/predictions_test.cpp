#include "evaluation/predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "evaluation/evaluation_json.h"
#include "media/vos/dataset.h"
#include "support/test_support.h"

namespace headroom::evaluation {
namespace {

namespace fs = std::filesystem;
using media::LabelPicture;
using testing::HasSubstr;

media::MediaEngine& engine() {
  static const std::unique_ptr<media::MediaEngine> instance = [] {
    ::setenv("HEADROOM_BACKEND_PATH", test::built_path("bin").c_str(), 1);
    auto loaded = media::load_media_engine();
    if (!loaded) throw std::runtime_error(loaded.error().sentence());
    return std::move(*loaded);
  }();
  return *instance;
}

// A picture of 40 x 30 with a square of each value: value v begins at column 8 × (its place).
LabelPicture squares(const std::vector<int>& values) {
  LabelPicture labels{40, 30, std::vector<std::uint8_t>(1200)};
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t y = 10; y < 16; ++y)
      for (std::size_t x = 8 * i; x < 8 * i + 6; ++x)
        labels.values[y * 40 + x] = static_cast<std::uint8_t>(values[i]);
  return labels;
}

void write_labels(const fs::path& file, const LabelPicture& labels) {
  fs::create_directories(file.parent_path());
  const auto written = engine().write_labels(labels, file.string());
  ASSERT_TRUE(written) << written.error().sentence();
}

// A data set of one video with five frames, as frames/ and gt/.
class Predictions : public testing::Test {
 protected:
  void add_video(const std::string& video, const LabelPicture& truth) {
    for (int frame = 0; frame < 5; ++frame) {
      write_labels(dataset_ / video / "frames" / name_of_frame(frame), truth);
      write_labels(dataset_ / video / "gt" / name_of_frame(frame), truth);
    }
  }
  void predict(const std::string& folder, const LabelPicture& labels, int first = 0) {
    for (int frame = first; frame < 5; ++frame)
      write_labels(predictions_ / folder / name_of_frame(frame), labels);
  }
  static std::string name_of_frame(int frame) { return "0000" + std::to_string(frame) + ".png"; }

  Result<Evaluation> evaluate(Protocol protocol = Protocol::davis) {
    auto dataset = media::vos::scan_dataset(engine(), dataset_);
    if (!dataset) return forward_error(dataset);
    return evaluate_predictions(engine(), *dataset, predictions_, protocol);
  }

  test::TemporaryFolder folder_;
  fs::path dataset_ = folder_ / "data", predictions_ = folder_ / "masks";
};

TEST_F(Predictions, ReadsIndexedPngsOfSeveralObjects) {
  add_video("v", squares({1, 2, 3}));
  predict("v", squares({1, 3, 0}));  // 2 is absent, 3 is in another place
  const auto evaluation = evaluate();
  ASSERT_TRUE(evaluation) << evaluation.error().sentence();
  ASSERT_EQ(evaluation->objects.size(), 3U);
  EXPECT_EQ(evaluation->objects[0].object, "1");
  EXPECT_DOUBLE_EQ(evaluation->objects[0].score.j.mean, 1);
  EXPECT_DOUBLE_EQ(evaluation->objects[1].score.j.mean, 0);
  EXPECT_DOUBLE_EQ(evaluation->objects[2].score.j.mean, 0);
  EXPECT_EQ(evaluation->objects[0].score.frames, 3);
  EXPECT_EQ(evaluation->objects[0].reference->frames, 5);
  EXPECT_DOUBLE_EQ(mean_score(evaluation->objects).j.mean, 1.0 / 3);
  EXPECT_TRUE(evaluation->left_out.empty());
}

TEST_F(Predictions, ReadsAFolderForEachObject) {
  add_video("v", squares({1, 2}));
  predict("v/001", squares({255, 0}));  // by number
  predict("v/2", squares({0, 1}));      // every pixel that is not 0
  const auto evaluation = evaluate();
  ASSERT_TRUE(evaluation) << evaluation.error().sentence();
  EXPECT_DOUBLE_EQ(mean_score(evaluation->objects).j_and_f(), 1);
}

TEST_F(Predictions, OfAnOnlyVideoMayLieInTheFolderItself) {
  add_video("v", squares({1}));
  predict("", squares({1}));
  const auto evaluation = evaluate();
  ASSERT_TRUE(evaluation) << evaluation.error().sentence();
  EXPECT_DOUBLE_EQ(evaluation->objects[0].score.j_and_f(), 1);
}

// Ground truth of 0 and 255 is one object; other values of the prediction are other objects.
TEST_F(Predictions, OfDavis2016AreOneOr255) {
  add_video("v", squares({255}));
  for (const int value : {1, 255}) {
    predict("v", squares({value, 2}));
    const auto evaluation = evaluate();
    ASSERT_TRUE(evaluation) << evaluation.error().sentence();
    ASSERT_EQ(evaluation->objects.size(), 1U);
    EXPECT_DOUBLE_EQ(evaluation->objects[0].score.j.mean, 1);
  }
}

// davis2017-evaluation, semi-supervised: pixels of 255 belong to no object and count as background.
TEST_F(Predictions, VoidOfDavisIsNoObject) {
  add_video("v", squares({1, 255}));
  predict("v", squares({1, 1}));
  const auto evaluation = evaluate();
  ASSERT_TRUE(evaluation) << evaluation.error().sentence();
  ASSERT_EQ(evaluation->objects.size(), 1U);
  EXPECT_DOUBLE_EQ(evaluation->objects[0].score.j.mean, 0.5);
}

TEST_F(Predictions, NamesMissingFrames) {
  add_video("v", squares({1}));
  predict("v", squares({1}), 2);
  const auto evaluation = evaluate();
  ASSERT_TRUE(evaluation) << evaluation.error().sentence();
  EXPECT_EQ(evaluation->objects[0].score.missing_frames, 1);  // frame 0 does not count
  EXPECT_DOUBLE_EQ(evaluation->objects[0].score.j.mean, 2.0 / 3);
  EXPECT_DOUBLE_EQ(evaluation->objects[0].reference->j.mean, 3.0 / 5);
}

TEST_F(Predictions, LeavesOutWhatCannotBeScored) {
  for (const char* video : {"absent", "damaged", "fine", "named_otherwise", "smaller"})
    add_video(video, squares({1}));
  predict("fine", squares({1}));
  predict("damaged", squares({1}));
  test::write_text(predictions_ / "damaged" / name_of_frame(2), "\x89PNG\r\n\x1a\n");
  write_labels(predictions_ / "named_otherwise" / "mask1.png", squares({1}));
  predict("smaller", {20, 30, std::vector<std::uint8_t>(600, 1)});
  const auto evaluation = evaluate();
  ASSERT_TRUE(evaluation) << evaluation.error().sentence();
  ASSERT_EQ(evaluation->objects.size(), 1U);
  ASSERT_EQ(evaluation->left_out.size(), 4U);
  const auto why = [&](std::size_t i) {
    return evaluation->left_out[i].video + ": " + evaluation->left_out[i].why;
  };
  EXPECT_THAT(why(0), HasSubstr("absent: it has no predictions: there is no "));
  EXPECT_THAT(why(1), HasSubstr("damaged: prediction 00002.png: truncated PNG"));
  EXPECT_THAT(why(2), HasSubstr("named_otherwise: none of its 5 frames has a prediction, such as "));
  EXPECT_THAT(why(3),
              HasSubstr("smaller: 00000.png: the prediction has 20 x 30 pixels, the ground truth 40 x 30"));
}

TEST_F(Predictions, FailIfNothingCanBeScored) {
  add_video("v", squares({1}));
  fs::create_directories(predictions_ / "v");
  const auto evaluation = evaluate();
  ASSERT_FALSE(evaluation);
  EXPECT_EQ(evaluation.error().kind, ErrorKind::input);
  EXPECT_THAT(evaluation.error().sentence(),
              HasSubstr("video v, object 1: it has no predictions: there is no "));
  predictions_ = folder_ / "nowhere";
  EXPECT_THAT(evaluate().error().sentence(), HasSubstr("cannot list the folder "));
}

// --- data/vos/blackswan: DAVIS's ground truth, and the masks that OSVOS and RVOS published

// Values of both official programs' formulas, frames [1:-1], in this order: J, F, proxy of F.
struct Published {
  const char* folder;
  double j, f, proxy;
};

class Blackswan : public testing::TestWithParam<Published> {};

TEST_P(Blackswan, ScoresAreThePublishedOnes) {
  const auto folder = test::shared_data("vos/blackswan");
  if (!folder) GTEST_SKIP() << test::absent_message("vos/blackswan");
  auto dataset = media::vos::scan_dataset(engine(), *folder);
  ASSERT_TRUE(dataset) << dataset.error().sentence();
  ASSERT_EQ(dataset->videos.size(), 1U);
  ASSERT_EQ(dataset->videos[0].frames.size(), 50U);
  const auto evaluation =
      evaluate_predictions(engine(), *dataset, *folder / GetParam().folder, Protocol::davis);
  ASSERT_TRUE(evaluation) << evaluation.error().sentence();
  const ObjectEvaluation& object = evaluation->objects[0];
  EXPECT_EQ(object.score.frames, 48);
  EXPECT_EQ(object.score.missing_frames, 0);
  EXPECT_NEAR(object.score.j.mean, GetParam().j, 1e-5);
  EXPECT_NEAR(object.score.f.mean, GetParam().f, 1e-5);
  EXPECT_DOUBLE_EQ(object.score.j.recall, 1);

  // The proxy of the same frames: the first and the last are left out of the data set.
  auto& masks = dataset->videos[0].objects[0].masks;
  masks.erase(masks.begin());
  masks.erase(std::prev(masks.end()));
  const auto proxy =
      evaluate_predictions(engine(), *dataset, *folder / GetParam().folder, Protocol::reference);
  ASSERT_TRUE(proxy) << proxy.error().sentence();
  EXPECT_EQ(proxy->objects[0].score.frames, 48);
  EXPECT_NEAR(proxy->objects[0].score.j.mean, GetParam().j, 1e-5);
  EXPECT_NEAR(proxy->objects[0].score.f.mean, GetParam().proxy, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All, Blackswan,
                         testing::Values(Published{"pred_osvos", 0.943020, 0.974096, 0.980880},
                                         Published{"pred_rvos", 0.921626, 0.943847, 0.954924}),
                         [](const auto& test) { return std::string(test.param.folder + 5); });

}  // namespace
}  // namespace headroom::evaluation
