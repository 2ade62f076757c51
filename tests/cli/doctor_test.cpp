// `headroom doctor` as a user and as a CI job run it.
#include <fcntl.h>
#include <sys/stat.h>

#include <map>

#include <fmt/format.h>

#include "base/files.h"
#include "cli/command.h"
#include "cli/diff_matchers.h"

namespace headroom::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using Words = std::vector<std::string>;

class Doctor : public testing::Test {
 protected:
  Doctor() {
    write_text(folder_ / "oom.log", "start\nRuntimeError: CUDA error: out of memory\n");
    write_text(folder_ / "fine.log", "start\nframe 1\nCUDA0 : Orin (7619 MiB, 3875 MiB free)\n");
  }
  CommandResult run(Words words) {
    words.insert(words.begin(), "doctor");
    CommandOptions options;
    options.folder = folder_.path();
    return run_headroom(words, options);
  }
  static std::filesystem::path golden(const std::string& name) {
    return std::filesystem::path(test::source_path("tests/golden/report")) / name;
  }
  // Copies the report of a golden run into the folder `name`.
  void copy_run(const std::string& name) const {
    std::filesystem::create_directories(folder_ / name);
    std::filesystem::copy_file(golden(name) / "report.json", folder_ / name / "report.json");
  }
  TemporaryFolder folder_;
};

TEST_F(Doctor, ExitCodeIsOneForSevereFindings) {
  EXPECT_THAT(
      run({"oom.log"}),
      Ends(1,
           AllOf(StartsWith(
                     "severe: CUDA ran out of memory [cuda-out-of-memory]\n  seen: oom.log:2: RuntimeError"),
                 HasSubstr("1 severe finding\n")),
           IsEmpty()));
}

TEST_F(Doctor, ExitCodeIsZeroWithoutSevereFindings) {
  EXPECT_THAT(run({"fine.log"}), Ends(0, StartsWith("benign: A GPU of 7.44 GiB was listed")));
  write_text(folder_ / "empty.log", "");
  EXPECT_EQ(run({"empty.log"}).out, "nothing found\n  examined empty.log: it is empty\n");
  write_text(folder_ / "calm.log", "start\nend");
  EXPECT_EQ(run({"calm.log"}).out, "nothing found\n  examined calm.log: a log of 2 lines\n");
}

// This is not a lack of memory, so it is not severe.
TEST_F(Doctor, ReportsErrorsOfNvidiaSmi) {
  write_text(folder_ / "smi.log", "No devices were found\n");
  EXPECT_THAT(run({"smi.log"}),
              Ends(0, StartsWith("warning: nvidia-smi found no GPU [gpu-not-reached]\n  seen: smi.log:1: ")));
  write_text(folder_ / "smi.log",
             "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
             "the latest "
             "NVIDIA driver is installed and running.\n");
  EXPECT_THAT(run({"smi.log"}).out, HasSubstr("sudo modprobe nvidia"));
}

TEST_F(Doctor, PrintsJsonAndMarkdown) {
  const CommandResult result = run({"fine.log", "oom.log", "--json"});
  EXPECT_EQ(result.exit_code, 1);
  const Json document = json_of(result);
  EXPECT_EQ(document["inputs"], Json::parse(R"(["fine.log", "oom.log"])"));
  ASSERT_EQ(document["findings"].size(), 2U);
  EXPECT_EQ(document["findings"][0]["evidence"][0]["file"], "oom.log");
  EXPECT_EQ(document["findings"][1]["figures"]["free_bytes"], 3875LL << 20);
  EXPECT_THAT(run({"oom.log", "--markdown"}).out, StartsWith("## headroom doctor: 1 severe finding\n"));
}

TEST_F(Doctor, ReportsErrorsAndKeepsFindings) {
  EXPECT_EQ(run({}).exit_code, 2);
  EXPECT_THAT(run({}).err,
              HasSubstr("headroom doctor needs an input: no file given; name files, - for standard input"));
  EXPECT_THAT(run({"-", "-"}).err, HasSubstr("standard input (-) is given twice"));
  EXPECT_THAT(run({"oom.log", "--json", "--markdown"}).err, HasSubstr("cannot be combined"));
  EXPECT_THAT(run({"absent.log", "oom.log", "absent2.log"}),
              Ends(2, StartsWith("severe: CUDA ran out of memory"),
                   AllOf(HasSubstr("cannot open absent.log: No such file"), HasSubstr("absent2.log"))));
}

