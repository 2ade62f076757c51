// headroom watch, as a person would run it.
#include "base/text.h"
#include "command.h"

namespace headroom::test {
namespace {
using testing::HasSubstr;

TEST(Watch, ALogOfTegrastatsAsJsonLines) {
  TemporaryFolder folder;
  write_text(folder / "stats.log",
             "04-11-2025 23:59:59 RAM 4321/62801MB (lfb 1759x4MB) CPU [0%@729,off] GR3D_FREQ 3%@[0,0]\n"
             "04-12-2025 00:00:01 RAM 4322/62801MB NEW 5q\n");
  const auto result =
      run_headroom({"watch", "--from", "tegrastats:" + (folder / "stats.log").string(), "--jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto lines = split(trim(result.out), '\n');
  ASSERT_EQ(lines.size(), 2U);
  const auto first = parse_json(lines[0]), second = parse_json(lines[1]);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(get_integer(*first, "ram_used_bytes"), std::int64_t{4321} << 20);
  EXPECT_EQ(get_integer(*first, "time_ns"), 0);
  EXPECT_TRUE((*first)["unknown_tokens"].empty());
  EXPECT_FALSE(first->contains("swap_used_bytes"));
  EXPECT_EQ(get_integer(*second, "time_ns"), 2'000'000'000);  // over midnight
  EXPECT_EQ((*second)["unknown_tokens"], Json({"NEW", "5q"}));
  EXPECT_FALSE(second->contains("largest_free_block_bytes"));
  EXPECT_THAT(result.err, HasSubstr("2 words in 2 samples were not understood"));
}

TEST(Watch, WhatCannotBeReadIsSaidInOneSentence) {
  TemporaryFolder folder;
  const auto none = run_headroom({"watch", "--from", "tegrastats:" + (folder / "no.log").string()});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("cannot open"));
  const auto slip = run_headroom({"watch", "--from", "tegrastat:x"});
  EXPECT_EQ(slip.exit_code, 2);
  EXPECT_THAT(slip.err, HasSubstr("did you mean tegrastats:FILE?"));
  const auto directory = run_headroom({"watch", "--from", "meminfo:" + folder.path().string()});
  EXPECT_EQ(directory.exit_code, 2);
  EXPECT_THAT(directory.err, HasSubstr("it is a folder"));
}

// A line that never ends does not fill the memory, and what comes after it is read.
TEST(Watch, ALineOfMegabytes) {
  TemporaryFolder folder;
  write_text(folder / "log", std::string(8 << 20, 'x') + "\nRAM 1/2MB\n");
  const auto result = run_headroom({"watch", "--from", "tegrastats:" + (folder / "log").string(), "--jsonl"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\"ram_used_bytes\":1048576"));
}

}  // namespace
}  // namespace headroom::test
