// Runs of headroom bench that `headroom diff` compares, made once for a test suite.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/command.h"

namespace headroom::test {

// Real runs of the backend that misbehaves on command, with 20 frames each. Figures that a test does not
// examine are made equal, because on a busy machine memory or time sometimes differs by chance.
class DiffRuns : public testing::Test {
 protected:
  using Words = std::vector<std::string>;

  static void take_from_quick(const char* name, const char* figures) {
    const auto file_of = [](const char* run) { return bench_->path() / run / "report.json"; };
    const auto quick = parse_json(read_text(file_of("quick")));
    auto report = parse_json(read_text(file_of(name)));
    ASSERT_TRUE(quick.has_value() && report.has_value());
    ASSERT_TRUE((*quick)["models"][0].contains(figures));
    (*report)["models"][0][figures] = (*quick)["models"][0][figures];
    write_text(file_of(name), report->dump());
  }
  static void SetUpTestSuite() {
    bench_ = new Bench;
    for (const auto& [name, commands] : {std::pair{"quick", "run sleep 2"}, std::pair{"slow", "run sleep 9"},
                                         std::pair{"large", "load allocate 64\nrun sleep 2"}}) {
      const CommandResult result = bench_->run({"--backend", "misbehaving", "--max-frames", "20", "--model",
                                                "m=" + bench_->model(name, commands)});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      std::filesystem::rename(bench_->run_folder(), bench_->path() / name);
    }
    take_from_quick("slow", "memory");
    for (const char* times : {"latency_ns", "stages_ns"}) take_from_quick("large", times);
    std::filesystem::copy(bench_->path() / "quick/frames/m.csv", bench_->path() / "large/frames/m.csv",
                          std::filesystem::copy_options::overwrite_existing);
    for (const auto& [folder, source] :
         {std::pair{"several", "quick"}, std::pair{"others", "quick"}, std::pair{"slower", "slow"}}) {
      std::filesystem::create_directories(bench_->path() / folder);
      for (const char* number : {"1", "2", "3"}) copy_of(source, std::filesystem::path(folder) / number);
    }
  }
  // Another run with the same figures. It gets another name; otherwise it would count as a copy.
  static void copy_of(const char* source, const std::filesystem::path& name) {
    const std::filesystem::path run = bench_->path() / name;
    std::filesystem::copy(bench_->path() / source, run, std::filesystem::copy_options::recursive);
    auto report = parse_json(read_text(run / "report.json"));
    ASSERT_TRUE(report.has_value());
    (*report)["run_name"] = name.string();
    write_text(run / "report.json", report->dump());
  }
  static void TearDownTestSuite() {
    delete bench_;
    bench_ = nullptr;
  }
  CommandResult run(Words words) {
    words.insert(words.begin(), "diff");
    return run_headroom(words, {.folder = bench_->path()});
  }
  static inline Bench* bench_ = nullptr;
};

}  // namespace headroom::test