// The log of the runtimes lies next to the report. If all models succeeded, an error in it comes from a
// rejected attempt.
TEST_F(Doctor, ReadsTheLogOfARun) {
  constexpr const char* kLog =
      "2026-11-25T10:00:00.000+0000 info onnxruntime: [E] Non-zero status code returned while running Conv "
      "node. Name:'conv_7' Status Message: /ort/bfc_arena.cc:376 void* AllocateRawInternal(size_t, bool) "
      "Failed "
      "to allocate memory for requested buffer of size 67108864\n";
  for (const char* name : {"fallen", "typical"}) {
    copy_run(name);
    write_text(folder_ / name / "run.log", kLog);
  }
  const CommandResult fallen = run({"fallen"});
  EXPECT_THAT(fallen.out, AllOf(HasSubstr("severe: ONNX Runtime"), HasSubstr("fallen/run.log:1:"),
                                HasSubstr("[model-out-of-memory]"), HasSubstr("failed; its log has 1 line")));
  EXPECT_THAT(run({"typical"}), Ends(0, AllOf(HasSubstr("warning: ONNX Runtime"),
                                              HasSubstr("All models of the run succeeded nevertheless."))));
}

// If the parallel run failed or the run was interrupted, an error in its log is severe.
TEST_F(Doctor, LogOfAnIncompleteRunIsSevere) {
  namespace fs = std::filesystem;
  fs::create_directories(folder_ / "cut");
  std::string text = read_text(golden("typical") / "report.json");
  const std::string complete = "\"complete\": true";
  ASSERT_NE(text.find(complete), text.npos);
  text.replace(text.find(complete), complete.size(), "\"complete\": false");
  write_text(folder_ / "cut/report.json", text);
  write_text(folder_ / "cut/run.log", "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n");
  EXPECT_THAT(run({"cut"}), Ends(1, AllOf(HasSubstr("severe: PyTorch"), HasSubstr("[run-incomplete]"))));
  // Reading a pipe would block.
  fs::remove(folder_ / "cut/run.log");
  ASSERT_EQ(::mkfifo((folder_ / "cut/run.log").c_str(), 0600), 0);
  EXPECT_THAT(run({"cut"}).out, HasSubstr("its run.log was skipped: not a regular file"));
}

// JSON lines of other programs have the same keys, and so does the schema of reports.
TEST_F(Doctor, JsonLinesOfOtherProgramsAreNotAReport) {
  const std::string line =
      R"({"schema_version":1,"run_name":"exp1","message":"CUDA out of memory. Tried to allocate 2.00 GiB"})";
  write_text(folder_ / "wandb.log", line + "\n" + line + "\n");
  EXPECT_THAT(run({"wandb.log"}).out, HasSubstr("a log of 2 lines"));
  EXPECT_EQ(run({"wandb.log"}).exit_code, 1);
  write_text(folder_ / "schema.json", "{\n \"properties\": {\"run_name\": {}, \"schema_version\": {}}\n}\n");
  EXPECT_EQ(run({"schema.json"}).exit_code, 0);
  write_text(folder_ / "report.json", "{\n \"schema_version\": 1,\n \"run_name\": \"x\",\n \"mod");
  EXPECT_EQ(run({"report.json"}).exit_code, 2) << "a part of a report is missing";
}

// While a run loads its models, memory grows. That is not a leak.
TEST_F(Doctor, ReadsTheSamplesOfARun) {
  copy_run("typical");
  std::string samples, watched;
  for (std::int64_t i = 0; i < 120; ++i) {
    const std::string figures = fmt::format(
        R"("ram_total_bytes":8000000000,"ram_available_bytes":{},"ram_used_bytes":{},"swap_total_bytes":0}})",
        4'000'000'000 - i * 30'000'000, 4'000'000'000 + i * 30'000'000);
    samples +=
        fmt::format(R"({{"time_ns":{},"phase":"setup","model":"a",)", i * 500'000'000) + figures + "\n";
    watched += fmt::format(R"({{"time_ns":{},)", i * 500'000'000) + figures + "\n";
  }
  write_text(folder_ / "typical/metrics.jsonl", samples);
  EXPECT_THAT(run({"typical"}),
              Ends(0, AllOf(HasSubstr("[no-swap-no-reserve]"), HasSubstr("typical/metrics.jsonl: 410.1 MiB"),
                            HasSubstr("120 samples of the machine"), Not(HasSubstr("[memory-")))));
  write_text(folder_ / "watch.jsonl", watched);
  EXPECT_THAT(run({"watch.jsonl"}).out, HasSubstr("[memory-running-out]"));
  // An unreadable sample file is skipped and named. The user asked for the report, so that is not an error.
  write_text(folder_ / "typical/metrics.jsonl", "no samples\n");
  EXPECT_THAT(run({"typical"}), Ends(0, AllOf(HasSubstr("its metrics.jsonl was skipped: line 1:"),
                                              Not(HasSubstr("samples of the machine")))));
  write_text(folder_ / "typical/run.log", "\x1f\x8b\x08 no gzip after all");
  EXPECT_THAT(run({"typical"}), Ends(0, HasSubstr("its run.log was read only in part: ")));
}

