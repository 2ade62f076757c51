// `headroom doctor RUN --try`: real benches of the backend that misbehaves on command, and of a real model.
#include <fmt/format.h>
#include <signal.h>

#include "cli/command.h"
#include "cli/diff_matchers.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using Words = std::vector<std::string>;

class DoctorTry : public testing::Test {
 protected:
  DoctorTry() { fs::create_directories(temporary()); }
  fs::path temporary() const { return bench_.path() / "tmp"; }

  CommandResult doctor(Words words, std::function<bool(int)> while_running = {}) {
    words.insert(words.begin(), "doctor");
    CommandOptions options;
    options.folder = bench_.path();
    options.environment = {{"HEADROOM_BACKEND_PATH", (fs::path(test::built_path("test-plugins"))).string()},
                           {"TMPDIR", temporary().string()},
                           {"HEADROOM_MAX_FRAMES", "1"}};  // stale setting: the run's own count must be used
    options.while_running = std::move(while_running);
    return run_headroom(words, options);
  }

  // A run of this misbehaving model. Its report contains settings that need less memory, as --tune would
  // write them.
  std::string tuned_run(const std::string& commands) {
    const CommandResult result = bench_.run(
        {"--backend", "misbehaving", "--max-frames", "10", "--model", "m=" + bench_.model("m", commands)});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    Json report = bench_.report();
    Json& model = report["models"][0];
    Json small = model["settings"];
    small["memory_pattern"] = false;
    model["smallest_settings"] = small;
    model["trials"] = {
        {{"settings", model["settings"]}, {"status", "ok"}, {"p50_ns", 1000}, {"peak_bytes", 200 << 20}},
        {{"settings", small}, {"status", "ok"}, {"p50_ns", 1000}, {"peak_bytes", 100 << 20}}};
    return write_report(report);
  }
  std::string write_report(const Json& report) {
    write_text(bench_.run_folder() / "report.json", to_text(report));
    return bench_.run_folder().string();
  }
  Bench bench_;
};

