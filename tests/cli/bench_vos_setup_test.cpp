// The setup of `headroom bench --task vos`, and what its reports say, over the made clips of
// tests/golden/vos/clips: three videos in SA-V's layout, with three objects each.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include "base/files.h"
#include "cli/command.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class BenchVosSetup : public testing::Test {
 protected:
  // One video and its first objects, unless `more` says otherwise.
  CommandResult run(const Words& more) {
    const Words words{"bench",          "--dataset", data_,       "--model", "shapes=" + model_.string(),
                      "--limit-videos", "1",         "--timeout", "120s"};
    return run_headroom(joined({words, more}), {.folder = folder_.path()});
  }
  CommandResult set_up(const Words& more = {}) {
    return run(joined({{"--skip-inference", "--limit-objects", "1"}, more}));
  }
  fs::path newest_run() const {
    fs::path newest;
    for (const auto& entry : fs::directory_iterator(folder_ / "outputs"))
      if (entry.is_directory()) newest = std::max(newest, entry.path());
    return newest;
  }
  Json report() const {
    return parse_json(read_text(newest_run() / "report.json"), "report").value_or(Json{});
  }
  fs::path planes() const { return folder_ / "preprocessed_data/planes"; }
  // A prompts file for objects of the first video.
  std::string prompts(const std::string& csv) {
    write_text(folder_ / "prompts.csv", "video,object,frame,points,box\n" + csv);
    return (folder_ / "prompts.csv").string();
  }

  TemporaryFolder folder_;
  std::string data_ = source_path("tests/golden/vos/clips");
  fs::path model_ = source_path("tests/golden/vos/shapes");
};

TEST_F(BenchVosSetup, UsesTheFirstFramesOfLongerPlanes) {
  EXPECT_THAT(set_up({"--max-frames", "6"}).err, HasSubstr("6 frames decoded, 0 prepared earlier"));
  EXPECT_THAT(set_up({"--max-frames", "4"}).err, HasSubstr("0 frames decoded, 4 prepared earlier"));
  EXPECT_THAT(set_up({"--max-frames", "7"}).err, HasSubstr("7 frames decoded, 0 prepared earlier"));
  // They also run: two frames of seven.
  const auto ran = run({"--max-frames", "2", "--warmup", "0"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("0 frames decoded, 2 prepared earlier"));
  EXPECT_EQ(report()["models"][0]["vos"]["clips"][0]["frames"], 2);
}

TEST_F(BenchVosSetup, RemovesTheFilesOfKilledSetupsOnly) {
  fs::create_directories(planes());
  const fs::path killed = planes() / "other-256-uint8-01234567.planes.tmp-4194304-3";
  const fs::path running = planes() / "other-256-uint8-01234567.planes.tmp-4194305-1";
  write_text(killed, "half a file");
  write_text(running, "half a file");
  const UniqueFd lock(::open(running.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  ASSERT_EQ(set_up({"--max-frames", "1"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(killed));
  EXPECT_TRUE(fs::exists(running));
}

TEST_F(BenchVosSetup, LabelsPromptsOfAFile) {
  const Words short_run{"--max-frames", "2", "--warmup", "0", "--limit-objects", "2", "--prompt", "box"};
  const std::string one = prompts("shapes_000,0,0,128 128,\n");
  const auto mixed = run(joined({short_run, {"--prompts", one}}));
  ASSERT_EQ(mixed.exit_code, 0) << mixed.err;
  EXPECT_THAT(mixed.out, HasSubstr("shapes  box, file  "));
  EXPECT_THAT(read_text(newest_run() / "report.md"),
              HasSubstr("prompt: box for 1 object, prompts file for 1;"));
  EXPECT_THAT(run_headroom({"report", newest_run().string()}).out, HasSubstr("shapes  box, file  "));
  EXPECT_EQ(report()["source"]["prompted_by_file"], 1);
  const std::string all = prompts("shapes_000,0,0,128 128,\nshapes_000,1,0,,10 10 200 200\n");
  const auto of_file = run(joined({short_run, {"--prompts", all}}));
  ASSERT_EQ(of_file.exit_code, 0) << of_file.err;
  EXPECT_THAT(of_file.out, HasSubstr("shapes    file  "));
  EXPECT_THAT(read_text(newest_run() / "report.md"), HasSubstr("prompt: prompts file;"));
}

TEST_F(BenchVosSetup, ReportsTheModelsSizeInsteadOfImgsz) {
  const auto no_settings = AllOf(Not(HasSubstr("image size")), Not(HasSubstr("IoU")));
  ASSERT_EQ(set_up({"--max-frames", "1"}).exit_code, 0);
  EXPECT_THAT(read_text(newest_run() / "report.md"), no_settings);
  ASSERT_EQ(run({"--max-frames", "1", "--warmup", "0", "--limit-objects", "1"}).exit_code, 0);
  EXPECT_THAT(read_text(newest_run() / "report.md"),
              AllOf(HasSubstr("**Model input**: 256 × 256"), no_settings));
}

TEST_F(BenchVosSetup, NamesObjectsWhosePromptHasNoVideo) {
  const auto ended = set_up({"--max-frames", "1", "--prompts", prompts(",9,0,128 128,\n")});
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("skipped object 9: its prompt names no video"), Not(HasSubstr("/9"))));
}

TEST_F(BenchVosSetup, NamesAPromptAfterTheLastFrameThatRuns) {
  const auto ended = set_up({"--max-frames", "3", "--prompts", prompts("shapes_000,0,5,128 128,\n")});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("shapes_000/000: its first prompt is for frame 5, and --max-frames is 3"));
}

TEST_F(BenchVosSetup, RejectsAManifestWithAHugeSize) {
  model_ = folder_ / "shapes";
  fs::copy(source_path("tests/golden/vos/shapes"), model_);
  std::string manifest = read_text(model_ / "manifest.json");
  manifest.replace(manifest.find("\"size\": 256"), 11, "\"size\": 1000000000");
  write_text(model_ / "manifest.json", manifest);
  const auto ended = set_up({"--max-frames", "1"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("'size' is not an integer from 16 to 4096"));
}

}  // namespace
}  // namespace headroom::test
