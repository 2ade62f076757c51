#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <regex>
#include <set>

#include "base/text.h"
#include "cli/bench_flags.h"
#include "cli/flag_table.h"
#include "cli/verbs.h"
#include "support/test_support.h"

namespace headroom::cli {
namespace {

Result<FlagValues> parse(const std::string& words) {
  std::vector<std::string> arguments;
  for (const std::string_view word : split_words(words)) arguments.emplace_back(word);
  return parse_flags(bench_verb(), arguments);
}

std::string error_of(const std::vector<std::string>& arguments) {
  const auto values = parse_flags(bench_verb(), arguments);
  return values ? "" : values.error().sentence();
}

TEST(ParseFlags, DashesAndUnderscoresAreTheSameFlag) {
  for (const char* words : {"--max-frames 7", "--max_frames 7", "--max-frames=7"})
    EXPECT_EQ(parse(words)->integer("max-frames"), 7) << words;
}

TEST(ParseFlags, AcceptsSpellingsOfOlderTools) {
  const auto values = parse(
      "--enable_cudnn_tuning --gpu_mem_limit_gb 4 --workspace_mb 128 --max_frames_in_mem 300 "
      "--preprocessed_dir p --out_dir o --skip_setup --metrics_interval 0.5 --limit_videos 5 "
      "--limit_objects 1 --output_dir q");
  ASSERT_TRUE(values) << values.error().sentence();
  EXPECT_TRUE(values->toggle("tune"));
  EXPECT_TRUE(values->toggle("skip-setup"));
  EXPECT_EQ(values->text("prepared-dir"), "p");
  EXPECT_EQ(values->text("output-dir"), "q") << "the last one wins";
  EXPECT_EQ(values->number("gpu-mem-limit-gb"), 4.0);
}

TEST(ParseFlags, ARepeatedFlagKeepsAllValues) {
  const auto values = parse("--model a=a.onnx --model b.onnx");
  EXPECT_EQ(values->all("model"), (std::vector<std::string>{"a=a.onnx", "b.onnx"}));
  EXPECT_EQ(values->origin("model"), "command line");
  EXPECT_EQ(values->origin("conf"), "default");
}

TEST(ParseFlags, ErrorsAreOneSentenceWithAFix) {
  struct Case {
    std::vector<std::string> arguments;
    std::string error;
  };
  const Case cases[] = {
      {{"--max-frmes", "3"}, "headroom bench: unknown flag --max-frmes; did you mean --max-frames?"},
      {{"--mem-limit", "512"},
       "--mem-limit: size '512' has no unit: a bare number is ambiguous; write 512MiB, 512GB or 512B"},
      {{"--max-frames", "0"}, "--max-frames 0 is out of range; give a number from 1 to 1000000000000"},
      {{"--max-frames", "many"}, "--max-frames 'many' is not a whole number; write --max-frames N"},
      {{"--conf", "1.5"}, "--conf 1.5 is out of range; give a number from 0 to 1"},
      {{"--limit-mechanism", "cgrp"},
       "--limit-mechanism 'cgrp' is not one of auto, cgroup, rlimit, watchdog, none; did you mean 'cgroup'?"},
      {{"--timeout", "3 moons"},
       "--timeout: time '3 moons' has the unknown unit 'moons'; use ns, us, ms, s, min or h"},
      {{"--source"}, "--source needs a value: --source SRC"},
      {{"--timeout", "0"}, "--timeout 0 is out of range; give a time from 1s to 720h"},
      {{"--metrics-interval", "0"}, "--metrics-interval 0 is out of range; give a time from 10ms to 1h"},
      {{"--metrics-interval", "10ms"}, ""},
      {{"--workspace", "1MiB"}, "--workspace 1MiB is out of range; give a size from 32.0 MiB to 64.00 TiB"},
      {{"--mem-limit", "1KiB"}, "--mem-limit 1KiB is out of range; give a size from 8.0 MiB to 64.00 TiB"},
      {{"--gpu-mem-limit-gb", "0"}, "--gpu-mem-limit-gb 0 is out of range; give a number at least 0.01"},
      {{"--threads", "1025"}, "--threads 1025 is out of range; give a number from 0 to 1024"},
  };
  for (const Case& each : cases) EXPECT_EQ(error_of(each.arguments), each.error);
  for (const char* timeout : {"1ms", "1e9", "721h"})
    EXPECT_NE(error_of({"--timeout", timeout}), "") << timeout;
  for (const char* timeout : {"1", "1s", "720h"}) EXPECT_EQ(error_of({"--timeout", timeout}), "") << timeout;
}

TEST(ParseFlags, AFileNameAloneIsThePositional) {
  const auto values = parse("bench.toml --strict");
  ASSERT_TRUE(values);
  EXPECT_EQ(values->positionals(), (std::vector<std::string>{"bench.toml"}));
  EXPECT_TRUE(values->toggle("strict"));
}

// The variables that a file reads or sets in the environment; not the variables of CMake.
void add_variables(const std::filesystem::path& file, std::set<std::string>& names) {
  static const std::regex kUses(
      R"((?:getenv|setenv|environ|environ\.get)[("'\[]+(HEADROOM_\w+))"  // getenv("X"), os.environ["X"]
      R"(|(?:^|[^-\w])(HEADROOM_\w+)=)"                                  // X=1 COMMAND, dict(X="1")
      R"(|"(HEADROOM_\w+)["=]?[,:])"                                     // {"X", "1"}, {"X": "1"}
      R"(|\$[{(]?(HEADROOM_\w+))");                                      // $X
  const std::string text = test::read_text(file);
  for (std::sregex_iterator use(text.begin(), text.end(), kUses), end; use != end; ++use)
    for (std::size_t group = 1; group < use->size(); ++group)
      if ((*use)[group].matched) names.insert((*use)[group].str());
}

TEST(ReadEnvironment, KnowsEveryVariableOfScriptsAndTests) {
  namespace fs = std::filesystem;
  std::set<std::string> names;
  for (const char* file : {".ci/run", "Makefile"}) add_variables(test::source_path(file), names);
  for (const char* folder : {"scripts", "benchmarks", "python", "tests/cli", "tests/web", "packaging"})
    for (const auto& entry : fs::recursive_directory_iterator(test::source_path(folder)))
      if (const auto type = entry.path().extension();
          type == ".sh" || type == ".py" || type == ".cpp" || type == ".mjs" || type == ".service")
        add_variables(entry.path(), names);
  for (const char* sure : {"HEADROOM_BIN", "HEADROOM_MODELS", "HEADROOM_SHARED_DATA", "HEADROOM_FULL",
                           "HEADROOM_EXACT_VERSIONS", "HEADROOM_PLANTED_BYTES", "HEADROOM_MAX_FRAMES"})
    ASSERT_TRUE(names.contains(sure)) << sure << ": the search misses it";

  std::vector<std::string> unknown;
  ASSERT_TRUE(read_environment(bench_verb(), unknown));
  const std::vector<std::string> before = unknown;
  const auto is_flag = [](const std::string& name) {
    const std::string flag = to_lower(name.substr(std::string_view("HEADROOM_").size()));
    return std::ranges::any_of(verb_list(), [&](const Verb* verb) { return find_flag(*verb, flag); });
  };
  std::erase_if(names, [&](const std::string& name) { return is_flag(name) || ::getenv(name.c_str()); });
  for (const std::string& name : names) ::setenv(name.c_str(), "x", 1);
  ASSERT_TRUE(read_environment(bench_verb(), unknown));
  for (const std::string& name : names) ::unsetenv(name.c_str());
  EXPECT_EQ(unknown, before) << "add it to the list in src/cli/flag_parser.cpp, or rename it HEADROOM_TEST_…";
}

TEST(ReadEnvironment, ReportsAVariableThatIsNoFlag) {
  ::setenv("HEADROOM_MAX_FRMES", "1", 1);
  ::setenv("HEADROOM_TEST_ANYTHING", "1", 1);
  std::vector<std::string> unknown;
  ASSERT_TRUE(read_environment(bench_verb(), unknown));
  ::unsetenv("HEADROOM_MAX_FRMES");
  ::unsetenv("HEADROOM_TEST_ANYTHING");
  EXPECT_EQ(std::ranges::count(unknown, "HEADROOM_MAX_FRMES"), 1);
  EXPECT_EQ(std::ranges::count(unknown, "HEADROOM_TEST_ANYTHING"), 0);
}

}  // namespace
}  // namespace headroom::cli
