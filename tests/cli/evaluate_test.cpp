// `headroom evaluate` as users run it.
#include <fmt/format.h>

#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "base/utf8.h"
#include "cli/command.h"
#include "cli/diff_matchers.h"
#include "media/media_engine.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

CommandResult evaluate(Words words) {
  words.insert(words.begin(), "evaluate");
  return run_headroom(words);
}

media::MediaEngine& engine() {
  static const std::unique_ptr<media::MediaEngine> instance = [] {
    ::setenv("HEADROOM_BACKEND_PATH", built_path("bin").c_str(), 1);
    auto loaded = media::load_media_engine();
    if (!loaded) throw std::runtime_error(loaded.error().sentence());
    return std::move(*loaded);
  }();
  return *instance;
}

// Four frames of a moving square in data/clip, and masks/clip, which is one pixel behind.
class Evaluate : public testing::Test {
 protected:
  void SetUp() override {
    for (int frame = 0; frame < 4; ++frame) {
      write(fmt::format("data/clip/frames/{}.png", frame), frame);
      write(fmt::format("data/clip/gt/{}.png", frame), frame);
      write(fmt::format("masks/clip/{}.png", frame), frame - 1);
    }
  }
  void write(const std::string& file, int shift, int size = 40) {
    media::LabelPicture labels{size, 30, std::vector<std::uint8_t>(static_cast<std::size_t>(size) * 30)};
    for (int y = 10; y < 20; ++y)
      for (int x = 10; x < 20; ++x) labels.values[static_cast<std::size_t>(y * size + x + shift)] = 1;
    fs::create_directories((folder_ / file).parent_path());
    ASSERT_TRUE(engine().write_labels(labels, path(file)));
  }
  std::string path(const std::string& file) const { return (folder_ / file).string(); }
  Words words() const { return {"--dataset", path("data"), "--predictions", path("masks")}; }
  CommandResult run(const Words& more = {}) { return evaluate(joined({words(), more})); }

  TemporaryFolder folder_;
};

TEST_F(Evaluate, PrintsATable) {
  EXPECT_THAT(
      run(), Ends(0, AllOf(HasSubstr("1 object, protocol davis\n  data set     /"),
                           HasSubstr("\n  predictions  /"), HasSubstr("OBJECT"), HasSubstr("clip 1  "),
                           HasSubstr("0.909  0.818  1.000"), HasSubstr("mean"), Not(HasSubstr("left out")))));
}

TEST_F(Evaluate, PrintsJson) {
  const Json document = json_of(run({"--json"}));
  EXPECT_EQ(get_integer(document, "schema_version"), 1);
  EXPECT_EQ(get_text(document, "protocol"), "davis");
  EXPECT_EQ(get_text(document, "layout"), "davis");
  ASSERT_EQ(document["objects"].size(), 1U);
  const Json& object = document["objects"][0];
  EXPECT_EQ(get_text(object, "video"), "clip");
  EXPECT_EQ(get_text(object, "object"), "1");
  EXPECT_EQ(get_integer(object, "frames"), 2);
  for (const Json* figures : {&object, &document["mean"]}) {
    EXPECT_DOUBLE_EQ(*get_number(*figures, "j_mean"), 90.0 / 110);
    EXPECT_DOUBLE_EQ(*get_number(*figures, "f_mean"), 1);
    EXPECT_DOUBLE_EQ(*get_number(*figures, "j_and_f"), 100.0 / 110);
    for (const char* recall : {"j_recall", "f_recall"}) EXPECT_EQ(get_number(*figures, recall), 1);
    for (const char* decay : {"j_decay", "f_decay"}) EXPECT_NEAR(*get_number(*figures, decay), 0, 1e-12);
  }
  EXPECT_EQ(get_integer(object["reference"], "frames"), 4);
  EXPECT_DOUBLE_EQ(*get_number(document["reference"], "j_mean"), 90.0 / 110);
  EXPECT_TRUE(document["left_out"].empty());
}

TEST_F(Evaluate, ProtocolChoosesTheFramesThatCount) {
  for (const auto& [protocol, frames] :
       {std::pair{"davis", 2}, std::pair{"sav", 2}, std::pair{"reference", 4}}) {
    const Json document = json_of(run({"--protocol", protocol, "--json"}));
    EXPECT_EQ(get_text(document, "protocol"), protocol);
    EXPECT_EQ(get_integer(document["objects"][0], "frames"), frames);
  }
}

TEST_F(Evaluate, SavDataHasItsProtocol) {
  for (int frame = 0; frame < 9; ++frame) write(fmt::format("sav/JPEGImages_24fps/v/0000{}.png", frame), 0);
  for (int frame = 0; frame < 9; frame += 4) {
    write(fmt::format("sav/Annotations_6fps/v/000/0000{}.png", frame), 0);
    write(fmt::format("sav_masks/v/000/0000{}.png", frame), 0);
  }
  const Json document =
      json_of(evaluate({"--dataset", path("sav"), "--predictions", path("sav_masks"), "--json"}));
  EXPECT_EQ(get_text(document, "protocol"), "sav");
  EXPECT_EQ(get_integer(document["objects"][0], "frames"), 1);
  EXPECT_EQ(get_number(document["mean"], "j_and_f"), 1);
}

