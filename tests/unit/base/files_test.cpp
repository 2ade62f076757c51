#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sstream>

#include "base/files.h"
#include "base/json.h"
#include "support/scoped_environment.h"
#include "support/test_support.h"

namespace headroom {
namespace {
namespace fs = std::filesystem;

TEST(Files, AtomicWriteLeavesOnlyTheCompleteFile) {
  test::TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "a.txt", "one"));
  ASSERT_TRUE(write_file_atomically(folder / "a.txt", "two"));
  EXPECT_EQ(*read_file(folder / "a.txt"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator{}), 1);
}

TEST(Files, ReportsAnUnwritableFolderInOneSentence) {
  const auto written = write_file_atomically("/proc/nothing/here.txt", "x");
  ASSERT_FALSE(written);
  EXPECT_EQ(
      written.error().sentence(),
      "cannot write /proc/nothing/here.txt: No such file or directory; check that the folder exists and is "
      "writable");
}

TEST(Files, RejectsFoldersMissingAndTooLargeFiles) {
  test::TemporaryFolder folder;
  EXPECT_EQ(read_file(folder.path()).error().kind, ErrorKind::input);
  EXPECT_EQ(read_file(folder / "absent").error().fix, "check the path");
  test::write_text(folder / "long", std::string(1000, 'x'));
  EXPECT_FALSE(read_file(folder / "long", Bytes{999}));
  EXPECT_TRUE(read_file(folder / "long", Bytes{1000}));
}

TEST(PluginSearch, LooksInTheVariablesFoldersThenTheInstallationThenHome) {
  const test::ScopedEnvironment path("HEADROOM_BACKEND_PATH", "/first::relative:/first"),
      home("HOME", "/homes/me");
  const fs::path own = own_executable().parent_path();
  EXPECT_THAT(plugin_folders(),
              testing::ElementsAre("/first", "relative", own.parent_path() / "lib/headroom", own,
                                   "/homes/me/.local/lib/headroom", "/usr/lib/headroom"));
  EXPECT_THAT(plugin_folders_text(), testing::StartsWith("/first, relative, "));
}

TEST(PluginSearch, IgnoresARelativeHome) {
  for (const std::optional<std::string>& home : {std::optional<std::string>(), {"here"}}) {
    const test::ScopedEnvironment path("HEADROOM_BACKEND_PATH", std::nullopt), in("HOME", home);
    EXPECT_THAT(plugin_folders(), testing::SizeIs(3));
  }
}

TEST(PluginSearch, FindsTheFirstFileOfAName) {
  test::TemporaryFolder folder;
  for (const char* name : {"a", "b"}) fs::create_directory(folder / name);
  const test::ScopedEnvironment path("HEADROOM_BACKEND_PATH",
                                     (folder / "a").string() + ":" + (folder / "b").string());
  test::write_text(folder / "b/one.so", "");
  test::write_text(folder / "b/two.so", "");
  test::write_text(folder / "a/two.so", "");
  EXPECT_EQ(find_plugin("one.so"), folder / "b/one.so");
  EXPECT_EQ(find_plugin("two.so"), folder / "a/two.so");
  EXPECT_EQ(find_plugin("three.so"), std::nullopt);
}

TEST(Files, FingerprintChangesWithTheContent) {
  test::TemporaryFolder folder;
  test::write_text(folder / "a", "hello");
  test::write_text(folder / "b", "hellp");
  EXPECT_NE(*file_fingerprint(folder / "a"), *file_fingerprint(folder / "b"));
  EXPECT_EQ(*file_fingerprint(folder / "a"), *file_fingerprint(folder / "a"));
}

TEST(Files, FingerprintRejectsOtherThanRegularFiles) {
  const test::TemporaryFolder folder;
  const fs::path fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ASSERT_FALSE(file_fingerprint(fifo));  // to open it would block
  EXPECT_EQ(file_fingerprint(fifo).error().what, fifo.string() + " is a FIFO, not a file");
  ASSERT_FALSE(file_fingerprint("/dev/zero"));
  EXPECT_EQ(file_fingerprint("/dev/zero").error().what, "/dev/zero is a device, not a file");
}

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

