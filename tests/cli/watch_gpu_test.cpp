// `headroom watch` with a fake NVIDIA driver: every sample has GPU figures, and the child process that
// reads them is protected from the OOM killer like the monitor.
#include <gtest/gtest.h>
#include <signal.h>

#include "base/text.h"
#include "cli/process_tree.h"
#include "cli/watch_fixture.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

class WatchGpu : public Watch {
 protected:
  CommandOptions with_driver() const {
    fs::copy_file(fs::path(test::built_path("tests/libfake_nvml_throttled.so")),
                  folder_ / "libnvidia-ml.so.1");
    CommandOptions options;
    options.environment = {{"LD_LIBRARY_PATH", folder_.path().string()}};
    return options;
  }
};

std::string line_of_status(int pid, const std::string& key) {
  const std::string status = read_text("/proc/" + std::to_string(pid) + "/status");
  for (const std::string_view line : split(status, '\n'))
    if (line.starts_with(key + ":")) return std::string(trim(line.substr(key.size() + 1)));
  return {};
}

TEST_F(WatchGpu, EverySampleContainsTheGpu) {
  const auto result = watch({"--interval", "20ms", "--duration", "300ms", "--jsonl"}, with_driver());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err.find("no GPU metrics"), std::string::npos) << result.err;
  const auto lines = split(trim(result.out), '\n');
  EXPECT_GE(lines.size(), 2U);
  for (const std::string_view line : lines) {
    const auto sample = parse_json(line);
    ASSERT_TRUE(sample);
    ASSERT_EQ(get_member(*sample, "gpus").size(), 1U) << line;
    EXPECT_EQ(get_integer((*sample)["gpus"][0], "memory_used_bytes"), 1 << 30);
  }
  EXPECT_THAT(result.err, HasSubstr("GPU memory used gpu0"));
}

TEST_F(WatchGpu, ProtectsTheGpuChildProcessLikeTheMonitor) {
  CommandOptions options = with_driver();
  bool was_seen = false;
  std::string locked, score, locked_of_child, score_of_child;
  options.while_running = [&](int pid) {
    // The monitor locks its pages when it starts to sample, the child before it loads the driver library.
    if (read_if_there("a.jsonl").empty()) return true;
    const auto children = descendants_of(pid);
    const Child* child = find_child(children, "_gpu_metrics");
    if (child == nullptr) return true;
    was_seen = true;
    locked = line_of_status(pid, "VmLck");
    score = read_text("/proc/" + std::to_string(pid) + "/oom_score_adj");
    locked_of_child = line_of_status(child->pid, "VmLck");
    score_of_child = read_text("/proc/" + std::to_string(child->pid) + "/oom_score_adj");
    ::kill(pid, SIGTERM);
    return false;
  };
  const auto result = watch({"--interval", "20ms", "--quiet", "--output", "a.jsonl"}, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  ASSERT_TRUE(was_seen);
  EXPECT_EQ(score_of_child, score);
  EXPECT_EQ(locked_of_child == "0 kB", locked == "0 kB") << locked << " and of the child " << locked_of_child;
}

}  // namespace
}  // namespace headroom::test
