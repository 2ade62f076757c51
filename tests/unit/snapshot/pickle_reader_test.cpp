// Pickles that Python made, in protocols 2 to 5, have the same content for this reader as for Python.

#include <fmt/format.h>
#include <sys/resource.h>
#include <bit>
#include <filesystem>
#include <string>

#include "base/subprocess.h"
#include "snapshot/pickle_reader.h"
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
  EXPECT_EQ(read("(X\x01\0\0\0z\x8d\x01\0\0\0\0\0\0\0wt."s), "(t7a,t77)");
  EXPECT_EQ(read("(C\x01xB\x01\0\0\0y\x8e\x01\0\0\0\0\0\0\0zt."s), "(b78,b79,b7a)");
  EXPECT_EQ(read("}K\x01K\x02s."), "{1:2}");
  EXPECT_EQ(read(")."), "()");
  EXPECT_EQ(read("K\x01\x85K\x02K\x03\x86K\x04K\x05K\x06\x87\x87."), "((1),(2,3),(4,5,6))");
  EXPECT_EQ(read("]q\0(h\0j\0\0\0\0t."s), "([],[])") << "each get names the same empty list";
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
  EXPECT_EQ(outcome("]NaNa."), "kept: 0") << "single items may follow";
  EXPECT_EQ(outcome("}K\x01NsK\x02Ns."), "kept: 0");
  EXPECT_EQ(outcome("](" + std::string(1000, 'N') + "eNa."), "kept: 0") << "a step of 1000, and one more";
}

TEST(PickleReader, IgnoresBytesAfterTheEnd) { EXPECT_EQ(read("N.garbage"), "None"); }

// Damaged and malicious pickles: the reader reports one sentence, with time and memory proportional to their
// size.

using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(std::string_view bytes) {
  PickleInput input = PickleInput::of(bytes);
  PickleData data;
  const auto status = read_pickle(input, data);
  return status ? "no error" : status.error().why;
}

TEST(HostilePickle, NamesForbiddenCodeWithoutRunningIt) {
  EXPECT_EQ(error_of("cos\nsystem\n(tR."), "it uses Python's os.system at byte 0");
  EXPECT_EQ(error_of("\x80\x04\x8c\x05posix\x8c\x06system\x93."), "it uses Python's posix.system at byte 17");
  EXPECT_EQ(error_of("N)R."), "it creates a Python object at byte 2");
  EXPECT_EQ(error_of("N}b."), "it creates a Python object at byte 2");
  EXPECT_EQ(error_of("(No."), "it creates a Python object at byte 2");
  EXPECT_EQ(error_of("N)\x81."), "it creates a Python object at byte 2");
  EXPECT_EQ(error_of("N)}\x92."), "it creates a Python object at byte 3");
  EXPECT_EQ(error_of("NQ."), "it refers to an external object at byte 1");
}

// All opcodes that do not build plain data, including the extension registry, the sets and buffers of later
// protocols, and the texts of protocols 0 and 1, which no version of PyTorch writes.
TEST(HostilePickle, RejectsEveryOtherOpcode) {
  const std::string known = "(.NJKMGXBC]ae)t}suqrhj\x80\x95\x88\x89\x8a\x8b\x8c\x8d\x8e\x85\x86\x87\x94";
  for (int opcode = 0; opcode < 256; ++opcode) {
    const std::string text{static_cast<char>(opcode)};
    if (known.find(text) != std::string::npos) continue;
    PickleInput input = PickleInput::of(text);
    PickleData data;
    const auto status = read_pickle(input, data);
    ASSERT_FALSE(status.has_value()) << opcode;
    EXPECT_THAT(status.error().fix, HasSubstr("never runs code")) << opcode;
  }
  EXPECT_THAT(error_of("\x8f."), StartsWith("it has the unsupported opcode 0x8f at byte 0"));
}