TEST(Json, ParseErrorsNameTheDocumentAndTheOffset) {
  const auto document = parse_json("{\"a\": }", "report.json");
  ASSERT_FALSE(document);
  EXPECT_EQ(document.error().what, "report.json is not valid JSON");
  EXPECT_NE(document.error().why.find("column 7"), std::string::npos) << document.error().why;
}

TEST(Json, RejectsDeepNesting) {
  EXPECT_FALSE(parse_json(std::string(200'000, '[')));
  EXPECT_FALSE(parse_json(std::string(100, '[') + std::string(100, ']')));
  EXPECT_TRUE(parse_json(std::string(60, '[') + std::string(60, ']')));
}

TEST(Json, TypedLookUpsTreatOtherTypesAsAbsent) {
  const auto document =
      *parse_json(R"({"i": 3, "d": 1.5, "s": "x", "big": 18446744073709551615, "b": true})");
  EXPECT_EQ(get_integer(document, "i"), 3);
  EXPECT_FALSE(get_integer(document, "d"));
  EXPECT_FALSE(get_integer(document, "big"));
  EXPECT_EQ(get_number(document, "d"), 1.5);
  EXPECT_EQ(get_text(document, "s"), "x");
  EXPECT_EQ(get_text(document, "i"), "");
  EXPECT_EQ(get_bool(document, "b"), true);
  EXPECT_TRUE(get_member(document, "absent").is_null());
  EXPECT_FALSE(get_integer(Json::array(), "i"));
}

TEST(Json, OmitsMissingFiguresAndNan) {
  Json object = Json::object();
  set_if(object, "a", std::optional<double>());
  set_if(object, "b", std::optional<double>(std::nan("")));
  set_if(object, "c", std::optional<Bytes>(Bytes{7}));
  EXPECT_EQ(to_line(object), R"({"c":7})");
}

TEST(Json, ReplacesInvalidUtf8InFileNames) {
  Json object;
  object["name"] = std::string("a\xff");
  EXPECT_EQ(to_line(object), "{\"name\":\"a\xEF\xBF\xBD\"}");
}

TEST(JsonKeys, ReadsTheFirstLevelOnly) {
  const JsonKeys keys = read_json_keys(std::string_view(
      R"({"a": 1, "b": [{"c": 2}], "d": {"e": []}, "f": null, "g": "x", "h": 1.5, "i": true, "j": -3})"));
  EXPECT_TRUE(keys.is_whole);
  EXPECT_EQ(keys.lists.size(), 8U);
  EXPECT_TRUE(keys.has("a"));
  EXPECT_FALSE(keys.has("c"));
  EXPECT_FALSE(keys.has("e"));
  EXPECT_TRUE(keys.has_list("b"));
  EXPECT_FALSE(keys.has_list("d"));
  EXPECT_FALSE(keys.has_list("nowhere"));
}

TEST(JsonKeys, ReadsADamagedDocumentUpToTheDamage) {
  std::istringstream stream(R"({"a": 1, "b": [1, 2)");
  const JsonKeys keys = read_json_keys(stream);
  EXPECT_FALSE(keys.is_whole);
  EXPECT_TRUE(keys.has("a"));
  EXPECT_TRUE(keys.has_list("b"));
  EXPECT_FALSE(read_json_keys(std::string_view("{\"a\": 1}\n{\"a\": 1}")).is_whole) << "two of them";
  EXPECT_FALSE(read_json_keys(std::string_view("")).is_whole);
  EXPECT_TRUE(read_json_keys(std::string_view(" [1, {\"a\": 2}] \n")).lists.empty());
}

TEST(JsonKeys, BoundsDepthAndNumberOfKeys) {
  std::string deep(1 << 20, '[');
  EXPECT_FALSE(read_json_keys(std::string_view("{\"a\": " + deep)).is_whole);
  std::string many = "{";
  for (int i = 0; i < 5000; ++i) many += "\"k" + std::to_string(i) + "\": 1,";
  EXPECT_EQ(read_json_keys(std::string_view(many)).lists.size(), 1000U);
}

}  // namespace

}  // namespace headroom
