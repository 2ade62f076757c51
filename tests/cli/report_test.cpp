// `headroom report` as a user runs it: a moment of a recording (--at), inputs that it cannot read, and memory
// snapshots of PyTorch, whose figures must equal those of another reader and of PyTorch.
#include <fcntl.h>

#include "base/subprocess.h"
#include "cli/command.h"
#include "cli/diff_matchers.h"
#include "support/pickle_of.h"
#include "support/recording_builder.h"

namespace headroom::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Words = std::vector<std::string>;

constexpr std::uint64_t kLibrary = 0x7f0000000000, kSecond = 1'000'000'000;

class ReportAt : public testing::Test {
 protected:
  // A megabyte in the first second; three more in the layer "conv" in the second one, by another thread. At
  // the end only the first megabyte is live.
  ReportAt() {
    RecordingBuilder builder(folder_ / "a.hrec");
    builder.module("/absent/libengine.so", std::string(20, '\x11'), kLibrary, kLibrary + 0x10000, kLibrary);
    builder.thread(0, 41, "main");
    builder.thread(1, 42, "worker");
    builder.allocate(0, kSecond, 0x90000, 1 << 20, {kLibrary + 0x2001});
    builder.enter_scope(1, 2 * kSecond - 5, builder.scope("conv"));
    builder.allocate(1, 2 * kSecond, 0x1000, 3 << 20, {kLibrary + 0x1001});
    builder.release(1, 3 * kSecond, 0x1000);
    builder.finish();
  }
  CommandResult run(Words words) {
    words.insert(words.begin(), {"report", (folder_ / "a.hrec").string()});
    return run_headroom(words);
  }
  Json json(const std::string& time) { return json_of(run({"--at", time, "--json"})); }
  TemporaryFolder folder_;
};

TEST_F(ReportAt, ShowsAMomentByLayerPlaceModuleSizeAndThread) {
  EXPECT_THAT(run({"--at", "2.5s"}),
              Ends(0, AllOf(HasSubstr("Live at 2.500 s of 3.000 s: 4.0 MiB in 2 blocks"),
                            HasSubstr("    3.0 MiB  75 %  conv\n"), HasSubstr("libengine.so+0x1000"),
                            HasSubstr("    4.0 MiB 100 %  libengine.so\n"),
                            HasSubstr("    3.0 MiB  75 %  2.0 MiB to 4.0 MiB\n"),
                            HasSubstr("    3.0 MiB  75 %  worker (tid 42)\n"))));
  EXPECT_THAT(run({"--at", "1.5"}).out, AllOf(HasSubstr("1.0 MiB in 1 block\n"), Not(HasSubstr("conv"))))
      << "a bare number is seconds";
}

TEST_F(ReportAt, JsonHasTheSameFigures) {
  const Json at = json("2500ms");
  EXPECT_EQ(at["time_seconds"], 2.5);
  EXPECT_EQ(at["live_bytes"], 4 << 20);
  EXPECT_EQ(at["live_blocks"], 2);
  EXPECT_EQ(at["layers"][0]["layer_name"], "conv");
  EXPECT_EQ(at["threads"][0]["name"], "worker");
  EXPECT_EQ(json("peak")["live_bytes"], 4 << 20);
  EXPECT_EQ(json("end")["live_bytes"], 1 << 20);
  EXPECT_EQ(json("0s")["live_bytes"], 0);
  EXPECT_TRUE(json("0s")["layers"].empty());
}

// A recording that lacks events is marked as incomplete, both at a moment and in an export.
TEST_F(ReportAt, ReportsMissingParts) {
  const auto file = folder_ / "part.hrec";
  RecordingOptions options;
  options.segment_bytes = 4096;
  options.segments_limit = 1;
  options.closed = false;
  RecordingBuilder builder(file, options);
  for (std::uint64_t i = 1; i < 4000; ++i) builder.allocate(0, i * 1000, 0x1000 * i, 64, {kLibrary + i});
  builder.finish();
  const CommandResult moment = run_headroom({"report", file.string(), "--at", "end"});
  EXPECT_THAT(moment.out,
              AllOf(HasSubstr("was killed or is still running"), HasSubstr("events were not recorded")));
  const Json json = json_of(run_headroom({"report", file.string(), "--at", "end", "--json"}));
  EXPECT_GT(json["dropped_events"].get<std::int64_t>(), 1000);
  EXPECT_EQ(json["complete"], false);
  EXPECT_THAT(run_headroom({"export", file.string(), "--to", "collapsed", "--out", "-"}),
              Ends(0, testing::_,
                   AllOf(HasSubstr("did not close its recording"), HasSubstr("events were not recorded"))));
  const CommandResult whole =
      run_headroom({"export", (folder_ / "a.hrec").string(), "--to", "collapsed", "--out", "-"});
  EXPECT_THAT(whole.err, Not(HasSubstr("not recorded")));
}

