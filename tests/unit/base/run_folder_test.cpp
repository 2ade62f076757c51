#include "base/run_folder.h"

#include <gtest/gtest.h>

#include "support/test_support.h"

namespace headroom {
namespace {

TEST(RunFolder, NeverReusesAnEarlierFolder) {
  test::TemporaryFolder folder;
  const auto first = create_run_folder(folder / "outputs");
  const auto second = create_run_folder(folder / "outputs");
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_NE(first->path, second->path);
  EXPECT_THAT(first->name, testing::MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}_[0-9]{2}-[0-9]{2}-[0-9]{2}"));
}

TEST(RunFolder, UnwritableOutputFolderIsAnInputError) {
  const auto folder = create_run_folder("/proc/outputs");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().kind, ErrorKind::input);
  EXPECT_THAT(folder.error().sentence(), testing::HasSubstr("choose a writable folder with --output-dir"));
}

TEST(FileNameOf, KeepsPlainCharactersOnly) {
  EXPECT_EQ(file_name_of("yolo11n_rgb"), "yolo11n_rgb");
  EXPECT_EQ(file_name_of("../../etc/passwd"), "_.._.._etc_passwd");
  EXPECT_EQ(file_name_of("a b/ü"), "a_b___");
  EXPECT_EQ(file_name_of(""), "_");
}

}  // namespace
}  // namespace headroom
