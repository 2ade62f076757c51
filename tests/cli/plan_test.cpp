// `headroom plan` as users and CI jobs run it.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/diff_matchers.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

std::string example(const std::string& name) {
  return (fs::path(test::source_path("docs/examples")) / name).string();
}

CommandResult plan(Words words, const fs::path& folder = {}) {
  words.insert(words.begin(), "plan");
  return run_headroom(words, {.folder = folder});
}

TEST(Plan, ReproducesTheTablesOfTheGuide) {
  EXPECT_THAT(plan({example("budget-perception.toml")}),
              Ends(0, AllOf(HasSubstr("NanoVLM         2000 MB  Vision-language model\n"),
                            HasSubstr("TOTAL            8.0 GB  50 % utilisation\n"),
                            HasSubstr("Available        8.0 GB  Buffer of 2.0 GB stays free\n"),
                            HasSubstr("Verdict: Healthy\n"))));
  EXPECT_THAT(plan({example("budget-maximum-models.toml"), "--markdown"}),
              Ends(0, AllOf(HasSubstr("| Component        | Memory Usage | Notes"),
                            HasSubstr("| VILA-3B          | 6000 MB      | Larger VLM"),
                            HasSubstr("| **TOTAL**        | **13.0 GB**  | **81 % utilisation**"),
                            HasSubstr("| **Available**    | **3.0 GB**   | **Tight but viable**"),
                            HasSubstr("**Verdict**: Tight but viable."))));
}

TEST(Plan, APlanThatDoesNotFitExitsWithOneAndNamesWhatFits) {
  EXPECT_THAT(plan({example("budget-maximum-models.toml"), "--device", "orin-nano-8gb"}),
              Ends(1, AllOf(HasSubstr("Verdict: Does not fit"), HasSubstr("Left out: VILA-3B, Map Building."),
                            HasSubstr("What to change first:"), HasSubstr("Next: headroom plan "))));
}

TEST(Plan, KnowsBoardsByOtherNames) {
  const auto budget = shared_data("field_cases/20-budget-dgx-spark.toml");
  if (!budget) GTEST_SKIP() << absent_message("field_cases/20-budget-dgx-spark.toml");
  const std::string file = budget->string();
  EXPECT_THAT(plan({file}), Ends(0, AllOf(HasSubstr("DGX Spark"), HasSubstr("Verdict: Healthy"))));
  EXPECT_THAT(plan({file, "--device", "gb10"}), Ends(0, HasSubstr("DGX Spark (GB10) 128 GB, 121.69 GiB")));
  EXPECT_THAT(plan({file, "--device", "orin-nano-super"}), Ends(0, HasSubstr("Jetson Orin Nano 8 GB")));
}

TEST(Plan, FlagsChangeTheRules) {
  const auto verdict = [](Words flags) {
    flags.insert(flags.begin(), {example("budget-maximum-models.toml"), "--json"});
    return get_text(json_of(plan(flags)), "verdict");
  };
  EXPECT_EQ(verdict({}), "tight");
  EXPECT_EQ(verdict({"--most-used", "80%"}), "risky");
  EXPECT_EQ(verdict({"--buffer", "4GB"}), "risky");
  EXPECT_EQ(verdict({"--healthy-used", "0.82"}), "healthy");
  EXPECT_THAT(plan({example("budget-maximum-models.toml"), "--most-used", "x"}),
              IsRefused(HasSubstr("--most-used: invalid share 'x'")));
}

TEST(Plan, WhatIfShowsBothPlans) {
  EXPECT_THAT(plan({example("budget-maximum-models.toml"), "--what-if", "YOLO11s (TRT).precision=int8",
                    "--what-if", "drop=SegNet"}),
              Ends(0, AllOf(HasSubstr("TOTAL             11.9 GB"), HasSubstr("Verdict: Healthy"),
                            HasSubstr("before the changes: tight but viable, peak 13.0 GB"),
                            Not(HasSubstr("SegNet ")))));
}