TEST_F(ReportAt, RejectsMomentsThatCannotBeShown) {
  const std::string page = (folder_ / "a.html").string();
  const std::pair<Words, const char*> cases[] = {
      {{"--at", "9s"},
       "--at 9s is after the end of the recording: it lasts 3.000 s; use an earlier time, or end"},
      {{"--at", "noon"}, "--at 'noon' is not a time; use 1.5s, 250ms, peak or end"},
      {{"--at", "-1s"}, ""},
      {{"--at", "1s", "--html", page}, "--at shows one moment"},
      {{"--at", "1s", "--all"}, ""}};
  for (const auto& [words, why] : cases) EXPECT_THAT(run(words), IsRefused(HasSubstr(why)));
  write_text(folder_ / "report.json", "{}");
  EXPECT_THAT(run_headroom({"report", folder_.path().string(), "--at", "1s"}),
              IsRefused(HasSubstr("--at works with recordings only")));
}

class ReportInput : public testing::Test {
 protected:
  CommandResult report(const std::string& path) { return run_headroom({"report", path}); }
  std::string recording() {
    const auto file = folder_ / "a.hrec";
    RecordingBuilder builder(file);
    builder.allocate(0, 1, 0x1000, 1 << 20, {});
    builder.finish();
    return file.string();
  }
  TemporaryFolder folder_;
};

TEST_F(ReportInput, ACutOffRecordingIsNotReadAsJson) {
  for (const std::size_t bytes : {0u, 4u, 12u}) {
    write_text(folder_ / "cut.hrec", std::string("HEADROOM and more").substr(0, bytes));
    EXPECT_THAT(report((folder_ / "cut.hrec").string()),
                IsRefused(AllOf(HasSubstr("cut.hrec: it has " + std::to_string(bytes) +
                                          " bytes and a recording begins with 4096"),
                                HasSubstr("record again"))));
  }
  EXPECT_THAT(report((folder_ / "none.hrec").string()).err, HasSubstr("No such file"));
}

TEST_F(ReportInput, SuggestsARecordingOfAFolder) {
  EXPECT_THAT(report(folder_.path().string()).err,
              AllOf(HasSubstr("has no report.json: it is not a run of headroom bench"),
                    HasSubstr("name a run's folder")));
  const std::string file = recording();
  EXPECT_THAT(
      report(folder_.path().string()),
      IsRefused(AllOf(HasSubstr("has no report.json: the folder has a recording; run headroom report "),
                      HasSubstr(file))));
}

TEST_F(ReportInput, RejectsAMissingSymbolFolder) {
  const std::string file = recording(), absent = (folder_ / "absent").string();
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"report", file, "--symbols", absent},
        {"export", file, "--to", "csv", "--symbols", absent},
        {"diff", file, file, "--symbols", absent},
        {"symbols", file, "--out", (folder_ / "out").string(), "--symbols", absent}})
    EXPECT_THAT(
        run_headroom(arguments),
        IsRefused(AllOf(HasSubstr("--symbols " + absent + " is not a folder: No such file or directory"),
                        HasSubstr("headroom symbols wrote"))))
        << arguments.front();
  EXPECT_EQ(run_headroom({"report", file, "--symbols", file}).exit_code, 2) << "a file is not a folder";
}

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
    const Json device = json_of(run_headroom({"report", file.string(), "--json"}))["devices"].at(0);
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
       {std::vector<std::string>{"--markdown"}, {"--csv"}, {"--all"}, {"--at", "peak"}})
    EXPECT_THAT(report("a.pickle", flags), IsRefused(HasSubstr("does not work with a memory snapshot")));
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
  EXPECT_THAT(report("a.pickle", {"--html", page.string()}), Ends(0, StartsWith(page.string() + " (")));
  EXPECT_THAT(read_text(page), AllOf(StartsWith("<!doctype html>"), HasSubstr("\"live_bytes\":2097152,"),
                                     HasSubstr("train (\\u003c!--\\u003cscript>alert(1):7)"),
                                     Not(HasSubstr("<script>alert"))));
  EXPECT_THAT(report("a.pickle", {"--html", (folder_ / "a.pickle").string()}),
              IsRefused(HasSubstr("would replace its own input")));
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
