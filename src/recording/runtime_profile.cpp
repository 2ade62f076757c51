#include "recording/runtime_profile.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <unordered_map>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

namespace headroom::recording {
namespace {

constexpr std::string_view kNodeSuffix = "_kernel_time";
// A profile of ten runs of a thousand nodes has 10 MB. A profile that was never ended contains a million
// events.
constexpr Bytes kLargestProfile = gibibytes(1);

// The path comes from a recording, which may be hostile: opening a FIFO or a device could block for ever.
// Reads only as much as the file has at the start, so reading ends even if the file grows.
Result<std::string> read_regular_file(const std::filesystem::path& path) {
  const std::string what = fmt::format("cannot read {}", path.string());
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return input_error(what, errno_text(errno));
  if (!S_ISREG(info.st_mode)) return input_error(what, "it is not a file");
  if (info.st_size > kLargestProfile.count)
    return input_error(what, fmt::format("it is larger than {}", format_bytes(kLargestProfile)));
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return input_error(what, errno_text(errno));
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  text.resize(filled);
  return text;
}

// Sizes are strings in the runtime's JSON: "mem_bytes_in_use": "33554432".
std::optional<Bytes> size_of(const Json& arguments, const char* key) {
  const auto value = parse_number<std::int64_t>(get_text(arguments, key));
  return value && *value >= 0 ? std::optional<Bytes>(Bytes{*value}) : std::nullopt;
}

}  // namespace

Result<RuntimeProfileData> read_runtime_profile(const std::filesystem::path& path) {
  auto text = read_regular_file(path);
  if (!text) return forward_error(text);
  auto events = parse_json(*text, path.string());
  if (!events) return forward_error(events);
  if (!events->is_array())
    return input_error(fmt::format("cannot use {}", path.string()), "it is not a list of trace events",
                       "pass a profile that ONNX Runtime wrote");
  RuntimeProfileData profile;
  std::unordered_map<std::string, std::uint32_t> known;
  for (const Json& event : *events) {
    std::string name = get_text(event, "name");
    if (get_text(event, "cat") != "Node" || !name.ends_with(kNodeSuffix)) continue;
    name.resize(name.size() - kNodeSuffix.size());
    const Json& arguments = get_member(event, "args");
    const auto [place, is_new] = known.emplace(name, static_cast<std::uint32_t>(profile.nodes.size()));
    if (is_new)
      profile.nodes.push_back({name, get_text(arguments, "op_name"), get_text(arguments, "provider"),
                               size_of(arguments, "output_size"), size_of(arguments, "activation_size"),
                               size_of(arguments, "parameter_size")});
    constexpr std::int64_t kMicrosecond = 1000;
    profile.runs.push_back(
        {place->second, get_integer(event, "tid").value_or(0),
         Nanoseconds{get_integer(event, "ts").value_or(0) * kMicrosecond},
         Nanoseconds{std::max<std::int64_t>(0, get_integer(event, "dur").value_or(0)) * kMicrosecond},
         size_of(arguments, "mem_bytes_in_use"), size_of(arguments, "mem_bytes_requested_in_use"),
         size_of(arguments, "mem_arena_held")});
  }
  std::stable_sort(profile.runs.begin(), profile.runs.end(),
                   [](const NodeRun& a, const NodeRun& b) { return a.start < b.start; });
  return profile;
}

}  // namespace headroom::recording
