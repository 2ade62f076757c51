// Damaged and malicious pickles: the reader reports one sentence, with time and memory proportional to their
// size.
#include <fmt/format.h>
#include <sys/resource.h>

#include <string>

#include "snapshot/pickle_reader.h"
#include "support/test_support.h"

namespace headroom::snapshot {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(std::string_view bytes) {
  PickleInput input = PickleInput::of(bytes);
  PickleData data;
  const auto status = read_pickle(input, data);
  return status ? "no error" : status.error().why;
}

TEST(HostilePickle, NamesForbiddenCodeWithoutRunningIt) {
  EXPECT_EQ(error_of("cos\nsystem\n(S'touch /tmp/headroom_was_here'\ntR."),
            "it uses Python's os.system at byte 0");
  EXPECT_EQ(error_of("\x80\x04\x8c\x05posix\x8c\x06system\x93."), "it uses Python's posix.system at byte 17");
  EXPECT_EQ(error_of("(ios\nsystem\n."), "it uses Python's os.system at byte 1");
  EXPECT_EQ(error_of("N)R."), "it creates a Python object at byte 2");
  EXPECT_EQ(error_of("N}b."), "it creates a Python object at byte 2");
  EXPECT_EQ(error_of("(No."), "it creates a Python object at byte 2");
  EXPECT_EQ(error_of("N)\x81."), "it creates a Python object at byte 2");
  EXPECT_EQ(error_of("N)}\x92."), "it creates a Python object at byte 3");
  EXPECT_EQ(error_of("P1\n."), "it refers to an external object at byte 0");
  EXPECT_EQ(error_of("NQ."), "it refers to an external object at byte 1");
}

// All opcodes that do not build plain data, including the extension registry and the sets and buffers of
// later protocols.
TEST(HostilePickle, RejectsEveryOtherOpcode) {
  const std::string known =
      "(.NIJKMLFGSTUVXBC]ael)t}dsupqrghj\x80\x95\x88\x89\x8a\x8b\x8c\x8d\x8e\x85\x86\x87\x94";
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
  EXPECT_EQ(error_of("\x80\x06N."), "it is a pickle of protocol 6, and Headroom reads 0 to 5");
  EXPECT_EQ(error_of("h\x05."), "it refers to object 5, which does not exist");
  EXPECT_EQ(error_of("e."), "an opcode has no matching mark");
  EXPECT_EQ(error_of("N(Ne."), "it appends to a value that is not a list");
  EXPECT_EQ(error_of("](N\x86."), "an opcode needs more values than its stack has") << "a mark lies between";
  EXPECT_EQ(error_of("](Na."), "an opcode needs more values than its stack has");
  EXPECT_EQ(error_of("](N(NNuu."), "it sets an item of a value that is not a dict");
  EXPECT_EQ(error_of("}(NNNu."), "it has a key without a value");
  EXPECT_EQ(error_of("}]Ns."), "a key of a dict is a list or a dict");
  EXPECT_EQ(error_of("I12a\n."), "it has a damaged number");
  EXPECT_EQ(error_of("F1.5.5\n."), "it has a damaged number");
  EXPECT_EQ(error_of("Sabc\n."), "it has a damaged text");
  EXPECT_EQ(error_of("g99999999999999999999\n."), "it has a damaged number");
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
    layers += "lq"s + static_cast<char>(depth + 1);
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
