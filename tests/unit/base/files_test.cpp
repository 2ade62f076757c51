#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <chrono>
#include <sstream>
#include <thread>

#include "base/files.h"
#include "base/json.h"
#include "base/utf8.h"
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

TEST(Files, ReadsPipesButNeitherDevicesNorSockets) {
  const test::TemporaryFolder folder;
  const fs::path fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(*read_file(fifo), "") << "without a writer";
  const UniqueFd reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  UniqueFd writer(::open(fifo.c_str(), O_WRONLY | O_CLOEXEC));
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(write_all(writer.get(), "late"));
    writer.reset();
  });
  EXPECT_EQ(*read_file(fifo), "late");
  late.join();
  EXPECT_EQ(read_file("/dev/zero").error().what, "/dev/zero is a device, not a file");
  EXPECT_FALSE(read_small_file("/dev/urandom"));
}

// A reader that fills its buffer up to the limit first would need the limit's memory.
TEST(Files, ReadsNoMoreThanTheLimitOfFilesWithoutASize) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "sparse", "");
  fs::resize_file(folder / "sparse", std::uintmax_t{1} << 40);
  EXPECT_EQ(read_file(folder / "sparse", mebibytes(512)).error().what,
            (folder / "sparse").string() + " is larger than 512.0 MiB");
  EXPECT_EQ(read_file("/proc/self/pagemap").error().what, "/proc/self/pagemap is larger than 16.0 MiB");
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

TEST(Error, ShortensTheValuesOfHostileFiles) {
  const Error error{ErrorKind::input, "cannot read a",
                    "'" + std::string(599, 'x') + "ä" + std::string(9000, 'y'), "fix it"};
  EXPECT_EQ(error.sentence(), "cannot read a: '" + std::string(599, 'x') + "…; fix it");
  const std::string path(4096, 'p');
  EXPECT_EQ((Error{ErrorKind::input, "cannot read " + path, "", ""}).sentence(), "cannot read " + path);
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

TEST(Json, BoundsTheMemoryOfHostileDocuments) {
  using testing::HasSubstr;
  const auto why = [](const std::string& text) { return parse_json(text).error().why; };
  const std::string million((1 << 20) + 1, 'a');
  EXPECT_TRUE(parse_json("\"" + million.substr(1) + "\""));
  EXPECT_THAT(why("{\"" + million + "\":1}"), HasSubstr("it has a string longer than 1 MiB"));
  EXPECT_THAT(why("\"" + million), HasSubstr("it has a string longer than 1 MiB"));
  EXPECT_THAT(why("[" + std::string(1 << 17, ' ') + "1]"), HasSubstr("it has a number or a gap longer"));
  EXPECT_THAT(why(std::string(1 << 17, '1')), HasSubstr("it has a number or a gap longer"));
  std::string lists = "[";
  for (int i = 0; i < 2'000'000; ++i) lists += "[],";
  EXPECT_THAT(why(lists + "1]"), HasSubstr("its values need more than 128 MiB of memory"));
}

// The library's own way to build objects compares each key with all before it.
TEST(Json, ReadsAnObjectWithManyKeys) {
  std::string text = "{\"first\":1";
  for (int i = 0; i < 300'000; ++i) text += ",\"k" + std::to_string(i) + "\":" + std::to_string(i);
  const auto document = parse_json(text + ",\"first\":2}");
  ASSERT_TRUE(document) << document.error().sentence();
  EXPECT_EQ(document->size(), 300'002U);
  EXPECT_EQ(get_integer(*document, "k299999"), 299'999);
  EXPECT_EQ(get_integer(*document, "first"), 1);
}

TEST(Json, ErrorsAreShortAndInUtf8) {
  const auto shown = parse_json("\"\xff" + std::string(100'000, 'x')).error().why;
  EXPECT_LE(shown.size(), 310U);
  EXPECT_EQ(shown, with_valid_utf8(shown));
  EXPECT_LE(parse_json("[1,2," + std::string(60'000, 'x')).error().why.size(), 310U);
}

TEST(Json, ReadsAListElementByElement) {
  std::vector<std::string> seen;
  const auto read = [&](std::string_view text) {
    seen.clear();
    return parse_json_list(text, "the list", [&](const Json& element) { seen.push_back(to_line(element)); });
  };
  EXPECT_TRUE(read(" [1, \"a,]\\\"[\", {\"b\": [2, 3]}, []] "));
  EXPECT_THAT(seen, testing::ElementsAre("1", "\"a,]\\\"[\"", "{\"b\":[2,3]}", "[]"));
  EXPECT_TRUE(read("[ ]"));
  EXPECT_THAT(seen, testing::IsEmpty());
  EXPECT_EQ(read("{}").error().sentence(), "the list is not usable: it is not a list");
  EXPECT_EQ(read("[1, 2").error().sentence(), "the list is not usable: it is cut off");
  EXPECT_EQ(read("[1] 2").error().sentence(), "the list is not usable: it goes on after its list");
  for (const char* damaged : {"", "[1,]", "[,1]", "[1 2]", "[1}", "[[1]", "]"})
    EXPECT_FALSE(read(damaged)) << damaged;
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
  const JsonKeys gap =
      read_json_keys(std::string_view("{\"a\": 1," + std::string(1 << 17, '\n') + "\"b\": 1}"));
  EXPECT_TRUE(gap.has("a"));
  EXPECT_FALSE(gap.has("b"));
}

}  // namespace

}  // namespace headroom
