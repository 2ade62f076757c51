#include "cli/flag_help.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "cli/verbs.h"
#include "support/test_support.h"

namespace headroom::cli {
namespace {

// Code points, not bytes: the help has a few characters outside ASCII.
std::size_t columns(std::string_view line) {
  return static_cast<std::size_t>(
      std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

void expect_one_screen(const std::string& text, const std::string& what) {
  const auto lines = split(text, '\n');
  EXPECT_LE(lines.size(), 25U) << what << " (24 lines and the end)\n" << text;
  for (const std::string_view line : lines) EXPECT_LE(columns(line), 80U) << what << ": " << line;
}

TEST(Help, ShortHelpFitsOneScreen) {
  expect_one_screen(program_help(verb_list()), "headroom -h");
  for (const Verb* verb : verb_list()) expect_one_screen(short_help(*verb), verb->name);
}

TEST(Help, LongHelpNamesEveryFlagWithinTheWidth) {
  for (const Verb* verb : verb_list()) {
    const std::string text = long_help(*verb);
    for (const Flag& flag : verb->flags)
      EXPECT_THAT(text, testing::HasSubstr("--" + flag.name)) << verb->name;
    for (const std::string_view line : split(text, '\n')) EXPECT_LE(columns(line), 80U) << line;
  }
}

TEST(Help, EveryFlagHasAHelpAndNoTwoFlagsShareAName) {
  for (const Verb* verb : verb_list()) {
    std::vector<std::string> names;
    for (const Flag& flag : verb->flags) {
      EXPECT_FALSE(flag.help.empty()) << flag.name;
      names.push_back(flag.name);
      names.insert(names.end(), flag.aliases.begin(), flag.aliases.end());
    }
    std::ranges::sort(names);
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << verb->name;
  }
}

TEST(Docs, TheCommandLinePageHasEveryFlag) {
  const std::string page = test::read_text(std::filesystem::path(test::source_path("docs/command-line.md")));
  for (const Verb* verb : verb_list())
    for (const Flag& flag : verb->flags)
      EXPECT_THAT(page, testing::HasSubstr("--" + flag.name)) << verb->name;
}

TEST(BashCompletion, IsValidAndCompletesFlags) {
  if (std::system("command -v bash >/dev/null") != 0) GTEST_SKIP() << test::absent_message("bash");
  test::TemporaryFolder folder;
  test::write_text(folder / "completion", bash_completion(verb_list()));
  const std::string script = ". " + (folder / "completion").string() +
                             "; COMP_WORDS=(headroom bench --max-fr); COMP_CWORD=2; _headroom; [[ \" "
                             "${COMPREPLY[*]} \" == *' --max-frames '* ]]";
  test::write_text(folder / "try.sh", script);
  EXPECT_EQ(std::system(("bash " + (folder / "try.sh").string()).c_str()), 0);
}

}  // namespace
}  // namespace headroom::cli
