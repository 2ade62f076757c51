#include "bench/conductor/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "support/test_support.h"
#include "types/external_data.h"

namespace headroom::bench {
namespace {
using test::TemporaryFolder;
using test::write_text;
using testing::ElementsAre;

// An entry of external_data as protobuf encodes it.
std::string entry(const std::string& key, const std::string& value) {
  const auto text = [](char tag, const std::string& words) {
    std::string field{tag};
    if (words.size() >= 0x80) field += static_cast<char>(0x80 | (words.size() & 0x7F));
    field += static_cast<char>(words.size() >= 0x80 ? words.size() >> 7 : words.size());
    return field + words;
  };
  return text(0x0A, key) + text(0x12, value);
}

std::set<std::string> found_in(const std::string& bytes, std::size_t piece) {
  ExternalDataFinder finder;
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    finder.take(std::string_view(bytes).substr(at, piece));
  return finder.names();
}

TEST(ExternalDataFinder, FindsNamesAcrossPieces) {
  const std::string long_name = std::string(200, 'w') + ".bin";
  const std::string bytes = "head\x0A" + entry("location", "w.bin") + std::string(100, '\x0A') +
                            entry("offset", "4096") + entry("location", "parts/b.bin") +
                            entry("location", long_name) + entry("location", "./w.bin") + "tail";
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{64}, bytes.size()})
    EXPECT_THAT(found_in(bytes, piece), ElementsAre("parts/b.bin", "w.bin", long_name)) << piece;
}

TEST(ExternalDataFinder, IgnoresNamesOutsideTheModelsFolder) {
  for (const char* name : {"/etc/passwd", "../w.bin", "a/../../w.bin", ""})
    EXPECT_TRUE(found_in(entry("location", name), 64).empty()) << name;
  EXPECT_TRUE(found_in(entry("location", std::string("w\0x", 3)), 64).empty());
}

// A length without end, a length that is too long, and a file that ends in the middle of an entry.
TEST(ExternalDataFinder, SkipsBytesThatOnlyLookLikeAnEntry) {
  const std::string key = entry("location", "").substr(0, 10);
  const std::string real = entry("location", "w.bin");
  for (const std::string& broken :
       {key + "\x12\xFF\xFF\xFF\xFF", key + "\x12\xFF\x7F", key + "\x1A\x05other", key + key})
    EXPECT_THAT(found_in(broken + real, 5), ElementsAre("w.bin"));
  EXPECT_TRUE(found_in(key + "\x12\x7Fshort", 5).empty());
}

TEST(ModelFiles, IncludesTheWeightsNextToTheModel) {
  TemporaryFolder folder;
  const auto model = folder / "m.onnx";
  write_text(model, "graph" + entry("location", "w.bin") + entry("location", "absent.bin"));
  write_text(folder / "w.bin", std::string(1000, 'a'));
  const auto read = [&] { return read_model_files(model, [] {}); };
  const auto first = read();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->size.count, static_cast<std::int64_t>(std::filesystem::file_size(model)) + 1000);
  write_text(folder / "w.bin", std::string(1000, 'b'));
  EXPECT_NE(read()->fingerprint, first->fingerprint);
  EXPECT_EQ(read()->fingerprint.size(), first->fingerprint.size());
}

TEST(ModelFiles, UsesTheFilesFingerprintForASingleFile) {
  TemporaryFolder folder;
  write_text(folder / "m.onnx", "graph and weights");
  const auto files = read_model_files(folder / "m.onnx", [] {});
  ASSERT_TRUE(files);
  EXPECT_EQ(files->fingerprint, *file_fingerprint(folder / "m.onnx"));
  EXPECT_EQ(files->size, Bytes{17});
  EXPECT_FALSE(read_model_files(folder / "none.onnx", [] {}));
}

}  // namespace
}  // namespace headroom::bench
