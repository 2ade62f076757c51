// Runs the real binary as a user would.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "support/test_support.h"

namespace headroom::test {

using Words = std::vector<std::string>;

// The words of all lists.
inline Words joined(std::initializer_list<Words> lists) {
  Words all;
  for (const Words& words : lists) all.insert(all.end(), words.begin(), words.end());
  return all;
}

struct CommandResult {
  int exit_code = -1;
  int signal = 0;
  std::string out, err;
};

struct CommandOptions {
  std::vector<std::pair<std::string, std::string>> environment{};
  std::filesystem::path binary{};     // empty: the built binary
  std::filesystem::path folder{};     // working folder; empty: Bench creates one
  int stdout_fd = -1;                 // standard output goes here instead of into `out`
  std::uint64_t most_file_bytes = 0;  // limit as of ulimit -f; 0: inherited from the test
  // Called with the pid every 20 ms while the command runs. Returns false to stop the calls.
  std::function<bool(int)> while_running{};
};

CommandResult run_headroom(const std::vector<std::string>& arguments, const CommandOptions& options = {});

// A folder for the runs of one test, with a runtime that misbehaves on command.
class Bench {
 public:
  Bench();
  // Runs `headroom bench` with output and prepared folders inside this folder, few frames, and the given
  // arguments.
  CommandResult run(std::vector<std::string> arguments, CommandOptions options = {});
  // A "model" of commands for the misbehaving backend; returns its path.
  std::string model(const std::string& name, const std::string& commands);
  // A folder with one small real picture, to be used as the source.
  std::string pictures();
  // The report of the newest run, or null.
  Json report() const;
  std::filesystem::path run_folder() const;  // of the newest run
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

// models[] entry of a report by name, or null.
Json model_of(const Json& report, const std::string& name);
// True if this machine lets us make a limiting control group (what a hard limit needs).
bool hard_limits_work();

}  // namespace headroom::test
