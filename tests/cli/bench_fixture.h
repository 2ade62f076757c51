// Runs of `headroom bench` with the runtime that misbehaves on command.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/diff_matchers.h"

namespace headroom::test {

class BenchTest : public testing::Test {
 protected:
  // Runs models of this runtime over one picture.
  CommandResult run(Words words, CommandOptions options = {}) {
    words.insert(words.begin(), {"--source", bench_.pictures(), "--backend", "misbehaving"});
    return bench_.run(std::move(words), std::move(options));
  }
  CommandResult run_without_source(Words words, CommandOptions options = {}) {
    words.insert(words.begin(), {"--backend", "misbehaving"});
    return bench_.run(std::move(words), std::move(options));
  }
  // The value of --model for a model with these commands.
  std::string model(const std::string& name, const std::string& commands) {
    return name + "=" + bench_.model(name, commands);
  }
  // Entries of the newest report.
  Json entry(const std::string& name) const { return model_of(bench_.report(), name); }
  std::string status_of(const std::string& name) const { return get_text(entry(name), "status"); }
  std::string error_of(const std::string& name) const { return get_text(entry(name), "error"); }
  std::string file(const char* name) const { return read_text(bench_.run_folder() / name); }
  // Sends the signal to the conductor once a file of the run contains this text.
  CommandOptions signal_when(const char* name, const std::string& text, int signal) const {
    CommandOptions options;
    options.while_running = [=, this](int conductor) {
      if (file(name).find(text) == std::string::npos) return true;
      ::kill(conductor, signal);
      return false;
    };
    return options;
  }

  Bench bench_;
};

}  // namespace headroom::test
