#include "sources/host_info.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <map>

#include "base/files.h"
#include "base/text.h"

namespace headroom::sources {
namespace {

// A value of "KEY=value" or "key : value" lines, without quotes.
std::string value_of(const std::string& text, std::string_view key, char separator) {
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t at = line.find(separator);
    if (at == std::string_view::npos || trim(line.substr(0, at)) != key) continue;
    std::string_view value = trim(line.substr(at + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    return std::string(value);
  }
  return {};
}

// Arm's /proc/cpuinfo gives numbers; these are the cores of the Jetson family.
std::string arm_core_name(const std::string& implementer, const std::string& part) {
  static const std::map<std::string, std::string> kParts{
      {"0x41/0xd07", "Cortex-A57"},    {"0x41/0xd08", "Cortex-A72"}, {"0x41/0xd42", "Cortex-A78AE"},
      {"0x41/0xd84", "Neoverse-V3AE"}, {"0x4e/0x003", "Denver 2"},   {"0x4e/0x004", "Carmel"},
      {"0x41/0xd0f", "Cortex-A15"},
  };
  const auto found = kParts.find(implementer + "/" + part);
  return found != kParts.end() ? found->second : std::string();
}

std::string cpu_model_of(const std::string& cpuinfo) {
  for (const char* key : {"model name", "Model", "Hardware"})
    if (const std::string name = value_of(cpuinfo, key, ':'); !name.empty()) return name;
  return arm_core_name(value_of(cpuinfo, "CPU implementer", ':'), value_of(cpuinfo, "CPU part", ':'));
}

std::string text_of(const std::filesystem::path& path) {
  auto text = read_small_file(path);
  if (!text) return {};
  while (!text->empty() && (text->back() == '\0' || text->back() == '\n')) text->pop_back();
  return std::move(*text);
}

}  // namespace

HostInfo read_host_info(const std::filesystem::path& root) {
  HostInfo host;
  utsname names{};
  if (::uname(&names) == 0) {
    host.hostname = names.nodename;
    host.machine = names.machine;
    host.kernel = names.release;
  }
  host.os = value_of(text_of(root / "etc/os-release"), "PRETTY_NAME", '=');
  host.cpu_model = cpu_model_of(text_of(root / "proc/cpuinfo"));
  host.board = text_of(root / "proc/device-tree/model");
  cpu_set_t allowed;
  host.cpus = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  const std::string total = value_of(text_of(root / "proc/meminfo"), "MemTotal", ':');
  if (const auto words = split_words(total); !words.empty())
    host.ram_total = kibibytes(parse_number<std::int64_t>(words[0]).value_or(0));
  host.headroom_version = HEADROOM_VERSION;
  return host;
}

}  // namespace headroom::sources
