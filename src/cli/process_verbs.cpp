#include "cli/process_verbs.h"

#include "base/text.h"
#include "bench/conductor/annotate.h"
#include "bench/conductor/build_engine.h"
#include "bench/conductor/gpu_limit.h"
#include "bench/conductor/gpu_sampler.h"
#include "bench/conductor/layer_phase.h"
#include "bench/conductor/model_fingerprint.h"
#include "bench/conductor/setup_phase.h"
#include "bench/decoder/decode_process.h"
#include "bench/worker/worker_process.h"
#include "limits/memory_limit.h"

namespace headroom::cli {
namespace {

std::string value_after(const std::vector<std::string>& arguments, std::string_view flag) {
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i)
    if (arguments[i] == flag) return arguments[i + 1];
  return {};
}

}  // namespace

std::optional<int> run_process_verb(const std::string& verb, const std::vector<std::string>& arguments) {
  if (verb == "_worker") return bench::run_worker();
  if (verb == "_decode") return bench::run_decode_process(arguments.empty() ? "" : arguments.front());
  if (verb == "_setup") return bench::run_setup_process();
  if (verb == "_scan") return bench::run_scan_process();
  if (verb == "_fingerprint") return bench::run_fingerprint_process();
  if (verb == "_layers") return bench::run_layers_process();
  if (verb == "_gpu_probe") return bench::run_gpu_probe_process();
  if (verb == "_gpu_metrics")
    return bench::run_gpu_metrics_process(!arguments.empty() && arguments.front() == "--spared");
  if (verb == "_build_engine") return bench::run_build_engine_process();
  if (verb == "_annotate") return bench::run_annotate_process();
  if (verb == "_probe")
    return limits::run_limit_probe(
        value_after(arguments, "--route"),
        Bytes{parse_number<std::int64_t>(value_after(arguments, "--target")).value_or(0)});
  return std::nullopt;
}

}  // namespace headroom::cli
