// Compares tracked clips with what the Python predictors made of them: tests/golden/vos/README.md.
#include <cmath>
#include <cstring>

#include "base/json.h"
#include "tracer_fixture.h"

namespace headroom::inference::vos {
namespace {
namespace fs = std::filesystem;

using test::value_of;

class Golden {
 public:
  explicit Golden(const std::string& name)
      : folder_(test::source_path("tests/golden/vos/" + name)),
        document_(value_of(parse_json(test::read_text(folder_ / "golden.json")))),
        pixels_(test::read_text(folder_ / "frames.rgb")),
        logits_(test::read_text(folder_ / "logits.f32")),
        masks_(test::read_text(folder_ / "masks.bits")) {
    const Json& video = document_["video"];
    width_ = video["width"];
    height_ = video["height"];
    grid_ = video["grid"];
    block_ = video["block"];
    frames_ = video["frames"];
    quarter_ = document_["logits"]["width"].get<std::size_t>();
  }
  const fs::path& folder() const { return folder_; }
  const Json& cases() const { return document_["cases"]; }
  int width() const { return width_; }
  int height() const { return height_; }
  std::int64_t frames() const { return frames_; }

  // Planes [3,S,S] of a frame.
  std::vector<std::uint8_t> picture(std::int64_t frame) const {
    const std::size_t side = grid_ * block_;
    std::vector<std::uint8_t> planes;
    const auto* from = reinterpret_cast<const std::uint8_t*>(pixels_.data()) +
                       static_cast<std::size_t>(frame) * grid_ * grid_ * 3;
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t y = 0; y < side; ++y)
        for (std::size_t x = 0; x < side; ++x)
          planes.push_back(from[(y / block_ * grid_ + x / block_) * 3 + c]);
    return planes;
  }
  VosPrompt prompt(const Json& given) const {
    VosPrompt prompt;
    prompt.frame = given["frame"];
    if (given.contains("points"))
      for (const Json& point : given["points"]) prompt.points.push_back({point[0], point[1], point[2] == 1});
    if (given.contains("box"))
      prompt.box = PromptBox{given["box"][0], given["box"][1], given["box"][2], given["box"][3]};
    if (given.contains("mask")) prompt.mask = unpacked(test::read_text(folder_ / "prompt_mask.bits"), 0);
    return prompt;
  }
  // Of the n-th kept frame of all cases.
  std::vector<float> logits(std::size_t n) const {
    std::vector<float> values(quarter_ * quarter_);
    std::memcpy(values.data(), logits_.data() + n * values.size() * sizeof(float),
                values.size() * sizeof(float));
    return values;
  }
  BinaryMask mask(std::size_t n) const {
    return unpacked(masks_, n * static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_) / 8);
  }

 private:
  BinaryMask unpacked(const std::string& bits, std::size_t at) const {
    BinaryMask mask{width_, height_, {}};
    for (std::size_t i = 0; i < static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_); ++i)
      mask.pixels.push_back(static_cast<std::uint8_t>(
          static_cast<unsigned>(static_cast<unsigned char>(bits.at(at + i / 8))) >> (7 - i % 8) & 1U));
    return mask;
  }

  fs::path folder_;
  Json document_;
  std::string pixels_, logits_, masks_;
  int width_ = 0, height_ = 0;
  std::int64_t frames_ = 0;
  std::size_t grid_ = 0, block_ = 0, quarter_ = 0;
};

class GoldenTest : public TracerTest, public testing::WithParamInterface<const char*> {};

// Float sums in another order change logits a little (largest difference here: 0.00005), and so a few pixels
// at the border of a mask. A wrong decision changes a logit by 1024.
constexpr float kLogitTolerance = 4e-4F;
constexpr std::int64_t kPixelTolerance = 2;

