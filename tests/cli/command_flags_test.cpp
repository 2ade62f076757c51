// Rules of the command line for all verbs: where output goes, and which errors are reported before anything
// runs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "base/files.h"
#include "base/subprocess.h"
#include "cli/command.h"
#include "cli/diff_matchers.h"
#include "cli/sized_terminal.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

// The write end of a pipe without a reader, as in `| true`.
UniqueFd broken_pipe() {
  auto pipe = Pipe::create();
  EXPECT_TRUE(pipe);
  return std::move(pipe->write_end);
}

CommandOptions output_to(const UniqueFd& fd) {
  CommandOptions options;
  options.stdout_fd = fd.get();
  return options;
}

// Runs the model "m" for two frames.
CommandResult quick_run(Bench& bench, const Words& more, CommandOptions options = {}) {
  const Words arguments{
      "--source", bench.pictures(),           "--backend", "misbehaving", "--max-frames", "2",
      "--model",  "m=" + bench.model("m", "")};
  return bench.run(joined({arguments, more}), std::move(options));
}

// The folder of a finished run.
std::string finished_run(Bench& bench) {
  quick_run(bench, {});
  return bench.run_folder().string();
}

TEST(Output, AClosedPipeCausesNoError) {
  const UniqueFd pipe = broken_pipe();
  Bench bench;
  const std::string folder = finished_run(bench);
  for (const Words& arguments : {Words{"generate", "man"},
                                 {"--help"},
                                 {"bench", "-h"},
                                 {"report", folder},
                                 {"report", folder, "--json"},
                                 {"bench", "--conf", "0.5", "--dump-config"}}) {
    EXPECT_THAT(run_headroom(arguments, output_to(pipe)), Ends(0, testing::_, IsEmpty()))
        << arguments.front();
  }
}

TEST(Output, AClosedPipeDoesNotStopABenchOrChangeItsExitCode) {
  const UniqueFd pipe = broken_pipe();
  for (const bool one_is_missing : {false, true}) {
    Bench bench;
    EXPECT_THAT(
        quick_run(bench, one_is_missing ? Words{"--json", "--model", "missing=nope.onnx"} : Words{"--json"},
                  output_to(pipe)),
        Ends(one_is_missing ? 1 : 0, testing::_, testing::Not(HasSubstr("roken pipe"))));
    EXPECT_EQ(get_bool(bench.report(), "complete"), true);
  }
}

// Whatever the exit code would be otherwise: success, a failed gate, a severe finding or an unreadable file.
TEST(Output, AFullDiskIsExitCodeThree) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (!full) GTEST_SKIP() << absent_message("/dev/full");
  const std::string sentence =
      "error: cannot write to standard output: No space left on device; check where it is redirected to\n";
  Bench bench;
  const std::string folder = finished_run(bench), log = (bench.path() / "plain.log").string();
  write_text(log, "RuntimeError: CUDA error: out of memory\n");
  for (const Words& arguments : {Words{"generate", "man"},
                                 {"--version"},
                                 {"report", folder},
                                 {"doctor", log},
                                 {"doctor", log, "--json"},
                                 {"doctor", log, (bench.path() / "absent.log").string()},
                                 {"diff", folder, folder, "--fail-on", "run_peak>1KiB"},
                                 {"diff", folder, folder, "--fail-on", "gpu_run_peak>1KiB"}}) {
    const int otherwise = run_headroom(arguments).exit_code;
    EXPECT_EQ(otherwise == 0, arguments.front() != "doctor" && arguments.front() != "diff");
    const CommandResult result = run_headroom(arguments, output_to(full));
    EXPECT_THAT(result, Ends(3, testing::_, testing::EndsWith(sentence))) << arguments.front();
    if (otherwise == 0) {
      EXPECT_EQ(result.err, sentence);
    }
  }
}

