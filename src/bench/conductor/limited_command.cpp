#include "bench/conductor/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "base/files.h"
#include "bench/conductor/gpu_limit.h"
#include "limits/memory_limit.h"
#include "report/words.h"
#include "trace/traced_command.h"
#include "trace/tracer_environment.h"

namespace headroom::bench {
namespace {

// "peak 120.0 MiB of 512.0 MiB (hard: control group v1)". Without a control group, the peak is resident
// memory, but RLIMIT_DATA counts reserved memory.
std::string describe_memory(const Limit& proved, const limits::MemoryLimit& limit, const ExitStatus& status,
                            std::int64_t kills) {
  const auto peak = limit.account().peak;
  std::string text =
      fmt::format("peak {} of {} ({}: {})", format_bytes(peak.value_or(status.peak_rss)),
                  format_bytes(proved.bytes), type_with_reason(proved), report::words_for(proved.mechanism));
  if (!peak) text += ", resident in the largest process";
  if (!peak && proved.mechanism == LimitMechanism::rlimit_data) text += "; the limit counts reserved memory";
  if (kills > 0) text += fmt::format(", {} killed at it", report::counted(kills, "process"));
  return text;
}

std::string describe_gpus(const Limit& proved, const trace::DeviceAccount& account) {
  const std::string used = describe_use(account);
  const std::string& note = proved.note;
  if (used.empty() && proved.type == LimitType::unavailable)
    return "no GPU limit was enforced" + (note.empty() ? "" : ": " + note);
  return fmt::format("{} ({}: {}{}{})", used.empty() ? "no GPU was used" : used,
                     name_of(type_after(proved, account)), report::words_for(proved.mechanism),
                     describe_escapes(account), note.empty() ? "" : "; " + note);
}

Status check(const RunLimitedOptions& options) {
  if (options.command.empty())
    return usage_error("headroom run needs a command", "",
                       "write the command after --, as headroom run --limit 2GiB -- ./app");
  if (!options.limit && !options.gpu_limits.any() && options.share.empty())
    return usage_error("headroom run needs a limit", "",
                       "give --limit SIZE for the machine's memory, --gpu-limit SIZE for a GPU's, or both");
  return {};
}

}  // namespace

Result<int> run_limited(const RunLimitedOptions& options) {
  if (auto valid = check(options); !valid) return forward_error(valid);
  auto program = trace::find_program(options.command[0]);
  if (!program) return forward_error(program);

  std::optional<trace::DeviceAccount> account;
  trace::Environment environment;
  Limit gpu_proved, proved;
  if (options.gpu_limits.any() || !options.share.empty()) {
    const auto library = trace::gpu_tracer_library();
    if (auto there = trace::check_library(library); !there) return forward_error(there);
    if (auto bound = trace::check_traceable(*program, library); !bound) {
      bound.error().what = fmt::format("cannot limit the GPU memory of {}", program->string());
      return forward_error(bound);
    }
    auto opened = trace::DeviceAccount::open(options.gpu_limits, options.share);
    if (!opened) return forward_error(opened);
    account.emplace(std::move(*opened));
    environment = trace::limited_environment(library, account->limits(), account->file());
    auto gpu = prove_gpu_limit(account->limits(), options.allow_no_gpu);
    if (!gpu) return forward_error(gpu);
    if (gpu->interrupted_by != 0) return 128 + gpu->interrupted_by;
    gpu_proved = std::move(gpu->limit);
  }
  std::unique_ptr<limits::MemoryLimit> limit;
  if (options.limit) {
    auto found = prove_memory_limit(*options.limit, options.mechanism);
    if (!found) return forward_error(found);
    proved = std::move(*found);
    std::string note;
    auto made = limits::make_memory_limit("run", options.limit, options.mechanism, note);
    if (!made) return forward_error(made);
    limit = std::move(*made);
  }

  const std::int64_t kills_before = limit ? limit->account().oom_kills.value_or(0) : 0;
  auto end =
      trace::run_command(options.command, environment, limit ? limit->entry() : std::function<int()>());
  if (!end) return forward_error(end);
  std::string line;
  if (limit)
    line =
        describe_memory(proved, *limit, end->status, limit->account().oom_kills.value_or(0) - kills_before);
  if (account) line += (line.empty() ? "" : "; ") + describe_gpus(gpu_proved, *account);
  if (end->status.signal != 0) line += fmt::format("; the command ended with {}", end->status.describe());
  [[maybe_unused]] const auto written = write_all(STDERR_FILENO, fmt::format("headroom run: {}\n", line));
  return end->exit_code();
}

}  // namespace headroom::bench
