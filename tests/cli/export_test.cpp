// `headroom export` as a person uses it.
#include <fmt/format.h>
#include <sys/wait.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/diff_matchers.h"
#include "exporters/exporter_list.h"
#include "support/recording_builder.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using Words = std::vector<std::string>;

class Export : public testing::Test {
 protected:
  Export() {
    RecordingBuilder builder(folder_ / "a.hrec");
    builder.enter_scope(0, 10, builder.scope("conv"));
    builder.allocate(0, 20, 0x1000, 1000, {2, 10});
    builder.finish();
  }
  CommandResult run(Words words) {
    words.insert(words.begin(), "export");
    CommandOptions options;
    options.folder = folder_.path();
    return run_headroom(words, options);
  }
  TemporaryFolder folder_;
};

TEST_F(Export, EveryFormatWritesAFileAndPrintsTheNextCommand) {
  for (const exporters::Exporter& exporter : exporters::exporter_list()) {
    const std::string name = fmt::format("a.{}", exporter.extension);
    const CommandResult result = run({"a.hrec", "--to", std::string(exporter.name)});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_GT(fs::file_size(folder_ / name), 0U);
    EXPECT_THAT(result.out, AllOf(testing::StartsWith(name), HasSubstr("\n\n")));
    EXPECT_THAT(split(trim(result.out), '\n').back(), HasSubstr(name));
    EXPECT_EQ(result.err, "");
  }
}

TEST_F(Export, StandardOutputHasOnlyTheData) {
  EXPECT_THAT(run({"a.hrec", "--to", "collapsed", "--out", "-", "--metric", "allocated"}),
              Ends(0, "conv;0x9;0x1 1000\n", ""));
  EXPECT_FALSE(fs::exists(folder_ / "a.collapsed.txt"));
}

TEST_F(Export, WrongUseIsOneSentenceAndExitCodeTwo) {
  write_text(folder_ / "text", "not a recording");
  const std::vector<std::pair<Words, std::string>> cases{
      {{"a.hrec"}, "--to speedscope|collapsed|"},
      {{"--to", "csv"}, "needs one recording"},
      {{"a.hrec", "a.hrec", "--to", "csv"}, "; write headroom export run.hrec --to speedscope"},
      {{"a.hrec", "--to", "cvs"}, "csv"},
      {{"a.hrec", "--to", "csv", "--metric", "peak"}, "--metric"},
      {{"a.hrec", "--to", "csv", "--out", "a.hrec"}, "would replace the recording itself"},
      {{"missing.hrec", "--to", "csv"}, "missing.hrec"},
      {{"text", "--to", "csv"}, "text"},
  };
  for (const auto& [words, expected] : cases) {
    const CommandResult result = run(words);
    EXPECT_THAT(result, IsRefused(HasSubstr(expected))) << fmt::format("{}", fmt::join(words, " "));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_EQ(read_text(folder_ / "a.hrec").substr(0, 8), "HEADROOM");
}

TEST_F(Export, AnUnwritableFileIsExitCodeOne) {
  EXPECT_THAT(run({"a.hrec", "--to", "csv", "--out", "no/such/folder.csv"}),
              Ends(1, testing::_, AllOf(HasSubstr("cannot write no/such/folder.csv"), HasSubstr("--out"))));
}

TEST_F(Export, QuotesTheNextCommandForTheShell) {
  EXPECT_THAT(run({"a.hrec", "--to", "heaptrack", "--out", "it's a file"}),
              Ends(0, testing::EndsWith("\n\nheaptrack_print 'it'\\''s a file'\n")));
}

// A real program, and heaptrack's own reading of the export against the report.
TEST_F(Export, HeaptrackAgreesOnARealProgram) {
  if (std::system("command -v heaptrack_print >/dev/null 2>&1") != 0)
    GTEST_SKIP() << absent_message("heaptrack_print");
  CommandOptions options;
  options.folder = folder_.path();
  const CommandResult traced =
      run_headroom({"trace", "--full", "--out", "b.hrec", "--", "/bin/ls", "-lR", "/usr/include"}, options);
  ASSERT_EQ(traced.exit_code, 0) << traced.err;
  ASSERT_EQ(run({"b.hrec", "--to", "heaptrack"}).exit_code, 0);
  const CommandResult reported = run_headroom({"report", "b.hrec", "--json"}, options);
  const auto report = parse_json(reported.out);
  ASSERT_TRUE(report.has_value()) << reported.err;

  const auto sum = [&](const std::string& cost) {
    const std::string command = fmt::format(
        "cd {} && heaptrack_print -a 0 -p 0 -T 0 --disable-builtin-suppressions "
        "--flamegraph-cost-type {} -F flames b.heaptrack.txt >printed 2>&1",
        folder_.path().string(), cost);
    EXPECT_EQ(std::system(command.c_str()), 0) << read_text(folder_ / "printed");
    const std::string flames = read_text(folder_ / "flames");
    std::int64_t total = 0;
    for (const std::string_view line : split(trim(flames), '\n'))
      total += parse_number<std::int64_t>(line.substr(line.rfind(' ') + 1)).value_or(0);
    return total;
  };
  EXPECT_GT(sum("allocations"), 100);
  EXPECT_EQ(sum("allocations"), get_integer(*report, "allocations"));
  EXPECT_EQ(sum("peak"), get_integer(*report, "peak_bytes"));
  EXPECT_EQ(sum("leaked"), get_integer(*report, "leaked_bytes"));
}

TEST_F(Export, APageNeverReplacesItsInput) {
  fs::create_symlink("a.hrec", folder_ / "link.html");
  const std::string before = read_text(folder_ / "a.hrec");
  CommandOptions options;
  options.folder = folder_.path();
  for (const char* out : {"a.hrec", "link.html", "./a.hrec"}) {
    EXPECT_THAT(run_headroom({"report", "a.hrec", "--html", out}, options),
                IsRefused(AllOf(HasSubstr("would replace the recording itself"), HasSubstr("--html"))))
        << out;
  }
  EXPECT_EQ(read_text(folder_ / "a.hrec"), before);
}

}  // namespace
}  // namespace headroom::test