TEST(Output, AClosedStandardOutputIsNotReusedForAFile) {
  const std::string binary = (fs::path(test::built_path("bin/headroom"))).string();
  const int status = std::system((binary + " generate man >&- 2>/dev/null").c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

// The line of a part, without the name in front.
std::string line_of(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + " ");
  return at == text.npos ? ""
                         : text.substr(at + 1 + name.size(), text.find('\n', at + 1) - at - 1 - name.size());
}

TEST(Version, ListsEachPluginOfTheBuildFolder) {
  EXPECT_THAT(run_headroom({"--version"}).out, testing::MatchesRegex("headroom [0-9.]+\n"));
  const CommandResult result = run_headroom({"--version", "--verbose"});
  EXPECT_EQ(result.exit_code, 0);
  for (const auto& entry : fs::directory_iterator(test::built_path("bin"))) {
    const std::string name = entry.path().filename().string();
    const bool is_for_programs =
        name.find("_model_pool") != name.npos || name.find("_memory_tracer") != name.npos;
    if (name.starts_with("libheadroom_") && !is_for_programs) {
      EXPECT_THAT(result.out, HasSubstr(entry.path().string() + "\n"));
    }
  }
}

// A copy of the program in bin, moved with lib/headroom beside it, and a home folder with a plug-in.
TEST(Version, FindsPluginsOfTheInstallationBeforeThoseOfHome) {
  TemporaryFolder folder;
  for (const char* name : {"bin", "lib/headroom", "home/.local/lib/headroom"})
    fs::create_directories(folder / name);
  CommandOptions options;
  options.binary = folder / "bin/headroom";
  options.environment = {{"HOME", (folder / "home").string()}, {"HEADROOM_BACKEND_PATH", ""}};
  fs::copy_file(test::built_path("bin/headroom"), options.binary);
  write_text(folder / "lib/headroom/libheadroom_trace.so", "");
  write_text(folder / "home/.local/lib/headroom/libheadroom_trace.so", "");
  write_text(folder / "home/.local/lib/headroom/libheadroom_backend_libtorch.so", "");
  const std::string text = run_headroom({"--version", "--verbose"}, options).out;
  EXPECT_THAT(line_of(text, "trace"),
              testing::ContainsRegex("found +" + (folder / "lib/headroom/libheadroom_trace.so").string()));
  const std::string library = (folder / "home/.local/lib/headroom/libheadroom_backend_libtorch.so").string();
  EXPECT_THAT(line_of(text, "libtorch"),
              testing::AllOf(HasSubstr("fails"), HasSubstr(library + ": file too short")));
  if (!fs::exists("/usr/lib/headroom")) {
    EXPECT_THAT(line_of(text, "onnxruntime"),
                testing::ContainsRegex("not found +install Headroom's package"));
  }
  EXPECT_THAT(text, HasSubstr("searched: " + (folder / "lib/headroom").string() + ", "));
}

TEST(Help, FitsTheTerminal) {
  for (const int columns : {60, 80, 132}) {
    SizedTerminal terminal(columns);
    if (!terminal.is_there()) GTEST_SKIP() << absent_message("a pseudo-terminal");
    for (const Words& arguments : {Words{"-h"},
                                   {"bench", "-h"},
                                   {"help", "bench"},
                                   {"help", "diff"},
                                   {"help", "history"},
                                   {"help", "watch"}}) {
      const std::string text = terminal.output_of(arguments);
      EXPECT_GT(widest_line(text), 40) << arguments.front();
      EXPECT_LE(widest_line(text), std::min(columns, 80)) << text;
    }
  }
  // Output that is not a terminal has 80 columns. A long example is broken so that it can still be pasted.
  EXPECT_GT(widest_line(run_headroom({"help", "bench"}).out), 60);
  SizedTerminal narrow(60);
  EXPECT_THAT(narrow.output_of({"diff", "-h"}), HasSubstr(" --fail-on \\\n      'run_peak>+5%,p99>+10%'\n"));
}

TEST(CommandFlags, ErrorsAreOneSentenceWithTheSyntax) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"doctor", "log", "--sysroot"}, "--sysroot needs a value: --sysroot DIR"},
      {{"diff", "a", "b", "--fail_on"}, "--fail-on needs a value: --fail-on RULES"},
      {{"diff", "a", "b", "--fail-on", ""}, "--fail-on is empty; write --fail-on RULES"},
      {{"history", "add", "a", "--commit", ""}, "--commit is empty; write --commit SHA"},
      {{"diff", "a", "b", "--top", "x"}, "--top 'x' is not a whole number; write --top N"},
      {{"plan"}, "headroom plan needs one budget file: 0 given; write headroom plan BUDGET.toml"},
      {{"symbols", "a.hrec"},
       "headroom symbols needs one recording and --out DIR; write headroom symbols run.hrec --out symbols"},
      {{"history", "show", "run_peak", "--db", "a.sqlite", "--html", "a.sqlite"},
       "a.sqlite would replace its own input; choose another file with --html"},
      {{"build-engine", "m.onnx", "--out", "m.onnx", "--force"},
       "m.onnx would replace its own input; choose another file with --out"},
      {{"trace", "--large", "0", "--", "true"},
       "--large: size '0' has no unit: a bare number is ambiguous; write a size such as 512MiB, 8GB or 1.5G"},
      {{"report", "/etc/passwd"},
       "/etc/passwd is neither a recording, a snapshot nor a run; name a run's folder, its report.json, a "
       ".hrec file or a .pickle file"},
      {{"--helpp"}, "unknown flag --helpp; did you mean --help?"},
      {{"--frobnicate"}, "unknown flag --frobnicate; headroom -h lists all verbs"},
      {{"doctor", ""}, "headroom doctor: an argument is empty; check for an unset shell variable"}};
  for (const auto& [arguments, sentence] : cases) {
    EXPECT_THAT(run_headroom(arguments), Ends(2, IsEmpty(), "error: " + sentence + "\n")) << sentence;
  }
}

