#include "recording/runtime_profile.h"

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "recording/recording.h"

namespace headroom::recording {

namespace {

constexpr std::string_view kNodeSuffix = "_kernel_time";
// A profile of ten runs of a thousand nodes has 10 MB. A profile that was never ended contains a million
// events.
constexpr Bytes kLargestProfile = gibibytes(1);
constexpr std::size_t kMostRuns = 2'000'000;

// Sizes are strings in the runtime's JSON: "mem_bytes_in_use": "33554432".
std::optional<Bytes> size_of(const Json& arguments, const char* key) {
  const auto value = parse_number<std::int64_t>(get_text(arguments, key));
  return value && *value >= 0 ? std::optional<Bytes>(Bytes{*value}) : std::nullopt;
}

// Microseconds in the runtime's JSON. At most 71 years: the sum of three such times fits into the type.
Nanoseconds time_of(const Json& event, const char* key, std::int64_t least) {
  constexpr std::int64_t kMost = std::int64_t{1} << 51, kMicrosecond = 1000;
  return {std::clamp(get_integer(event, key).value_or(0), least, kMost) * kMicrosecond};
}

}  // namespace

Result<RuntimeProfileData> read_runtime_profile(const std::filesystem::path& path) {
  // The path comes from a recording, which may be hostile.
  auto file = open_regular_file(path);
  if (!file) return forward_error(file);
  std::error_code ignored;
  // Not more than the file's size: /proc/PID/pagemap has none, and never ends.
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, ignored));
  auto text = read_descriptor(file->get(), path.string(), std::min(kLargestProfile, Bytes{size}), size);
  if (!text) return forward_error(text);
  RuntimeProfileData profile;
  std::unordered_map<std::string, std::uint32_t> known;
  const auto take = [&](const Json& event) {
    std::string name = get_text(event, "name");
    if (get_text(event, "cat") != "Node" || !name.ends_with(kNodeSuffix)) return;
    if (profile.runs.size() == kMostRuns) return;
    name.resize(name.size() - kNodeSuffix.size());
    const Json& arguments = get_member(event, "args");
    const auto [place, is_new] = known.emplace(name, static_cast<std::uint32_t>(profile.nodes.size()));
    if (is_new)
      profile.nodes.push_back({name, get_text(arguments, "op_name"), get_text(arguments, "provider"),
                               size_of(arguments, "output_size"), size_of(arguments, "activation_size"),
                               size_of(arguments, "parameter_size")});
    constexpr std::int64_t kEarliest = -(std::int64_t{1} << 51);
    profile.runs.push_back(
        {place->second, get_integer(event, "tid").value_or(0), time_of(event, "ts", kEarliest),
         time_of(event, "dur", 0), size_of(arguments, "mem_bytes_in_use"),
         size_of(arguments, "mem_bytes_requested_in_use"), size_of(arguments, "mem_arena_held")});
  };
  if (auto read = parse_json_list(*text, path.string(), take); !read) {
    read.error().fix = "pass a profile that ONNX Runtime wrote";
    return forward_error(read);
  }
  if (profile.runs.size() == kMostRuns)
    return input_error(fmt::format("cannot use {}", path.string()),
                       fmt::format("it has {} runs of nodes or more", kMostRuns), "profile fewer runs");
  std::ranges::stable_sort(profile.runs, {}, &NodeRun::start);
  return profile;
}

// Reads the profiles that a traced runtime wrote, and adds the nodes of its graphs as scopes.
// Recordings are often copied together with their folder. So a profile is searched next to the recording
// first, then at its original path.
void Recording::read_profiles(const std::filesystem::path& recording) {
  std::set<std::filesystem::path> read;
  NodeScopes node_scopes;
  for (std::uint32_t i = 0; i < info_.profiles.size(); ++i) {
    RuntimeProfile& profile = info_.profiles[i];
    std::filesystem::path path = recording.string() + ".d";
    if (recording.parent_path().extension() == ".d") path = recording.parent_path();
    path /= std::filesystem::path(profile.path).filename();
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) path = profile.path;
    const std::filesystem::path real = std::filesystem::canonical(path, ignored);
    if (!real.empty() && !read.insert(real).second) continue;
    auto data = read_runtime_profile(path);
    if (!data) {
      info_.notes.push_back(fmt::format("the nodes of {} are not distinguished: {}", path_of(profile.session),
                                        data.error().sentence()));
      continue;
    }
    profile.data = std::move(*data);
    add_nodes(i, node_scopes);
  }
}

// Creates scopes for the nodes below each scope in which the session ran, and the times at which each thread
// changes its node.
void Recording::add_nodes(std::uint32_t index, NodeScopes& known) {
  const RuntimeProfile& profile = info_.profiles[index];
  const auto is_session = [&](ScopeId scope) {
    return scope == profile.session ||
           (scope.index < info_.scopes.size() && profile.session.index < info_.scopes.size() &&
            info_.scopes[scope.index].source == ScopeSource::session &&
            info_.scopes[scope.index].name == info_.scopes[profile.session.index].name);
  };
  const std::size_t recorded = info_.scopes.size();
  for (std::uint32_t run = 1; run < recorded; ++run) {
    if (info_.scopes[run].source != ScopeSource::run || !is_session(info_.scopes[run].parent)) continue;
    std::vector<ScopeId> nodes;
    for (const NodeInfo& node : profile.data.nodes) {
      const ScopeId next{static_cast<std::uint32_t>(info_.scopes.size())};
      const auto [scope, is_new] = known.emplace(std::pair(run, node.name), next);
      if (is_new) info_.scopes.push_back({ScopeId{run}, ScopeSource::node, node.name});
      nodes.push_back(scope->second);
    }
    nodes_.add_run_scope(index, ScopeId{run}, std::move(nodes));
  }
  for (std::uint32_t thread = 0; thread < info_.threads.size(); ++thread) {
    std::vector<NodeEdge> edges;
    for (const NodeRun& run : profile.data.runs) {
      if (run.tid != info_.threads[thread].tid) continue;
      edges.push_back({profile.start + run.start, index, run.node, true});
      edges.push_back({profile.start + run.start + run.duration, index, run.node, false});
    }
    if (!edges.empty()) nodes_.add(ThreadIndex{thread}, edges);
  }
}

// A runtime keeps its profile in memory until profiling ends. If the process was killed before, there is no
// profile to read.
void Recording::note_unwritten_profiles() {
  std::set<std::uint32_t> sessions;
  for (const auto& [number, session] : begun_profiles_)
    if (written_profiles_.count(number) == 0) sessions.insert(session.index);
  for (const std::uint32_t session : sessions)
    info_.notes.push_back(fmt::format(
        "the recording ended before the third run of {} was over, so its profile was not written: "
        "memory of its nodes is reported as memory of its runs",
        path_of(ScopeId{session})));
}

}  // namespace headroom::recording
