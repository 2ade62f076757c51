#include "sources/host_info.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>

#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

// The value of a "KEY=value" or "key : value" line, without quotes.
std::string value_of(const std::string& text, std::string_view key, char separator) {
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t at = line.find(separator);
    if (at == std::string_view::npos || trim(line.substr(0, at)) != key) continue;
    std::string_view value = trim(line.substr(at + 1));
    const bool quoted = value.size() >= 2 && value.front() == value.back();
    if (quoted && (value.front() == '"' || value.front() == '\'')) value = value.substr(1, value.size() - 2);
    return std::string(value);
  }
  return {};
}

struct ArmCore {
  std::string_view implementer, part, name;
};

// Names of cores of the Jetson family, by the numbers in Arm's /proc/cpuinfo.
constexpr std::array<ArmCore, 8> kArmCores{{
    {"0x41", "0xc0f", "Cortex-A15"},     // TK1
    {"0x41", "0xd07", "Cortex-A57"},     // TX1, Nano, TX2
    {"0x4e", "0x003", "Denver 2"},       // TX2
    {"0x4e", "0x004", "Carmel"},         // Xavier
    {"0x41", "0xd42", "Cortex-A78AE"},   // Orin
    {"0x41", "0xd83", "Neoverse-V3AE"},  // Thor
    {"0x41", "0xd08", "Cortex-A72"},     // Raspberry Pi 4
    {"0x41", "0xd0b", "Cortex-A76"},     // Raspberry Pi 5
}};

// "Denver 2 + Cortex-A57": each kind of core once, in the order of the processors. Empty if none is known.
std::string arm_cores_of(const std::string& cpuinfo) {
  std::string names;
  std::string implementer;
  for (const std::string_view line : split(cpuinfo, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = trim(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1));
    if (key == "CPU implementer") implementer = value;
    if (key != "CPU part") continue;
    for (const ArmCore& core : kArmCores)
      if (core.implementer == implementer && core.part == value && names.find(core.name) == std::string::npos)
        names += (names.empty() ? "" : " + ") + std::string(core.name);
  }
  return names;
}

std::string cpu_model_of(const std::string& cpuinfo) {
  // Arm kernels before 5 also have a "model name", but it only repeats the instruction set.
  if (std::string cores = arm_cores_of(cpuinfo); !cores.empty()) return cores;
  if (std::string name = value_of(cpuinfo, "model name", ':'); !name.empty()) return name;
  return value_of(cpuinfo, "Hardware", ':');
}

int usable_cpus() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  return static_cast<int>(::sysconf(
      _SC_NPROCESSORS_ONLN));  // sched_getaffinity fails with more processors than a cpu_set_t holds
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
  host.os = value_of(file_text(root / "etc/os-release"), "PRETTY_NAME", '=');
  host.cpu_model = cpu_model_of(file_text(root / "proc/cpuinfo"));
  host.board = file_text(root / "proc/device-tree/model");
  host.cpus = usable_cpus();
  host.ram_total = kib_line(file_text(root / "proc/meminfo"), "MemTotal").value_or(Bytes{});
  host.headroom_version = HEADROOM_VERSION;
  host.cpu_governor = file_text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  SystemSample sample;
  if (const auto source = make_power_mode_source(root); source && source->read(sample))
    host.power_mode = sample.power_mode;
  return host;
}

}  // namespace headroom::sources
