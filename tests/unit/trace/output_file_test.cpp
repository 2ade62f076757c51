// Where a recording is written, and that no other file changes.
#include "trace/output_file.h"

#include "recording/format.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::trace {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string why_not_written(const fs::path& wanted, bool replace) {
  const auto file = prepare_output(wanted, "app", replace);
  if (file) return "";
  EXPECT_EQ(file.error().kind, ErrorKind::usage);
  return file.error().sentence();
}

TEST(Output, CreatesFoldersButNotTheFile) {
  test::TemporaryFolder folder;
  const auto file = prepare_output(folder / "new/deep/a.hrec", "app", false);
  ASSERT_TRUE(file.has_value()) << file.error().sentence();
  EXPECT_EQ(*file, folder / "new/deep/a.hrec");
  EXPECT_TRUE(fs::is_directory(folder / "new/deep"));
  EXPECT_FALSE(fs::exists(*file));
}

TEST(Output, NeverOverwritesUnlessAsked) {
  test::TemporaryFolder folder;
  test::RecordingBuilder(folder / "a.hrec").finish();
  EXPECT_THAT(why_not_written(folder / "a.hrec", false), HasSubstr("already exists"));
  fs::create_directory(folder / "b.hrec.d");
  EXPECT_THAT(why_not_written(folder / "b.hrec", false), HasSubstr("already exists"));
}

TEST(Output, ReplacesOnlyRecordings) {
  test::TemporaryFolder folder;
  const fs::path file = test::RecordingBuilder(folder / "a.hrec").finish();
  const fs::path tree = tree_folder(file);
  fs::create_directory(tree);
  test::RecordingBuilder(tree / "7-0.hrec").finish();
  test::write_text(tree / "index.json", "{}");
  test::write_text(tree / "onnxruntime-7-0_2026-11-21.json", "[]");
  test::write_text(tree / "mine.txt", "keep");
  EXPECT_EQ(why_not_written(file, true), "");
  EXPECT_FALSE(fs::exists(file));
  EXPECT_FALSE(fs::exists(tree / "7-0.hrec"));
  EXPECT_FALSE(fs::exists(tree / "index.json"));
  EXPECT_FALSE(fs::exists(tree / "onnxruntime-7-0_2026-11-21.json"));
  EXPECT_EQ(test::read_text(tree / "mine.txt"), "keep");
  fs::remove(tree / "mine.txt");
  EXPECT_EQ(why_not_written(file, true), "");
  EXPECT_FALSE(fs::exists(tree));

  test::write_text(folder / "letter.txt", "HEADROO, dear, is short");
  EXPECT_THAT(why_not_written(folder / "letter.txt", true), HasSubstr("not a recording"));
  EXPECT_EQ(test::read_text(folder / "letter.txt"), "HEADROO, dear, is short");
}

TEST(Output, ExplainsUnusablePaths) {
  test::TemporaryFolder folder;
  EXPECT_THAT(why_not_written(folder.path(), false), HasSubstr("is a folder"));
  test::write_text(folder / "file", "x");
  EXPECT_THAT(why_not_written(folder / "file/a.hrec", false), HasSubstr("--out"));
  EXPECT_THAT(why_not_written("/proc/a.hrec", false), HasSubstr("cannot write"));
}

}  // namespace
}  // namespace headroom::trace
