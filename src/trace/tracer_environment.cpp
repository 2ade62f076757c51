#include "trace/tracer_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/files.h"
#include "base/text.h"
#include "recording/format.h"
#include "trace/device_account.h"

namespace headroom::trace {
namespace fs = std::filesystem;

std::uint64_t segments_in(Bytes recording) {
  constexpr std::int64_t kBeforeSegments = recording::kHeaderBytes + recording::kDefaultMetadataBytes;
  const std::int64_t for_segments = recording.count - kBeforeSegments;
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(1, for_segments / recording::kDefaultSegmentBytes));
}

Bytes default_size_limit(const fs::path& recording) {
  std::error_code code;
  const auto space = fs::space(recording.parent_path(), code);
  if (code) return gibibytes(8);
  return std::max(kSmallestRecording,
                  std::min(gibibytes(8), Bytes{static_cast<std::int64_t>(space.available / 2)}));
}

namespace {

// A limit for all devices is one setting. If this process itself runs under a limit, the command does so,
// too: the smaller limit applies, and its memory is charged to both accounts.
std::string device_settings(const ledger::Limits& asked, const std::string& account) {
  const InheritedLimit around = inherited_limit();
  const ledger::Limits device_limits = smaller_of(asked, around.limits);
  const auto& limits = device_limits.bytes;
  std::string settings;
  if (device_limits.any() &&
      std::all_of(std::begin(limits), std::end(limits), [&](auto limit) { return limit == limits[0]; }))
    settings += fmt::format(",device={}", limits[0]);
  else
    for (unsigned device = 0; device < ledger::kMaxDevices; ++device)
      if (limits[device] != ledger::kNoLimit) settings += fmt::format(",device{}={}", device, limits[device]);
  if (!account.empty()) settings += fmt::format(",account={}", account);
  // Without its own limit, the command joins the enclosing account; otherwise its account lies within that
  // one.
  bool has_account = !account.empty() || asked.any();
  for (const std::string& outer : around.accounts) {
    settings += fmt::format(",{}={}", has_account ? "within" : "account", outer);
    has_account = true;
  }
  return settings;
}

// For a trace inside a trace: only one of the two libraries may record.
std::string preload_with(const std::string& library) {
  const char* before = std::getenv("LD_PRELOAD");
  std::string preload = library;
  for (const std::string_view kept : split(before != nullptr ? before : "", ':'))
    if (!kept.empty() && kept != library && !is_tracer_library(kept)) preload += fmt::format(":{}", kept);
  return preload;
}

std::string_view settings_here() {
  const char* const settings = std::getenv("HEADROOM_TRACE_OPTIONS");
  return settings != nullptr ? settings : "";
}

bool has_nvtx_of_another_tool() {
  const char* set = std::getenv("NVTX_INJECTION64_PATH");
  return set != nullptr && !is_tracer_library(set);
}

}  // namespace

std::string tracer_settings(const TraceOptions& options, Bytes size_limit) {
  const auto size = options.ring.value_or(options.max_size.value_or(size_limit));
  std::string settings = fmt::format("full={}", options.full ? 1 : 0);
  if (!options.stacks.empty()) settings += fmt::format(",stacks={}", options.stacks);
  settings += fmt::format(",layers={},{}={},events={},large={},period={}", options.layers ? "auto" : "off",
                          options.ring ? "ring" : "limit", segments_in(size), options.max_events.value_or(0),
                          options.large.count, options.sample_period.count);
  if (options.proved_limit == LimitType::hard || options.proved_limit == LimitType::soft)
    settings += fmt::format(",proved={}", name_of(*options.proved_limit));
  return settings + device_settings(options.device_limits, options.account);
}

Environment tracer_environment(const TraceOptions& options, const fs::path& recording, Bytes size_limit) {
  const std::string library = options.library.string();
  Environment environment{{"LD_PRELOAD", preload_with(library)},
                          {"HEADROOM_TRACE_FILE", recording.string()},
                          {"HEADROOM_TRACE_OPTIONS", tracer_settings(options, size_limit)}};
  if (options.layers && !has_nvtx_of_another_tool())
    environment.emplace_back("NVTX_INJECTION64_PATH", library);
  return environment;
}

Environment ledger_environment(const fs::path& library, const ledger::Limits& limits,
                               const std::string& account) {
  return {{"LD_PRELOAD", preload_with(library.string())},
          {"HEADROOM_TRACE_OPTIONS", "ledger=1" + device_settings(limits, account)}};
}

bool is_recorded() {
  const char* const file = std::getenv("HEADROOM_TRACE_FILE");
  const char* const preload = std::getenv("LD_PRELOAD");
  if (file == nullptr || *file != '/' || preload == nullptr) return false;
  const auto settings = split(settings_here(), ',');
  return std::ranges::any_of(split(preload, ':'), is_tracer_library) &&
         std::ranges::find(settings, "ledger=1") == settings.end();
}

Environment limited_environment(const fs::path& library, const ledger::Limits& limits,
                                const std::string& account) {
  if (!is_recorded()) return ledger_environment(library, limits, account);
  std::string settings;
  for (const std::string_view setting : split(settings_here(), ',')) {
    const std::string_view key = setting.substr(0, setting.find('='));
    // What the probe proved about the enclosing limit does not hold for another limit.
    const bool is_replaced =
        key.starts_with("device") || key == "account" || key == "within" || (key == "proved" && limits.any());
    if (!is_replaced) settings += fmt::format("{}{}", settings.empty() ? "" : ",", setting);
  }
  return {{"HEADROOM_TRACE_OPTIONS", settings + device_settings(limits, account)}};
}

fs::path tracer_library() {
  constexpr const char* kFile = "libheadroom_trace.so";
  if (const char* named = std::getenv("HEADROOM_TRACER"); named != nullptr) return named;
  // Absolute: the command may run in another folder than this program.
  return fs::absolute(find_plugin(kFile).value_or(executable_folder() / kFile));
}

fs::path gpu_tracer_library() { return tracer_library().replace_filename("libheadroom_trace_gpu.so"); }

fs::path attach_library() { return tracer_library().replace_filename("libheadroom_trace_attach.so"); }

bool is_tracer_library(const fs::path& path) {
  return path == tracer_library() || path == gpu_tracer_library();
}

Status check_library(const fs::path& library) {
  const std::string what = fmt::format("cannot use the preload library {}", library.string());
  if (::access(library.c_str(), R_OK) != 0)
    return usage_error(
        what, errno_text(errno),
        "install Headroom with lib/headroom, or set HEADROOM_TRACER to the path of libheadroom_trace.so, "
        "with both libraries in one folder");
  if (library.string().find_first_of(": \t") != std::string::npos)
    return usage_error(
        what, "its path contains a space or a colon, which separate names in LD_PRELOAD",
        "install Headroom elsewhere, or set HEADROOM_TRACER to libheadroom_trace.so in a link to its folder");
  return {};
}

}  // namespace headroom::trace
