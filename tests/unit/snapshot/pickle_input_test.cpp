#include "snapshot/pickle_input.h"

#include <zlib.h>

#include <filesystem>
#include <string>

#include "snapshot/pickle_reader.h"
#include "support/test_support.h"

namespace headroom::snapshot {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string packed(const std::string& plain) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(::deflateBound(&stream, plain.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

std::string list_of(int count) {
  std::string pickle = "](";
  for (int i = 0; i < count; ++i) {
    pickle += 'M';
    pickle += static_cast<char>(i * 7);
    pickle += static_cast<char>(i >> 5);
  }
  return pickle + "e.";
}

std::string outcome(const std::filesystem::path& file) {
  auto input = PickleInput::open(file);
  if (!input) return input.error().sentence();
  PickleData data;
  const auto status = read_pickle(*input, data);
  if (!status) return status.error().why;
  int items = 0;
  data.for_each_item(data.root(), [&](PickleValue) { ++items; });
  return "items: " + std::to_string(items);
}

TEST(PickleInput, ReadsPlainAndGzipInWindows) {
  const test::TemporaryFolder folder;
  const std::string pickle = list_of(1'000'000);
  test::write_text(folder / "a", pickle);
  test::write_text(folder / "b", packed(pickle));
  const std::size_t half = pickle.size() / 2;
  test::write_text(folder / "c", packed(pickle.substr(0, half)) + packed(pickle.substr(half)));
  test::write_text(folder / "d", packed(pickle) + std::string(512, '\0'));
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_EQ(outcome(folder / name), "items: 1000000") << name;
}

TEST(PickleInput, ReadsTextsOfAnyLength) {
  const test::TemporaryFolder folder;
  const std::string text(5 << 20, 'x');
  std::string pickle = "]X";
  for (int shift = 0; shift < 32; shift += 8) pickle += static_cast<char>(text.size() >> shift);
  test::write_text(folder / "a", packed(pickle + text + "a."));
  EXPECT_EQ(outcome(folder / "a"), "items: 1");
}

TEST(PickleInput, ReportsDamagedGzipStreams) {
  const test::TemporaryFolder folder;
  const std::string whole = packed(list_of(300'000));
  test::write_text(folder / "a", whole.substr(0, whole.size() / 2));
  EXPECT_EQ(outcome(folder / "a"), "its gzip stream is cut off");
  test::write_text(folder / "b", whole.substr(0, whole.size() - 4));
  EXPECT_EQ(outcome(folder / "b"), "its gzip stream is cut off")
      << "the pickle is complete, but its checksum is cut off";
  std::string damaged = whole;
  damaged[whole.size() - 6] = static_cast<char>(damaged[whole.size() - 6] ^ 1);
  test::write_text(folder / "c", damaged);
  EXPECT_EQ(outcome(folder / "c"), "its gzip stream is damaged") << "the checksum differs";
  test::write_text(folder / "d", std::string("\x1f\x8b garbage"));
  EXPECT_EQ(outcome(folder / "d"), "its gzip stream is damaged");
}

TEST(PickleInput, RejectsDecompressionBombs) {
  const test::TemporaryFolder folder;
  constexpr int kLength = 80 << 20;
  std::string text = "]X";
  for (int shift = 0; shift < 32; shift += 8) text += static_cast<char>(kLength >> shift);
  test::write_text(folder / "a", packed(text + std::string(kLength, 'x') + "a."));
  EXPECT_EQ(outcome(folder / "a"), "it unpacks to more than 100 times its size");
}

TEST(PickleInput, AcceptsRegularFilesOnly) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(outcome(folder / "absent"), HasSubstr("absent: No such file or directory; check the path"));
  EXPECT_THAT(outcome(folder.path()), HasSubstr("it is not a file"));
  EXPECT_EQ(outcome("/dev/null").substr(0, 11), "cannot read");
  test::write_text(folder / "empty", "");
  EXPECT_THAT(outcome(folder / "empty"), StartsWith("it is cut off after 0 bytes"));
}

}  // namespace
}  // namespace headroom::snapshot
