// Short-lived child processes with one task (scan, set up, annotate). The job goes in as JSON on standard
// input. JSON lines come back on descriptor 3; the last line is {"event": "done", …} or {"event": "error",
// …}.
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
  const char* limit_flag = "--workspace";                             // the flag that raises the limit
  std::vector<std::pair<std::string, std::string>> environment = {};  // added to Headroom's environment
  Nanoseconds timeout{120'000'000'000};                               // longest time without an event
  // The helper's current step, for the error if it dies: "reading big.png". May be unset or return an empty
  // string.
  std::function<std::string()> current_step;
  // If true, errors in the helper's log are printed, because the helper continues after them. Other helpers
  // end with their error as the answer.
  bool repeats_errors = false;
  // Called for each event except the last.
  std::function<void(const nlohmann::ordered_json&)> on_event;
};

// Runs the helper until it ends and returns its "done" event. An interrupt ends the helper (SIGTERM first)
// and returns an error with why = "interrupted".
Result<nlohmann::ordered_json> run_helper(const HelperPlan& plan, const nlohmann::ordered_json& job,
                                          Interrupt& interrupt);
bool was_interrupted(const Error& error);
// True if the helper sent no event within its timeout and was killed.
bool was_silent(const Error& error);

// The helper's side: reads the job, runs `work`, and sends its answer or error. Returns the exit code.
int serve_helper(
    const std::function<Result<nlohmann::ordered_json>(const nlohmann::ordered_json& job)>& work);
// Sends an event from within `work`.
void send_helper_event(const nlohmann::ordered_json& event);

}  // namespace headroom::bench