TEST_P(GoldenTest, TracksLikeThePythonPredictor) {
  const Golden golden(GetParam());
  std::size_t kept = 0, compared = 0;
  float largest = 0;
  for (const Json& given : golden.cases()) {
    SCOPED_TRACE(given["name"].get<std::string>());
    const bool is_predictor = given["profile"] == "predictor";
    Tracker tracker =
        value_of(Tracker::load(*backend_, golden.folder(), one_thread(),
                               {.profile = is_predictor ? Profile::predictor : Profile::evaluation,
                                .memory_type = ElementType::float32}));
    const Json& objects = given["objects"];
    value_of(tracker.start_video(golden.width(), golden.height(), golden.frames(), objects.size()));
    for (std::size_t i = 0; i < objects.size(); ++i)
      for (const Json& prompt : objects[i]["prompts"]) value_of(tracker.prompt(i, golden.prompt(prompt)));

    std::vector<std::map<std::int64_t, std::size_t>> kept_of(objects.size());
    for (std::size_t i = 0; i < objects.size(); ++i)
      for (const Json& frame : objects[i]["kept_frames"]) kept_of[i][frame] = kept++;
    for (std::int64_t frame = 0; frame < golden.frames(); ++frame) {
      value_of(tracker.step(frame, golden.picture(frame)));
      for (std::size_t i = 0; i < objects.size(); ++i) {
        SCOPED_TRACE("object " + std::to_string(i) + ", frame " + std::to_string(frame));
        const auto at = static_cast<std::size_t>(frame);
        const Json& score = objects[i]["scores"][at];
        const auto area = std::count(tracker.mask(i).pixels.begin(), tracker.mask(i).pixels.end(), 1);
        EXPECT_LE(std::abs(area - objects[i]["areas"][at].get<std::int64_t>()), kPixelTolerance);
        if (score.is_null()) continue;
        EXPECT_NEAR(tracker.object(i).score, score.get<float>(), kLogitTolerance);
        const auto entry = kept_of[i].find(frame);
        if (entry == kept_of[i].end()) continue;
        const std::vector<float> wanted = golden.logits(entry->second);
        const auto logits = tracker.logits(i);
        ASSERT_EQ(logits.size(), wanted.size());
        for (std::size_t pixel = 0; pixel < wanted.size(); ++pixel)
          largest = std::max(largest, std::abs(logits[pixel] - wanted[pixel]));
        const BinaryMask mask = golden.mask(entry->second);
        std::int64_t different = 0;
        for (std::size_t pixel = 0; pixel < mask.pixels.size(); ++pixel)
          different += mask.pixels[pixel] != tracker.mask(i).pixels[pixel] ? 1 : 0;
        EXPECT_LE(different, kPixelTolerance);
        ++compared;
      }
    }
  }
  EXPECT_LT(largest, kLogitTolerance);
  EXPECT_EQ(compared, kept);
  EXPECT_GE(compared, 20U);
  RecordProperty("largest_difference_of_logits", std::to_string(largest));
}

TEST_P(GoldenTest, Memories16BitsWideGiveTheSameMasksAtFirst) {
  const Golden golden(GetParam());
  const Json& given = golden.cases()[0];
  for (const ElementType type : {ElementType::bfloat16, ElementType::float16}) {
    Tracker tracker =
        value_of(Tracker::load(*backend_, golden.folder(), one_thread(), {.memory_type = type}));
    value_of(tracker.start_video(golden.width(), golden.height(), golden.frames(), 1));
    for (const Json& prompt : given["objects"][0]["prompts"])
      value_of(tracker.prompt(0, golden.prompt(prompt)));
    for (std::int64_t frame = 0; frame < golden.frames(); ++frame) {
      const Json& score = given["objects"][0]["scores"][static_cast<std::size_t>(frame)];
      if (score.get<float>() < 0) break;  // after an absence, small differences may decide
      value_of(tracker.step(frame, golden.picture(frame)));
      const auto area = std::count(tracker.mask(0).pixels.begin(), tracker.mask(0).pixels.end(), 1);
      const auto wanted = given["objects"][0]["areas"][static_cast<std::size_t>(frame)].get<std::int64_t>();
      EXPECT_LE(std::abs(area - wanted), golden.width() * golden.height() / 50)
          << name_of(type) << ", frame " << frame;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::Values("sam2", "edgetam"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace headroom::inference::vos