TEST_F(Doctor, DetectsRunsRecordingsAndWatchLogsByContent) {
  EXPECT_THAT(run({golden("fallen").string(), "oom.log"}),
              Ends(1, AllOf(HasSubstr("huge ran out of memory while warming up, under a limit of 128.0 MiB "
                                      "[model-out-of-memory]"),
                            HasSubstr("[soft-limit]"), HasSubstr("[cuda-out-of-memory]"))));
  EXPECT_EQ(run({(golden("fallen") / "report.json").string()}).exit_code, 1);

  std::string log;
  for (int i = 0; i < 4; ++i)
    log +=
        R"({"time_ns":)" + std::to_string(i * 1'000'000'000LL) +
        R"(,"ram_total_bytes":8000000000,"ram_available_bytes":300000000,"ram_free_bytes":200000000,"swap_total_bytes":0})"
        "\n";
  write_text(folder_ / "watch.jsonl", log);
  ASSERT_EQ(std::system(("gzip -k " + (folder_ / "watch.jsonl").string()).c_str()), 0);
  EXPECT_THAT(run({"watch.jsonl.gz"}).out,
              HasSubstr("[no-swap-no-reserve]\n  seen: watch.jsonl.gz: 286.1 MiB available, in the first of "
                        "4 samples over 3.000 s"));
  // A power failure cut a line, and a later session appended to the file.
  const std::size_t half = log.find('\n', log.size() / 2) + 1;
  write_text(folder_ / "torn.jsonl",
             log.substr(0, half) + "{\"time_ns\":7,\"ram" + std::string(8, '\0') + "\n" + log.substr(half));
  EXPECT_THAT(run({"torn.jsonl"}), Ends(0, AllOf(HasSubstr("4 samples over 3.000 s"),
                                                 HasSubstr("; 1 line is invalid and skipped"))));
  EXPECT_THAT(run({"watch.jsonl"}),
              Ends(0, HasSubstr("and there is no swap [no-swap-no-reserve]\n  seen: watch.jsonl: 286.1 "
                                "MiB available, in the first of 4 samples over 3.000 s")));

  write_text(folder_ / "watch.jsonl", log + "{\"time_ns\":40");
  EXPECT_THAT(run({"watch.jsonl"}).out, HasSubstr("; its last line is cut off"));

  write_text(folder_ / "other.json", "{\"log\": \"CUDA error: out of memory\"}\n");
  EXPECT_EQ(run({"other.json"}).exit_code, 1) << "a log like any other";
}

TEST_F(Doctor, ReadsAllFilesOfAFolder) {
  std::filesystem::create_directories(folder_ / "logs/of/today");
  std::filesystem::create_directories(folder_ / "logs/.git");
  write_text(folder_ / "logs/of/today/oom.log", "start\nRuntimeError: CUDA error: out of memory\n");
  write_text(folder_ / "logs/program", std::string("\x7f") + "ELF" + std::string(400, '\x01'));
  write_text(folder_ / "logs/.git/hidden", "CUDA error: out of memory\n");
  std::filesystem::copy(golden("fallen"), folder_ / "logs/run", std::filesystem::copy_options::recursive);
  const CommandResult result = run({"logs", "logs/of/today/oom.log", "--json"});
  EXPECT_THAT(result, Ends(1, testing::_, IsEmpty())) << "binary files in a folder are skipped";
  const Json document = json_of(result);
  ASSERT_EQ(document["examined"].size(), 3U) << result.out;
  EXPECT_EQ(document["examined"][0]["input"], "logs/of/today/oom.log");
  EXPECT_EQ(document["examined"][0]["kind"], "log");
  EXPECT_EQ(document["examined"][1]["input"], "logs/run");
  EXPECT_EQ(document["examined"][1]["kind"], "run");
  EXPECT_EQ(document["examined"][2]["words"], "1 of its files was skipped: not text (program)");
  for (const Json& finding : document["findings"]) {
    if (finding["id"] != "cuda-out-of-memory") continue;
    EXPECT_EQ(finding["times"], 1) << "named twice, read once";
  }

  // A run without its report, given directly and inside a folder.
  std::filesystem::remove(folder_ / "logs/run/report.json");
  write_text(folder_ / "logs/run/metadata.json", "{}");
  write_text(folder_ / "logs/run/run.log", "nothing\n");
  for (const char* place : {"logs", "logs/run"}) {
    const CommandResult unfinished = run({place});
    EXPECT_THAT(unfinished.out,
                AllOf(HasSubstr("examined logs/run: a run of headroom bench that ended before it"),
                      HasSubstr("examined logs/run/run.log"), Not(HasSubstr("metadata.json"))));
  }

  std::filesystem::create_directories(folder_ / "nothing");
  EXPECT_EQ(run({"nothing"}).exit_code, 2);
  EXPECT_THAT(run({"nothing"}).err, HasSubstr("nothing to read in nothing"));
  // A file that was not read must not be reported as healthy.
  write_text(folder_ / "nothing/model.onnx", std::string(400, '\x01'));
  EXPECT_THAT(
      run({"nothing"}),
      IsRefused(HasSubstr("none of its files is text or a file of Headroom or PyTorch (model.onnx)")));
}

// Real lines of boards: an Orin NX of 8 GB that swaps, and an idle one.
TEST_F(Doctor, ReadsOutputOfOtherToolsAsSamples) {
  write_text(folder_ / "stats.log",
             "05-15-2025 18:30:28 RAM 6982/7620MB (lfb 5x1MB) SWAP 2640/16384MB (cached 202MB) CPU "
             "[97%@1984,95%@1984] EMC_FREQ 18%@3199 GR3D_FREQ 84%@[713]\n"
             "05-15-2025 18:30:29 RAM 6984/7620MB (lfb 5x1MB) SWAP 2640/16384MB (cached 202MB) CPU "
             "[97%@1984,95%@1984] EMC_FREQ 18%@3199 GR3D_FREQ 84%@[713]\n");
  EXPECT_THAT(run({"stats.log"}),
              Ends(0, AllOf(HasSubstr("Only 636.0 MiB of 7.44 GiB were available [little-memory-left]"),
                            HasSubstr("examined stats.log: output of tegrastats, 2 samples over 1.000 s"))));
  write_text(folder_ / "calm.log",
             "RAM 1685/7854MB (lfb 1044x4MB) SWAP 278/8192MB (cached 23MB) CPU [4%@346]\n");
  EXPECT_THAT(run({"calm.log"}).out, StartsWith("nothing found\n  examined calm.log: output of tegrastats"));
  write_text(
      folder_ / "meminfo.txt",
      "MemTotal: 8038788 kB\nMemFree: 100000 kB\nMemAvailable: 400000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n");
  EXPECT_THAT(run({"meminfo.txt"}).out, HasSubstr("[no-swap-no-reserve]"));
}

// "tegrastats --interval 1000 & python3 app.py", all to one file.
TEST_F(Doctor, ReadsProgramOutputMixedWithToolOutput) {
  write_text(
      folder_ / "mixed.log",
      "starting\n"
      "05-15-2025 18:30:28 RAM 2982/7620MB (lfb 500x4MB) SWAP 0/3810MB (cached 0MB) CPU [7%@1984,5%@1984]\n"
      "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 7.44 GiB total capacity; 4.00 "
      "GiB "
      "already allocated; 1.00 GiB free; 4.50 GiB reserved in total by PyTorch)\n");
  EXPECT_THAT(run({"mixed.log"}),
              Ends(1, AllOf(HasSubstr("[pytorch-out-of-memory]"), HasSubstr("seen: mixed.log:3: "),
                            HasSubstr("output of tegrastats, 1 sample;"),
                            HasSubstr("and read as a log of 3 lines"))));
}

TEST_F(Doctor, ExplainsWhyAFileIsNotRead) {
  const std::string xz =
      "\xfd"
      "7zXZ" +
      std::string(64, '\1');
  write_text(folder_ / "old 2.log.xz", xz);
  write_text(folder_ / "old.log.xz", xz);
  write_text(folder_ / "watch.csv", "time_seconds,unix_time_seconds,cpu_percent\n0,1,2\n");
  write_text(folder_ / "cut.hrec", "no recording");
  const std::string neither =
      "it is neither text in UTF-8 or UTF-16, plain or gzip, nor a file of Headroom or PyTorch";
  for (const auto& [file, message] :
       {std::pair{"old 2.log.xz",
                  neither + "; decompress or convert it, as in: xz -dc 'old 2.log.xz' | headroom doctor -"},
        {"old.log.xz", neither},
        {"watch.csv", "it is a CSV log of headroom watch"},
        {"cut.hrec", "cut.hrec"},
        {"/proc/self/exe", neither}}) {
    EXPECT_THAT(run({file}), IsRefused(HasSubstr(message))) << file;
  }
  // A log with zero bytes after a power failure, and with terminal colours.
  write_text(folder_ / "zeros.log",
             std::string(5000, '\0') + "\n\x1b[31mRuntimeError: CUDA error: out of memory\x1b[0m\n");
  EXPECT_EQ(run({"zeros.log"}).exit_code, 1);
  // In a folder of logs, as logrotate leaves it, the other files are still read.
  std::filesystem::create_directories(folder_ / "logs");
  write_text(folder_ / "logs/old.log.xz", xz);
  write_text(folder_ / "logs/\x1b[31mred.log", "RuntimeError: CUDA error: out of memory\n");
  EXPECT_THAT(run({"logs"}), Ends(1, AllOf(HasSubstr("1 of its files was skipped: not text (old.log.xz)"),
                                           HasSubstr("[cuda-out-of-memory]"), Not(HasSubstr("\x1b")))));
}

// The program is a child of a wrapper.
TEST_F(Doctor, ReadsRecordingsOfOtherProcesses) {
  const CommandResult traced = run_headroom(
      {"trace", "--full", "--out", (folder_ / "app.hrec").string(), "--", "sh", "-c", "cat /dev/null; true"});
  ASSERT_EQ(traced.exit_code, 0) << traced.err;
  EXPECT_THAT(
      run({"app.hrec"}),
      Ends(0, AllOf(HasSubstr("examined app.hrec: a recording of headroom trace; no layer repeats in it"),
                    HasSubstr("examined app.hrec.d/"))));
  // An unreadable recording does not hide the others.
  write_text(folder_ / "app.hrec.d/0000-0.hrec", "");
  EXPECT_THAT(run({"app.hrec"}), Ends(0, AllOf(HasSubstr("examined app.hrec.d/0000-0.hrec: skipped: "),
                                               HasSubstr(": a recording of headroom trace"))));
  std::filesystem::remove(folder_ / "app.hrec.d/0000-0.hrec");
  // A recording that is given directly and by its folder is read once. Small processes whose leaks cannot be
  // judged get no note.
  const CommandResult folder = run({".", "app.hrec", "--json"});
  const Json document = json_of(folder);
  std::map<std::string, int> read;
  for (const auto& each : document["examined"]) ++read[each["input"].get<std::string>()];
  for (const auto& [input, times] : read) EXPECT_EQ(times, 1) << input;
  int notes = 0;
  for (const auto& finding : document["findings"]) notes += finding["id"] == "leaks-not-judged" ? 1 : 0;
  EXPECT_LE(notes, 2);
}

// Standard input is recognized as a log of headroom watch, from a pipe or a file, compressed or not. Other
// input is read as a log from its first line.
TEST_F(Doctor, ReadsAWatchLogFromStandardInput) {
  CommandOptions options;
  options.binary = "/bin/sh";
  options.folder = folder_.path();
  const std::string doctor = test::built_path("bin/headroom doctor - ");
  const auto shell = [&](const std::string& line) { return run_headroom({"-c", line}, options); };
  write_text(
      folder_ / "watch.jsonl",
      R"({"time_ns":0,"ram_total_bytes":8000000000,"ram_available_bytes":300000000,"swap_total_bytes":0})"
      "\n"
      R"({"time_ns":1000000000,"ram_total_bytes":8000000000,"ram_available_bytes":300000000})"
      "\n");
  for (const std::string& line :
       {"cat watch.jsonl | " + doctor, doctor + "< watch.jsonl", "gzip -c watch.jsonl | " + doctor}) {
    EXPECT_THAT(shell(line),
                Ends(0, AllOf(HasSubstr("[no-swap-no-reserve]\n  seen: standard input: 286.1 MiB available"),
                              HasSubstr("examined standard input: a log of headroom watch, 2 samples"))));
  }
  for (const std::string& line :
       {"cat oom.log | " + doctor, doctor + "< oom.log", "gzip -c oom.log | " + doctor})
    EXPECT_THAT(shell(line).out, HasSubstr("examined standard input: a log of 2 lines")) << line;
  // More than the machine should hold in memory; the shell's `yes` ends with the reader.
  EXPECT_THAT(shell("yes \"$(head -1 watch.jsonl)\" | " + doctor),
              IsRefused(HasSubstr("it is larger than 256 MiB; use a file: headroom doctor LOG.jsonl")));
}

// Like diff, doctor accepts the output of jq --sort-keys and an editor's byte order mark.
TEST_F(Doctor, DetectsAReportWithAnyKeyOrder) {
  const std::string text = read_text(golden("fallen") / "report.json");
  const nlohmann::json sorted = nlohmann::json::parse(text);  // sorts the keys
  write_text(folder_ / "sorted.json", sorted.dump(1));
  write_text(folder_ / "marked.json", "\xef\xbb\xbf" + text);
  for (const char* name : {"sorted.json", "marked.json"}) {
    EXPECT_THAT(run({name}), Ends(1, HasSubstr("[model-out-of-memory]"))) << name;
  }
}

TEST_F(Doctor, RejectsImpossibleFigures) {
  auto report = *parse_json(read_text(golden("typical") / "report.json"));
  report["models"][0]["memory"]["load_peak_bytes"] = std::int64_t{4} << 60;
  std::filesystem::create_directories(folder_ / "absurd");
  write_text(folder_ / "absurd/report.json", report.dump());
  EXPECT_THAT(run({"absurd"}),
              IsRefused(AllOf(HasSubstr("cannot use absurd/report.json"), HasSubstr("load_peak_bytes"))));
}

// A file that begins with a dash, as with every other command.
TEST_F(Doctor, ArgumentsAfterTwoDashesAreFiles) {
  write_text(folder_ / "-oom.log", "RuntimeError: CUDA error: out of memory\n");
  EXPECT_EQ(run({"--", "-oom.log"}).exit_code, 1);
  EXPECT_EQ(run({"-oom.log"}).exit_code, 2);
}

// A trial needs exactly one run, whose model files exist.
TEST_F(Doctor, ProposesATrialOnlyIfItIsPossible) {
  copy_run("fallen");
  const CommandResult result = run({"fallen"});
  EXPECT_THAT(result.out, AllOf(HasSubstr("[model-out-of-memory]"), Not(HasSubstr("--try"))));
  EXPECT_EQ(run({"fallen", "--try"}).exit_code, 2) << "its models are of another machine";
}

// Every output ends with the next command, ready to run.
TEST_F(Doctor, PrintsTheNextCommand) {
  write_text(folder_ / "kill.log", "  101 Killed                  python3 main.py\n");
  EXPECT_THAT(run({"--pool", "kill.log"}), Ends(2, "", HasSubstr("unknown flag --pool")));
  EXPECT_THAT(run({"kill.log"}).out, HasSubstr("\n\nNext: journalctl -k | headroom doctor -\n"));
  EXPECT_THAT(run({"kill.log", "--json"}).out, Not(HasSubstr("Next: ")));
}

TEST_F(Doctor, LiveChecksTheMachine) {
  const CommandResult result = run({"--live", "--json"});
  EXPECT_LE(result.exit_code, 1) << result.err;
  EXPECT_TRUE(parse_json(result.out).has_value());
  std::filesystem::create_directories(folder_ / "board/proc");
  std::filesystem::create_directories(folder_ / "board/sys");
  write_text(folder_ / "board/proc/meminfo",
             "MemTotal: 8000000 kB\nMemFree: 100000 kB\nMemAvailable: 4000000 kB\nBuffers: 1 kB\nCached: "
             "3900000 kB\n"
             "SwapTotal: 4000000 kB\nSwapFree: 4000000 kB\nNvMapMemUsed: 900000 kB\n");
  EXPECT_THAT(
      run({"--live", "--sysroot", "board"}),
      Ends(0,
           HasSubstr("[page-cache-starves-nvmap]\n  seen: board: 97.7 MiB free, in the first of 5 samples")));
  EXPECT_EQ(run({"--live", "--sysroot", "absent"}).exit_code, 2);
  EXPECT_THAT(run({"oom.log", "--sysroot", "board"}).err,
              HasSubstr("--sysroot has no effect without --live"));
}

}  // namespace
}  // namespace headroom::test
