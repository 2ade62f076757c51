// The hidden verbs: what Headroom's own child processes run. They are not for people; bench/worker_protocol.h
// says what they read and write.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace headroom::cli {

// Runs the hidden verb and returns its exit code, or nothing if `verb` is none of them.
std::optional<int> run_process_verb(const std::string& verb, const std::vector<std::string>& arguments);

}  // namespace headroom::cli