TEST(CommandFlags, QuotesPrintedCommandsForTheShell) {
  Bench bench;
  const CommandResult result = quick_run(bench, {"--output-dir", (bench.path() / "outputs/of mine").string(),
                                                 "--model", "my net=" + bench.model("n", "")});
  ASSERT_THAT(result,
              Ends(0, HasSubstr("Next: headroom report '" + (bench.path() / "outputs/of mine").string())));
  const fs::path run = fs::directory_iterator(bench.path() / "outputs/of mine")->path();
  const auto report = parse_json(read_text(run / "report.json"));
  ASSERT_TRUE(report);
  EXPECT_THAT(get_text(*report, "command"), HasSubstr(" --model 'my net=" + bench.model("n", "") + "'"));
}

TEST(CommandFlags, QuietPrintsTheResultAndThePathOfTheReport) {
  Bench bench;
  const CommandResult result = quick_run(bench, {"--quiet"});
  EXPECT_THAT(result, Ends(0,
                           testing::AllOf(
                               HasSubstr("\nReport: " + (bench.run_folder() / "report.html").string() + "\n"),
                               testing::Not(HasSubstr("Next: "))),
                           IsEmpty()));
}

TEST(CommandFlags, AMissingModelDoesNotFailTheOthers) {
  Bench bench;
  fs::create_directory(bench.path() / "folder.misbehave");
  EXPECT_THAT(quick_run(bench, {"--model", "missing=nope.onnx", "--model",
                                "folder=" + (bench.path() / "folder.misbehave").string()}),
              Ends(1));
  EXPECT_EQ(get_text(model_of(bench.report(), "m"), "status"), "ok");
  for (const auto& [name, file] : {std::pair{"missing", "nope.onnx"}, {"folder", "folder.misbehave"}}) {
    EXPECT_EQ(get_text(model_of(bench.report(), name), "status"), "failed");
    EXPECT_THAT(get_text(model_of(bench.report(), name), "error"), HasSubstr(file));
  }
}

TEST(CommandFlags, RejectsAnUnwritablePreparedFolder) {
  Bench bench;
  EXPECT_THAT(quick_run(bench, {"--prepared-dir", "/proc/prepared"}),
              Ends(2, IsEmpty(), HasSubstr("choose a writable folder with --prepared-dir")));
  EXPECT_TRUE(bench.run_folder().empty()) << "no run was begun";
}

TEST(CommandFlags, RejectsOutOfRangeValuesFromEverySource) {
  Bench bench;
  const auto refused = [&](const Words& more, const CommandOptions& options, const std::string& part) {
    EXPECT_THAT(quick_run(bench, more, options), IsRefused(HasSubstr(part)));
    EXPECT_TRUE(bench.run_folder().empty()) << "no run was begun";
  };
  refused({"--timeout", "1e9"}, {}, "--timeout 1e9 is out of range");
  refused({"--workspace", "1MiB"}, {}, "--workspace 1MiB is out of range");
  CommandOptions environment;
  environment.environment = {{"HEADROOM_METRICS_INTERVAL", "0"}};
  refused({}, environment, "HEADROOM_METRICS_INTERVAL: --metrics-interval 0 is out of range");
  write_text(bench.path() / "bench.toml", "\n[limits]\nmemory = \"1KiB\"\n");
  refused({"--config", (bench.path() / "bench.toml").string()}, {},
          "bench.toml:3: --mem-limit 1KiB is out of range");
}

}  // namespace
}  // namespace headroom::test