TEST_F(Evaluate, WritesCsv) {
  EXPECT_THAT(run({"--csv", path("scores.csv")}), Ends(0, HasSubstr("clip 1")));
  const std::string text = read_text(folder_ / "scores.csv");
  EXPECT_THAT(text, AllOf(HasSubstr("video,object,frames,missing_frames,j_and_f,j_mean,"),
                          HasSubstr("\nclip,1,2,0,0.9")));
  EXPECT_EQ(std::ranges::count(text, '\n'), 2);
  EXPECT_THAT(run({"--csv", path("no/folder/scores.csv")}),
              Ends(1, testing::_, HasSubstr("no/folder/scores.csv")));
}

TEST_F(Evaluate, NamesWhatIsMissingAndLeftOut) {
  fs::remove(folder_ / "masks/clip/2.png");
  write("data/other/frames/0.png", 0);
  write("data/other/gt/0.png", 0);
  EXPECT_THAT(run(),
              Ends(0, AllOf(HasSubstr("clip 1: 1 of 2 frames has no prediction and counts as an empty mask"),
                            HasSubstr("other left out: it has no predictions"))));
  const Json document = json_of(run({"--json"}));
  EXPECT_EQ(get_integer(document["objects"][0], "missing_frames"), 1);
  ASSERT_EQ(document["left_out"].size(), 1U);
  EXPECT_EQ(get_text(document["left_out"][0], "video"), "other");
}

TEST_F(Evaluate, SaysThatTooFewFramesAreAnnotated) {
  for (int frame = 1; frame < 4; ++frame) fs::remove(folder_ / fmt::format("data/clip/gt/{}.png", frame));
  EXPECT_THAT(run(), IsRefused(HasSubstr("only 1 of its frames is annotated: the protocol leaves out")));
  write("data/clip/gt/1.png", 1);
  EXPECT_THAT(run(), IsRefused(HasSubstr("only 2 of its frames are annotated: the protocol leaves out")));
}

// Without a terminal, a line has 80 columns.
TEST_F(Evaluate, ShowsAllFiguresIn80Columns) {
  constexpr const char* kTitles[] = {"J RECALL", "J DECAY", "F RECALL", "F DECAY", "REF J", "REF PROXY F"};
  const auto narrow = run();
  for (const char* title : kTitles) EXPECT_THAT(narrow.out, HasSubstr(title));
  fs::rename(folder_ / "data/clip", folder_ / "data/a_clip_with_a_long_name");
  fs::rename(folder_ / "masks/clip", folder_ / "masks/a_clip_with_a_long_name");
  const auto longer = run();
  for (const char* title : kTitles) EXPECT_THAT(longer.out, HasSubstr(title));
  for (const std::string& out : {narrow.out, longer.out}) {
    EXPECT_THAT(out, Not(HasSubstr("A wider terminal")));
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80) << line;
  }
}

TEST_F(Evaluate, RefusesWrongUse) {
  EXPECT_THAT(evaluate({"--predictions", path("masks")}),
              IsRefused(HasSubstr("headroom evaluate needs --dataset DIR")));
  EXPECT_THAT(evaluate({"--dataset", path("data")}),
              IsRefused(HasSubstr("headroom evaluate needs --predictions DIR")));
  EXPECT_THAT(run({"--protocol", "coco"}), IsRefused(HasSubstr("coco")));
  EXPECT_THAT(run({"--task", "detection"}), IsRefused(HasSubstr("detection")));
  EXPECT_THAT(run({"stray"}), IsRefused(HasSubstr("stray")));
}

TEST_F(Evaluate, RefusesWhatCannotBeRead) {
  EXPECT_THAT(evaluate({"--dataset", path("none"), "--predictions", path("masks")}),
              IsRefused(AllOf(HasSubstr("cannot list the folder "), HasSubstr("/none"))));
  EXPECT_THAT(evaluate({"--dataset", path("data"), "--predictions", path("none")}),
              IsRefused(AllOf(HasSubstr("cannot list the folder "), HasSubstr("/none"))));
  EXPECT_THAT(evaluate({"--dataset", path("masks/clip"), "--predictions", path("masks")}),
              IsRefused(HasSubstr("its frames have neither masks nor prompts")));
  write("masks/clip/1.png", 0, 50);
  EXPECT_THAT(run(), IsRefused(AllOf(
                         HasSubstr("cannot score the predictions "),
                         HasSubstr("1.png: the prediction has 50 x 30 pixels, the ground truth 40 x 30"))));
  write_text(folder_ / "masks/clip/1.png", "no picture");
  EXPECT_THAT(run(), IsRefused(HasSubstr("video clip, object 1: prediction 1.png: ")));
  write_text(folder_ / "data/clip/gt/2.png", "no picture");
  write("masks/clip/1.png", 0);
  EXPECT_THAT(run(), IsRefused(HasSubstr("video clip, object 1: ground truth 2.png: ")));
}

TEST_F(Evaluate, AFolderWithPromptsHasNoGroundTruth) {
  write_text(folder_ / "masks/clip/prompts.csv", "object,frame,points\n1,0,12 12\n");
  EXPECT_THAT(evaluate({"--dataset", path("masks/clip"), "--predictions", path("masks")}),
              IsRefused(HasSubstr("object 1: it has no ground truth; use a data set with masks")));
}

}  // namespace
}  // namespace headroom::test
