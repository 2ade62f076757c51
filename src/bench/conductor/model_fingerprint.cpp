#include "bench/conductor/model_fingerprint.h"

#include "base/json.h"
#include "bench/conductor/helper_process.h"

namespace headroom::bench {
namespace {

constexpr Nanoseconds kSignInterval{500'000'000};

Result<Json> read_fingerprint(const Json& job) {
  Nanoseconds last = monotonic_now();
  auto files = read_model_files(get_text(job, "path"), [&] {
    if (monotonic_now() - last < kSignInterval) return;
    last = monotonic_now();
    Json event;
    event["event"] = "alive";
    send_helper_event(event);
  });
  if (!files) return forward_error(files);
  Json answer;
  answer["fingerprint"] = files->fingerprint;
  answer["size_bytes"] = files->size.count;
  return answer;
}

}  // namespace

Result<ModelFiles> fingerprint_in_child(const std::string& path, Nanoseconds timeout, Interrupt& interrupt) {
  HelperPlan plan;
  plan.verb = "_fingerprint";
  plan.purpose = "reading " + path;
  plan.timeout = timeout;
  Json job;
  job["path"] = path;
  const auto answer = run_helper(plan, job, interrupt);
  if (!answer) return tl::unexpected<Error>(answer.error());
  return ModelFiles{get_text(*answer, "fingerprint"), get_bytes(*answer, "size_bytes").value_or(Bytes{})};
}

int run_fingerprint_process() { return serve_helper(read_fingerprint); }

}  // namespace headroom::bench
