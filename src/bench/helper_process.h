// Short-lived children with one task (scan, set up, annotate): the job goes in as JSON on standard input,
// JSON lines come back on descriptor 3, the last of them {"event": "done", …} or {"event": "error", …}.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "bench/interrupt.h"
#include "limits/memory_limit.h"

namespace headroom::bench {

struct HelperPlan {
  std::string verb;     // "_scan"
  std::string purpose;  // for errors: "scanning the source"
  limits::MemoryLimit* limit = nullptr;
  const char* limit_flag = "--workspace";                             // what raises it
  std::vector<std::pair<std::string, std::string>> environment = {};  // added to ours
  Nanoseconds timeout{120'000'000'000};                               // without a sign of life
  // What the helper was at, for the error when it dies: "reading big.png"; may be absent or give nothing.
  std::function<std::string()> under_way;
  // Errors in its log are ours, too: it goes on after them. (Of other helpers the answer is the error.)
  bool repeats_errors = false;
  // Called for each event that is not the last.
  std::function<void(const nlohmann::ordered_json&)> on_event;
};

// Runs the helper to its end and returns its "done" event. An interrupt ends it (first politely) and is an
// error with why = "interrupted".
Result<nlohmann::ordered_json> run_helper(const HelperPlan& plan, const nlohmann::ordered_json& job,
                                          Interrupt& interrupt);
bool was_interrupted(const Error& error);
// It gave no sign of life for its timeout and was ended.
bool was_silent(const Error& error);

// The helper's side: reads the job, runs `work` and sends its answer or its error. Returns the exit code.
int serve_helper(
    const std::function<Result<nlohmann::ordered_json>(const nlohmann::ordered_json& job)>& work);
// Sends an event from within `work`.
void send_helper_event(const nlohmann::ordered_json& event);

}  // namespace headroom::bench