TEST(HostilePickle, RemovesControlCharactersFromNames) {
  EXPECT_EQ(error_of("c\x1b[31mos\nsys\x07tem\n."), "it uses Python's os.system at byte 0");
}

TEST(HostilePickle, ReportsStructureErrors) {
  EXPECT_EQ(error_of(""), "it is cut off after 0 bytes");
  EXPECT_EQ(error_of("."), "an opcode needs more values than its stack has");
  EXPECT_EQ(error_of("\x80\x06N."), "it is a pickle of protocol 6, and Headroom reads 2 to 5");
  EXPECT_EQ(error_of("h\x05."), "it refers to object 5, which does not exist");
  EXPECT_EQ(error_of("e."), "an opcode has no matching mark");
  EXPECT_EQ(error_of("N(Ne."), "it appends to a value that is not a list");
  EXPECT_EQ(error_of("](N\x86."), "an opcode needs more values than its stack has") << "a mark lies between";
  EXPECT_EQ(error_of("](Na."), "an opcode needs more values than its stack has");
  EXPECT_EQ(error_of("](N(NNuu."), "it sets an item of a value that is not a dict");
  EXPECT_EQ(error_of("}(NNNu."), "it has a key without a value");
  EXPECT_EQ(error_of("}]Ns."), "a key of a dict is a list or a dict");
  EXPECT_EQ(error_of("X\xff\xff\xff\xff"
                     "ab"),
            "it is cut off after 7 bytes")
      << "4 GiB are announced, but not allocated";
  EXPECT_EQ(error_of("\x8d\xff\xff\xff\xff\xff\xff\xff\x7f"
                     "ab"),
            "it is cut off after 11 bytes");
  EXPECT_EQ(error_of("]r\xff\xff\xff\xff."), "it numbers an object out of order");
  EXPECT_EQ(error_of(std::string(2000, '(')), "it is nested too deeply");
}

TEST(HostilePickle, RejectsEveryTruncatedPickle) {
  const std::string whole =
      "\x80\x04\x95\x20\0\0\0\0\0\0\0}\x94(\x8c\x08segments\x94]\x94(K\x01M\x01\x02J\0\0\0\x01\x8a\x02\x01\x02G\0\0\0\0\0\0\0\0eu."s;
  EXPECT_EQ(error_of(whole), "no error");
  for (std::size_t i = 0; i < whole.size(); ++i)
    EXPECT_EQ(error_of(std::string_view(whole).substr(0, i)), fmt::format("it is cut off after {} bytes", i));
}

// A list that contains itself is never walked to the end. A list that is referenced a million times is stored
// once.
TEST(HostilePickle, StoresSharedAndCircularObjectsOnce) {
  EXPECT_EQ(error_of("]q\0h\0a."s), "no error");
  std::string layers = "]q\0"s;
  for (char depth = 0; depth < 100; ++depth) {
    layers += "(";
    for (int i = 0; i < 100; ++i) layers += "h"s + depth;
    layers += "tq"s + static_cast<char>(depth + 1);
  }
  layers += ".";
  PickleInput input = PickleInput::of(layers);
  PickleData data;
  ASSERT_TRUE(read_pickle(input, data).has_value());
  EXPECT_LT(data.storage_bytes(), 4U << 20);
}

std::int64_t most_resident_bytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

// Each byte makes a tuple that contains the previous one: 24 bytes of memory each.
TEST(HostilePickle, RejectsPicklesThatNeedTooMuchMemory) {
  const std::int64_t before = most_resident_bytes();
  EXPECT_EQ(error_of("N" + std::string(40'000'000, '\x85') + "."),
            "it needs far more memory than a snapshot of its size");
  EXPECT_EQ(error_of(std::string(40'000'000, 'N') + "."),
            "it needs far more memory than a snapshot of its size");
  EXPECT_LT(most_resident_bytes() - before, std::int64_t{1} << 30);
}

}  // namespace

}  // namespace headroom::snapshot
