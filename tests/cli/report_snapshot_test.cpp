// `headroom report` of memory snapshots of PyTorch. Its figures must equal those of another reader and of
// PyTorch.
#include <fcntl.h>

#include "base/subprocess.h"
#include "cli/command.h"
#include "support/pickle_of.h"

namespace headroom::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Runs python3 with a script of the repository; its output goes to `out`. Returns false if python3 failed or
// is missing.
bool run_python(std::vector<std::string> arguments, const std::filesystem::path& out) {
  const UniqueFd file(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  SpawnOptions options;
  options.command = {"python3"};
  options.command.push_back(test::source_path(arguments.front()));
  options.command.insert(options.command.end(), arguments.begin() + 1, arguments.end());
  options.stdout_fd = file.get();
  auto child = Subprocess::spawn(options);
  return child.has_value() && child->wait().success();
}

bool python_is_here() { return std::system("python3 -c '' 2>/dev/null") == 0; }

class ReportSnapshot : public testing::Test {
 protected:
  CommandResult report(const std::string& name, std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {"report", (folder_ / name).string()});
    return run_headroom(flags);
  }
  // The differences that read_snapshot.py reports between its figures and those of --json.
  void compare_with_python(const std::filesystem::path& file) {
    const CommandResult result = run_headroom({"report", file.string(), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    write_text(folder_ / "report.json", result.out);
    EXPECT_TRUE(
        run_python({"tests/golden/read_snapshot.py", file.string(), (folder_ / "report.json").string()},
                   folder_ / "differences"))
        << read_text(folder_ / "differences");
  }
  TemporaryFolder folder_;
};

TEST_F(ReportSnapshot, RealSnapshotsMatchPyTorchsFigures) {
  const auto reference_file = shared_data("pytorch_snapshots/reference.json");
  if (!reference_file) GTEST_SKIP() << absent_message("pytorch_snapshots");
  const Json reference = Json::parse(read_text(*reference_file));
  for (const auto& [name, expected] : reference.items()) {
    if (!expected.is_object()) continue;
    SCOPED_TRACE(name);
    const auto file = reference_file->parent_path() / (name + ".pickle.gz");
    const CommandResult result = run_headroom({"report", file.string(), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json device = Json::parse(result.out)["devices"].at(0);
    EXPECT_EQ(device["segments"], expected["segments"]);
    EXPECT_EQ(device["reserved_bytes"], expected["reserved"]);
    EXPECT_EQ(device["live_bytes"], expected["live_blocks_bytes"]);
    EXPECT_EQ(device["live_bytes"], expected["allocated"]);
    EXPECT_EQ(device["requested_bytes"], expected["requested"]);
    EXPECT_EQ(device["peak_allocated_bytes"], expected["peak_allocated"]);
    EXPECT_EQ(device["peak_reserved_bytes"], expected["peak_reserved"]);
    EXPECT_EQ(device["peak_is_exact"], true);
    EXPECT_EQ(device["ooms"].size(), expected["num_ooms"].get<std::size_t>());
    EXPECT_EQ(device["actions"].size(), expected["actions"].size());
    for (const auto& [action, count] : expected["actions"].items())
      EXPECT_EQ(device["actions"][action], count);
    if (python_is_here()) compare_with_python(file);
  }
}

TEST_F(ReportSnapshot, NamesTheLeakOfARealSnapshot) {
  const auto file = shared_data("pytorch_snapshots/leak_graph.pickle.gz");
  if (!file) GTEST_SKIP() << absent_message("pytorch_snapshots");
  const CommandResult result = run_headroom({"report", file->string()});
  EXPECT_THAT(result.out, AllOf(HasSubstr("Leak: "), HasSubstr("32 equal parts"), HasSubstr("58.81 ms"),
                                HasSubstr("all called from leak (make_snapshots.py:37)")));
  const auto inference =
      run_headroom({"report", shared_data("pytorch_snapshots/infer_resnet18_noctx.pickle.gz")->string()});
  EXPECT_THAT(inference.out, AllOf(Not(HasSubstr("Leak: ")), HasSubstr("grew, and then stayed")));
}

TEST_F(ReportSnapshot, GeneratedSnapshotsMatchTheirGenerator) {
  if (!python_is_here()) GTEST_SKIP() << absent_message("python3");
  for (const std::string name : {"a.pickle", "b.pickle.gz"}) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(run_python(
        {"benchmarks/make_pytorch_snapshot.py", "--mib", "1", "--frames", "3", (folder_ / name).string()},
        folder_ / "expected"));
    const Json expected = Json::parse(read_text(folder_ / "expected"));
    const Json device = Json::parse(report(name, {"--json"}).out)["devices"].at(0);
    for (const char* key :
         {"segments", "reserved_bytes", "live_bytes", "requested_bytes", "peak_allocated_bytes"})
      EXPECT_EQ(device[key], expected[key]) << key;
    EXPECT_EQ(device["peak_is_exact"], true);
    for (const auto& [action, count] : expected["actions"].items())
      EXPECT_EQ(device["actions"][action], count);
    compare_with_python(folder_ / name);
  }
}

// One sentence each, and the exit code of unreadable input.
TEST_F(ReportSnapshot, RejectsAFileThatIsNotASnapshot) {
  const auto refusal = [&](const std::string& name, const std::string& content) {
    write_text(folder_ / name, content);
    const CommandResult result = report(name);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(
      refusal("a.pickle", "\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R."),
      AllOf(HasSubstr("a.pickle: it uses Python's posix.system at byte 17"), HasSubstr("never runs code")));
  EXPECT_THAT(refusal("b", "cposix\nsystem\n(S'true'\ntR."), Not(HasSubstr("posix")))
      << "no mark of a pickle: not looked into";
  EXPECT_THAT(refusal("c.pkl", "cposix\nsystem\n(S'true'\ntR."), HasSubstr("it uses Python's posix.system"));
  EXPECT_THAT(refusal("d.pickle", pickle_of(Json::parse("{\"a\": 1}"))),
              HasSubstr("not a memory snapshot of PyTorch"));
  EXPECT_THAT(refusal("e.pickle", pickle_of(Json::parse("{\"segments\": []}")).substr(0, 9)),
              HasSubstr("it is cut off after 9 bytes"));
  EXPECT_THAT(refusal("f.pickle.gz", "\x1f\x8bxyz"), HasSubstr("its gzip stream is"));
  EXPECT_THAT(run_headroom({"report", (folder_ / "absent.pickle").string()}).err, HasSubstr("No such file"));
}

TEST_F(ReportSnapshot, RejectsFlagsOfOtherFiles) {
  write_text(folder_ / "a.pickle", pickle_of(Json::parse("[]")));
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--markdown"}, {"--csv"}, {"--all"}, {"--at", "peak"}}) {
    const CommandResult result = report("a.pickle", flags);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("does not work with a memory snapshot"));
  }
  EXPECT_THAT(report("a.pickle").out, HasSubstr("The allocator held no memory on any device."));
}

TEST_F(ReportSnapshot, ThePageIsOneFileWithTheSnapshotsFigures) {
  const Json frame = {{"name", "train"}, {"filename", "<!--<script>alert(1)"}, {"line", 7}};
  const Json block = {{"size", 2097152},
                      {"requested_size", 2097000},
                      {"state", "active_allocated"},
                      {"frames", Json::array({frame})}};
  const Json segment = {{"address", 4096}, {"total_size", 2097152},   {"device", 0},
                        {"stream", 0},     {"segment_type", "small"}, {"blocks", Json::array({block})}};
  write_text(folder_ / "a.pickle",
             pickle_of({{"segments", Json::array({segment})}, {"device_traces", Json::array()}}));
  const auto page = folder_ / "page.html";
  const CommandResult result = report("a.pickle", {"--html", page.string()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith(page.string() + " ("));
  EXPECT_THAT(read_text(page), AllOf(StartsWith("<!doctype html>"), HasSubstr("\"live_bytes\":2097152,"),
                                     HasSubstr("train (\\u003c!--\\u003cscript>alert(1):7)"),
                                     Not(HasSubstr("<script>alert"))));
  const CommandResult over_itself = report("a.pickle", {"--html", (folder_ / "a.pickle").string()});
  EXPECT_EQ(over_itself.exit_code, 2);
  EXPECT_THAT(over_itself.err, HasSubstr("would replace its own input"));
}

TEST_F(ReportSnapshot, DetectsAFileByItsContent) {
  write_text(folder_ / "snapshot", pickle_of(Json::parse("[]")));
  const CommandResult result = report("snapshot", {"--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("{\n"));
  EXPECT_EQ(Json::parse(result.out)["kind"], "pytorch_snapshot");
}

}  // namespace
}  // namespace headroom::test