// A machine with 4,000,000 kB, of which 3,000,000 are available, and a budget with the system and one
// component.
class PlanLive : public testing::Test {
 protected:
  void SetUp() override {
    write(
        "proc/meminfo",
        "MemTotal: 4000000 kB\nMemFree: 1000000 kB\nMemAvailable: 3000000 kB\nBuffers: 0 kB\nCached: 0 kB\n");
    write("b.toml",
          "[[component]]\nname = \"OS\"\nmemory = \"1GB\"\nsystem = true\n"
          "[[component]]\nname = \"a\"\nmemory = \"1000000KiB\"\nneeds = [\"OS\"]\n");
  }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((folder_ / file).parent_path());
    write_text(folder_ / file, text);
  }
  void limit_to(Bytes limit, Bytes current, Bytes inactive_file) {
    write("proc/self/cgroup", "0::/robot\n");
    write("sys/fs/cgroup/robot/memory.max", fmt::format("{}\n", limit.count));
    write("sys/fs/cgroup/robot/memory.current", fmt::format("{}\n", current.count));
    write("sys/fs/cgroup/robot/memory.stat", fmt::format("anon 1\ninactive_file {}\n", inactive_file.count));
  }
  Json plan_live() {
    return json_of(
        plan({(folder_ / "b.toml").string(), "--live", "--sysroot", folder_.path().string(), "--json"}));
  }
  TemporaryFolder folder_;
};

// The measured memory replaces the system row; components that need it stay.
TEST_F(PlanLive, AddsThePlanToTheMemoryInUse) {
  const Json document = plan_live();
  EXPECT_EQ(get_bytes(document, "peak_bytes"), kibibytes(2'000'000));  // 1,000,000 KiB are in use
  EXPECT_THAT(get_text(document, "baseline"),
              AllOf(HasSubstr("are in use now"), HasSubstr("which replaces OS")));
}

TEST_F(PlanLive, IgnoresReclaimableFilePagesOfAControlGroup) {
  limit_to(kibibytes(2'000'000), kibibytes(1'900'000), kibibytes(1'500'000));
  const Json document = plan_live();
  EXPECT_EQ(get_bytes(document, "peak_bytes"), kibibytes(1'400'000));
  EXPECT_EQ(get_bytes(document["device"], "total_bytes"), kibibytes(2'000'000));
  EXPECT_EQ(get_bool(document["device"], "is_control_group"), true);
}

