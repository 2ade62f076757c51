// Pickles that Python made, in every protocol, have the same content for this reader as for Python.
#include "snapshot/pickle_reader.h"

#include <fmt/format.h>

#include <bit>
#include <filesystem>
#include <string>

#include "base/subprocess.h"
#include "support/test_support.h"

namespace headroom::snapshot {
namespace {

using namespace std::string_literals;

std::string hex(std::string_view text) {
  std::string digits;
  for (const char byte : text) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

std::string written(const PickleData& data, PickleValue value) {
  switch (value.kind()) {
    case PickleKind::absent:
      return "absent";
    case PickleKind::none:
      return "None";
    case PickleKind::boolean:
      return *data.boolean(value) ? "True" : "False";
    case PickleKind::integer:
    case PickleKind::wide_integer:
      return std::to_string(*data.integer(value));
    case PickleKind::huge_integer:
      return "huge";
    case PickleKind::real:
      return fmt::format("f{:016x}", std::bit_cast<std::uint64_t>(*data.real(value)));
    case PickleKind::text:
      return "t" + hex(*data.text(value));
    case PickleKind::bytes:
      return "b" + hex(data.strings()[data.text_id(value)]);
    default:
      break;
  }
  std::string text;
  const auto comma = [&] { return text.empty() ? "" : ","; };
  if (value.kind() == PickleKind::dict) {
    data.for_each_pair(value, [&](PickleValue key, PickleValue item) {
      text += fmt::format("{}{}:{}", comma(), written(data, key), written(data, item));
    });
    return "{" + text + "}";
  }
  data.for_each_item(value, [&](PickleValue item) { text += comma() + written(data, item); });
  return value.kind() == PickleKind::list ? "[" + text + "]" : "(" + text + ")";
}

std::string read(std::string_view bytes) {
  PickleInput input = PickleInput::of(bytes);
  PickleData data;
  const auto status = read_pickle(input, data);
  return status ? written(data, data.root()) : "error: " + status.error().why;
}

TEST(PickleReader, ReadsWhatPythonWrites) {
  const test::TemporaryFolder folder;
  constexpr int kPickles = 240;
  SpawnOptions options;
  options.command = {"python3", test::source_path("tests/unit/snapshot/python_pickles.py"),
                     folder.path().string(), std::to_string(kPickles)};
  auto child = Subprocess::spawn(options);
  if (!child || !child->wait().success()) GTEST_SKIP() << test::absent_message("python3");
  for (int i = 0; i < kPickles; ++i) {
    const auto expected = test::read_text(folder / fmt::format("{}.text", i));
    ASSERT_FALSE(expected.empty());
    EXPECT_EQ(read(test::read_text(folder / fmt::format("{}.pickle", i))), expected) << i;
    auto input = PickleInput::open(folder / fmt::format("{}.pickle", i));
    ASSERT_TRUE(input.has_value());
    PickleData data;
    const auto status = read_pickle(*input, data);
    ASSERT_TRUE(status.has_value()) << status.error().why;
    EXPECT_EQ(written(data, data.root()), expected) << i << " from a file";
  }
}

TEST(PickleReader, ReadsEachOpcodeOfPlainData) {
  EXPECT_EQ(read("\x80\x02]q\x01(K\x01J\xff\xff\xff\xffM\x01\x02\x8a\0\x8a\x01\xff"s
                 "e."s),
            "[1,-1,513,0,-1]");
  EXPECT_EQ(read("(I7\nI01\nI00\nL-5L\nL9\nF1.5\nNl."), "[7,True,False,-5,9,f3ff8000000000000,None]");
  EXPECT_EQ(read("(I9223372036854775808\nI18446744073709551616\nl."), "[-9223372036854775808,huge]");
  EXPECT_EQ(read("(S'a\\'b\\x41\\n'\nV\\u00e9\\\nl."),
            "[t61276241"
            "0a,tc3a95c]");
  EXPECT_EQ(read("(U\x01xT\x01\0\0\0yX\x01\0\0\0z\x8d\x01\0\0\0\0\0\0\0wt."s), "(t78,t79,t7a,t77)");
  EXPECT_EQ(read("(C\x01xB\x01\0\0\0y\x8e\x01\0\0\0\0\0\0\0zt."s), "(b78,b79,b7a)");
  EXPECT_EQ(read("(K\x01K\x02"
                 "d."),
            "{1:2}");
  EXPECT_EQ(read("}K\x01K\x02s."), "{1:2}");
  EXPECT_EQ(read(")."), "()");
  EXPECT_EQ(read("K\x01\x85K\x02K\x03\x86K\x04K\x05K\x06\x87\x87."), "((1),(2,3),(4,5,6))");
  EXPECT_EQ(read("]p0\n(g0\nh\0j\0\0\0\0t."s), "([],[],[])") << "each get names the same empty list";
  EXPECT_EQ(read("]r\x05\0\0\0h\x05\x86."s), "([],[])");
  EXPECT_EQ(read("\x80\x04\x95\x04\0\0\0\0\0\0\0]\x94h\0\x86."s), "([],[])");
  EXPECT_EQ(read("\x8a\x09\0\0\0\0\0\0\0\x80\0."s), "-9223372036854775808")
      << "an address with its highest bit set";
  EXPECT_EQ(read("\x8a\x09\0\0\0\0\0\0\0\x80\x01."s), "huge");
  EXPECT_EQ(read("\x8b\x02\0\0\0\x01\x80."s), "-32767");
  EXPECT_EQ(read("G?\xf8\0\0\0\0\0\0."s), "f3ff8000000000000");
}

// Objects that the caller converts need no more memory than their number.
TEST(PickleReader, ConvertedObjectsNeedNoMemory) {
  std::string pickle = "](";
  constexpr int kDicts = 100'000;
  for (int i = 0; i < kDicts; ++i)
    pickle +=
        "}(K\x01K\x02K\x03K\x04K\x05](K\x06K\x07"
        "eu";
  pickle += "e.";
  PickleInput input = PickleInput::of(pickle);
  PickleData data, plain;
  std::uint32_t lists = 0, dicts = 0;
  const auto status = read_pickle(input, data, [&](PickleValue object) -> std::optional<std::uint32_t> {
    if (data.is(object, PickleKind::list)) return ++lists;
    EXPECT_EQ(data.kept(data.row(object)->values[2]), lists);
    return dicts++;
  });
  ASSERT_TRUE(status.has_value()) << status.error().why;
  EXPECT_EQ(dicts, 100'000U);
  EXPECT_EQ(lists, 100'000U) << "the outer one has too many items to be offered";
  std::uint32_t next = 0;
  data.for_each_item(data.root(), [&](PickleValue item) {
    EXPECT_EQ(data.kept(item), next++);
    EXPECT_EQ(data.find(item, {}).kind(), PickleKind::absent);
  });
  input = PickleInput::of(pickle);
  ASSERT_TRUE(read_pickle(input, plain).has_value());
  EXPECT_LT(2 * data.storage_bytes(), plain.storage_bytes());
}

TEST(PickleReader, RejectsChangesToConvertedObjects) {
  const auto outcome = [](std::string_view bytes) {
    PickleInput input = PickleInput::of(bytes);
    PickleData data;
    const auto status = read_pickle(input, data, [](PickleValue) { return std::optional<std::uint32_t>(7); });
    return status ? "kept: " + std::to_string(data.kept(data.root()).value_or(0)) : status.error().why;
  };
  EXPECT_EQ(outcome("](NNe."), "kept: 7");
  EXPECT_EQ(outcome("](NNeNa."), "it changes an object that is already complete");
  EXPECT_EQ(outcome("}(K\x01NuK\x02Ns."), "it changes an object that is already complete");
  EXPECT_EQ(outcome("]NaNa."), "kept: 0") << "protocol 0 fills item by item";
  EXPECT_EQ(outcome("}K\x01NsK\x02Ns."), "kept: 0");
  EXPECT_EQ(outcome("](" + std::string(1000, 'N') + "eNa."), "kept: 0") << "a step of 1000, and one more";
}

TEST(PickleReader, IgnoresBytesAfterTheEnd) { EXPECT_EQ(read("N.garbage"), "None"); }

TEST(PickleReader, RecognizesAPickleByItsFirstBytes) {
  EXPECT_TRUE(looks_like_pickle("\x80\x04\x95"));
  EXPECT_TRUE(looks_like_pickle("\x80\x02}"));
  EXPECT_TRUE(looks_like_pickle("(dp0\n"));
  EXPECT_TRUE(looks_like_pickle("}q\x01"));
  EXPECT_FALSE(looks_like_pickle("{\"a\": 1}"));
  EXPECT_FALSE(looks_like_pickle("HRECORD1"));
  EXPECT_FALSE(looks_like_pickle("\x80"));
  EXPECT_FALSE(looks_like_pickle(""));
}

}  // namespace
}  // namespace headroom::snapshot