TEST_F(DoctorTry, ReportsTheMeasuredGain) {
  const std::string run = tuned_run("pattern allocate 96\nrun sleep 1");
  const CommandResult result = doctor({run, "--try", "--json", "--repeat", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json document = json_of(result);
  const Json& cure = document["findings"][0]["cures"][0];
  EXPECT_THAT(get_text(cure, "command"),
              AllOf(StartsWith("headroom bench --model m="), HasSubstr(",pattern=off")));
  const Json& tried = get_member(cure, "tried");
  EXPECT_EQ(get_text(tried, "verdict"), "helps") << tried;
  EXPECT_THAT(get_text(tried, "command"), AllOf(StartsWith("headroom bench --model m="),
                                                HasSubstr(",pattern=off"), HasSubstr("--max-frames 10")));
  const auto saved = get_integer(tried, "saved_bytes").value_or(0);
  EXPECT_GT(saved, 88 << 20);
  EXPECT_LT(saved, 104 << 20);
  EXPECT_GT(get_integer(get_member(tried, "before"), "run_peak_bytes"),
            get_integer(get_member(tried, "after"), "run_peak_bytes"));
  EXPECT_THAT(get_member(tried, "differs"), Contains("run_peak_bytes"));
  EXPECT_TRUE(fs::is_empty(temporary())) << "the runs of the trials are gone";

  EXPECT_THAT(
      doctor({run, "--try", "--repeat", "1"}).out,
      AllOf(HasSubstr("tried: it helps: run peak "), HasSubstr("\n       headroom bench --model m=")));
  EXPECT_THAT(doctor({run, "--try", "--repeat", "1", "--markdown"}).out,
              AllOf(HasSubstr("   - tried: it helps: run peak "), HasSubstr(": `headroom bench ")));
}

TEST_F(DoctorTry, ReportsThatThereIsNoGain) {
  EXPECT_THAT(doctor({tuned_run("load allocate 96\nrun sleep 1"), "--try", "--repeat", "1"}),
              Ends(0, AllOf(HasSubstr("tried: "), Not(HasSubstr("it helps")))));
}

TEST_F(DoctorTry, MeasuresASharedSessionByJointMemory) {
  const std::string model = bench_.model("m", "load allocate 96\nrun sleep 20");
  const CommandResult ran = bench_.run({"--backend", "misbehaving", "--max-frames", "15", "--parallel",
                                        "--model", "a=" + model, "--model", "b=" + model});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  Json report = bench_.report();
  for (Json& each : report["models"]) each["file_size_bytes"] = 96 << 20;  // a file of commands is tiny
  const CommandResult result = doctor({write_report(report), "--try", "--json", "--repeat", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json document = json_of(result);
  const Json& finding = document["findings"][0];
  EXPECT_EQ(get_text(finding, "id"), "duplicate-models");
  const Json& tried = get_member(finding["cures"][0], "tried");
  EXPECT_EQ(get_text(tried, "verdict"), "helps") << tried;
  EXPECT_EQ(tried["left_out"], Json::parse(R"(["b"])"));
  EXPECT_GT(get_integer(tried, "saved_bytes").value_or(0), 80 << 20) << tried;
  EXPECT_THAT(get_text(tried, "command"),
              AllOf(HasSubstr("--model a="), Not(HasSubstr("--model b=")), HasSubstr("--parallel")));
}

TEST_F(DoctorTry, CureCanMakeAModelFit) {
  if (!hard_limits_work()) GTEST_SKIP() << "no control group can be made here";
  bench_.run({"--backend", "misbehaving", "--max-frames", "5", "--mem-limit", "120MiB", "--model",
              "m=" + bench_.model("m", "pattern allocate 300\nrun sleep 1")});
  const CommandResult result = doctor({bench_.run_folder().string(), "--try", "--json", "--repeat", "1"});
  EXPECT_EQ(result.exit_code, 1) << "the run itself did not fit";
  const Json document = json_of(result);
  const Json& finding = document["findings"][0];
  EXPECT_EQ(get_text(finding, "id"), "model-out-of-memory");
  std::string sentence;
  for (const Json& cure : get_member(finding, "cures"))
    if (cure.contains("tried")) sentence = get_text(cure["tried"], "sentence");
  EXPECT_EQ(sentence, "every run succeeds; before, every run failed");
  EXPECT_THAT(result.out, HasSubstr("--mem-limit 120MiB"));
}

TEST_F(DoctorTry, TriesTheCureOfARealModel) {
  const auto model = dependency_file("models/face_detection_front_128x128_barracuda.onnx");
  if (!model) GTEST_SKIP() << absent_message("face_detection_front_128x128_barracuda.onnx");
  const CommandResult ran = bench_.run({"--source", bench_.pictures(), "--max-frames", "20", "--model",
                                        "face=" + model->string() + ",arena=off,threads=1"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  Json report = bench_.report();
  EXPECT_EQ(report["models"][0]["settings"]["arena"], false) << "the setting behind the path is in force";
  EXPECT_EQ(report["models"][0]["settings"]["threads"], 1);
  Json& memory = report["models"][0]["memory"];
  // About 300 MiB; more with a sanitizer, which allocates memory itself.
  memory["load_peak_bytes"] = (200 << 20) + 3 * get_integer(memory, "run_peak_bytes").value_or(0);
  const CommandResult result = doctor({write_report(report), "--try", "--json", "--repeat", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json document = json_of(result);
  const Json& cures = document["findings"][0]["cures"];
  ASSERT_EQ(cures.size(), 2U);
  // On a busy machine the cure may be slower by chance, and a useless cure is listed last.
  const std::size_t first = cures[0].contains("tried") ? 0 : 1;
  const Json& tried = get_member(cures[first], "tried");
  EXPECT_NE(get_text(tried, "verdict"), "failed") << tried;
  EXPECT_GT(get_integer(get_member(tried, "after"), "load_peak_bytes").value_or(0), 1 << 20);
  EXPECT_THAT(get_text(tried, "command"),
              AllOf(HasSubstr("threads=1,arena=off,"), HasSubstr("--source image_dir=")));
  EXPECT_EQ(get_text(tried, "settings"), "mapped=on,prepack=off");
  EXPECT_FALSE(cures[1 - first].contains("tried")) << "a plan is not a setting of headroom bench";
}

TEST_F(DoctorTry, ReportsInOneSentenceWhyATrialIsImpossible) {
  const std::string run = tuned_run("run sleep 1");
  const Json report = bench_.report();
  const auto error_of = [&](Words words) {
    const CommandResult result = doctor(std::move(words));
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  };
  EXPECT_THAT(error_of({run, run, "--try"}), HasSubstr("--try needs exactly one run"));
  EXPECT_THAT(error_of({run, "--try", "--live"}), HasSubstr("--try needs exactly one run"));
  EXPECT_THAT(error_of({run, "--repeat", "2"}), HasSubstr("--repeat has no effect without --try"));
  write_text(bench_.path() / "a.log", "RuntimeError: CUDA error: out of memory\n");
  EXPECT_THAT(error_of({"a.log", "--try"}), HasSubstr("--try does not work with a.log: it is not a run"));

  Json other = report;
  other.erase("options");
  EXPECT_THAT(error_of({write_report(other), "--try"}), HasSubstr("its report is from an older Headroom"));
  other = report;
  other["models"][0]["path"] = "/nowhere/m.misbehave";
  EXPECT_THAT(error_of({write_report(other), "--try"}),
              HasSubstr("the file /nowhere/m.misbehave of its model m is missing"));
  other = report;
  other["models"][0].erase("smallest_settings");
  EXPECT_THAT(error_of({write_report(other), "--try"}),
              HasSubstr("no finding has a cure that is a setting of headroom bench"));
}

TEST_F(DoctorTry, CtrlCKeepsFinishedTrials) {
  const std::string run = tuned_run("run sleep 1");
  // From now on a frame takes so long that no trial finishes.
  bench_.model("m", "run sleep 60000");
  int calls = 0;
  EXPECT_THAT(
      doctor({run, "--try"},
             [&](int pid) {
               if (fs::is_empty(temporary()) || ++calls < 20) return true;
               ::kill(pid, SIGINT);
               return false;
             }),
      Ends(130, AllOf(HasSubstr("[smaller-settings]"), Not(HasSubstr("tried:"))), HasSubstr("interrupted")));
  EXPECT_TRUE(fs::is_empty(temporary()));
}

}  // namespace
}  // namespace headroom::test