TEST_F(PlanLive, UsesTheMachineIfItHasLessLeftThanTheGroup) {
  limit_to(kibibytes(3'900'000), kibibytes(1'000), {});
  const Json document = plan_live();
  EXPECT_EQ(get_bytes(document["device"], "total_bytes"), kibibytes(4'000'000));
  EXPECT_EQ(get_bool(document["device"], "is_control_group"), false);
  EXPECT_THAT(get_text(document, "baseline"), HasSubstr("has more left"));
}

TEST(Plan, PlansForAControlGroupWithoutTheSystem) {
  const TemporaryFolder folder;
  write_text(
      folder / "b.toml",
      "[device]\ntotal = \"8GB\"\nsystem = \"1GB\"\n[[component]]\nname = \"a\"\nmemory = \"300MB\"\n");
  const CommandResult result =
      plan({"b.toml", "--mem-limit", "400MB", "--buffer", "0B", "--json"}, folder.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json document = json_of(result);
  EXPECT_EQ(get_bytes(document, "peak_bytes"), Bytes{300'000'000});  // the machine's system is not included
  EXPECT_EQ(get_bool(document["device"], "is_control_group"), true);
  EXPECT_EQ(plan({"b.toml", "--mem-limit", "200MB"}, folder.path()).exit_code, 1);
  EXPECT_EQ(plan({"b.toml", "--mem-limit", "200MB", "--live"}, folder.path()).exit_code, 2);
}

// The suggested next command can be pasted into a shell. It contains the original flags.
TEST(Plan, QuotesTheNextCommandForTheShell) {
  const TemporaryFolder folder;
  write_text(folder / "b.toml",
             "title = \"T\\u001b[31mRED\"\n[[component]]\nname = \"a $(date)\"\nmemory = \"5GB\"\n"
             "[[component]]\nname = \"b c\"\nmemory = \"4GB\"\n");
  EXPECT_THAT(plan({"b.toml", "--device", "orin-nano-8gb"}, folder.path()),
              Ends(1, AllOf(HasSubstr("\nNext: headroom plan b.toml --device orin-nano-8gb --what-if '"),
                            Not(HasSubstr("\033")))));
}

TEST(Plan, ABadBudgetIsOneSentenceWithItsLineAndExitCodeTwo) {
  const TemporaryFolder folder;
  write_text(folder / "b.toml",
             "[device]\ntotal = \"8GB\"\n[[component]]\nname = \"a\"\nmodel = \"yolo11n\"\n");
  EXPECT_THAT(
      plan({"b.toml"}, folder.path()),
      IsRefused("error: b.toml:5: no footprint of yolo11n; measure it with headroom bench --model NAME=FILE, "
                "then use --footprints outputs\n"));
  EXPECT_EQ(plan({"absent.toml"}, folder.path()).exit_code, 2);
  std::string deep = "a";
  for (int i = 0; i < 200'000; ++i) deep += ".a";
  write_text(folder / "deep.toml", "title = \"a.b.c\"  # \"\n" + deep + " = 1\n");
  EXPECT_THAT(plan({"deep.toml"}, folder.path()),
              IsRefused(HasSubstr("deep.toml:2: a key has more than 64 parts")));
  EXPECT_EQ(plan({}).exit_code, 2);
}

// A slip in the arguments must not replace a file that the user wrote.
TEST(Plan, DoesNotReplaceItsBudgetByThePage) {
  const TemporaryFolder folder;
  const std::string budget = "[device]\ntotal = \"8GB\"\n[[component]]\nname = \"a\"\nmemory = \"1GB\"\n";
  write_text(folder / "b.toml", budget);
  fs::create_symlink("b.toml", folder / "link.html");
  for (const char* page : {"b.toml", "./b.toml", "link.html"}) {
    EXPECT_THAT(plan({"b.toml", "--html", page}, folder.path()),
                IsRefused(fmt::format("error: {} would replace its own input; choose another file with "
                                      "--html\n",
                                      page)));
    EXPECT_EQ(read_text(folder / "b.toml"), budget);
  }
  EXPECT_EQ(plan({"b.toml", "--html", "page.html"}, folder.path()).exit_code, 0);
}

TEST(Plan, ListsDevices) {
  EXPECT_THAT(
      plan({"--devices"}),
      Ends(0, AllOf(HasSubstr("orin-nx-16gb     Jetson Orin NX 16 GB        15.03 GiB  14.50 GiB  13.75 GiB  "
                              "tegrastats lines"),
                    HasSubstr("tx2-nx"), HasSubstr("agx-xavier-64gb"))));
}

// Measures models alone, plans them, and compares the plan with a parallel run.
TEST(Plan, MatchesAParallelRunOfTheModels) {
  const auto first = dependency_file("models/mlsd_320x320_tiny.onnx");
  const auto second = dependency_file("models/face_detection_back_256x256_barracuda.onnx");
  if (!first || !second) GTEST_SKIP() << absent_message("models of the demo");
  Bench bench;
  const CommandResult run =
      bench.run({"--source", bench.pictures(), "--model", "lines=" + first->string(), "--model",
                 "face=" + second->string(), "--parallel", "--max-frames", "5"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string folder = bench.run_folder().string();
  write_text(bench.path() / "b.toml",
             "[device]\ntotal = \"1GB\"\n[[component]]\nname = \"lines\"\nmodel = \"lines\"\n"
             "[[component]]\nname = \"faces\"\nmodel = \"face\"\n");
  const std::string budget = (bench.path() / "b.toml").string();
  const CommandResult planned = plan({budget, "--footprints", folder, "--json", "--buffer", "100MB"});
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
  const Json document = json_of(planned);
  EXPECT_EQ(get_text(document["components"][1]["origin"], "kind"), "measured");
  // Both share the runtime's code: the machine holds it once, and a control group is not charged for it.
  EXPECT_GT(get_bytes(document, "peak_bytes"), get_bytes(document, "charged_peak_bytes"));
  EXPECT_THAT(plan({budget, "--footprints", folder}).out, HasSubstr("Charged"));
  const CommandResult verified = plan({budget, "--footprints", folder, "--verify", folder, "--json"});
  const Json verification = json_of(verified);
  EXPECT_EQ(verified.exit_code, get_bool(verification, "holds") == true ? 0 : 1);
  EXPECT_LT(std::abs(get_number(verification["joint"], "off").value_or(1)), 0.1) << verified.out;
}

}  // namespace
}  // namespace headroom::test
