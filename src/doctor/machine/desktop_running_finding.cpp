#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

DesktopProcesses desktop_in(const SystemSample& sample) {
  constexpr std::array kNames{"gnome-shell",
                              "Xorg",
                              "Xwayland",
                              "gdm3",
                              "gdm-x-session",
                              "lightdm",
                              "sddm",
                              "kwin_x11",
                              "kwin_wayland",
                              "plasmashell",
                              "xfce4-session",
                              "xfdesktop",
                              "xfwm4",
                              "lxpanel",
                              "lxsession",
                              "nautilus-deskto",
                              "gnome-software",
                              "tracker-miner-f",
                              "update-notifier",
                              "gsd-xsettings",
                              "unity-settings-",
                              "compiz"};
  DesktopProcesses desktop;
  for (const ProcessSample& process : sample.processes) {
    if (!process.rss || std::find(kNames.begin(), kNames.end(), process.name) == kNames.end()) continue;
    desktop.held += process.pss.value_or(*process.rss);
    if (desktop.names.find(process.name) == std::string::npos)
      desktop.names += (desktop.names.empty() ? "" : ", ") + process.name;
  }
  return desktop;
}

std::optional<Finding> desktop_running(const MachineHistory& history) {
  if (!history.largest_desktop) return std::nullopt;
  const SystemSample& sample = history.largest_desktop->sample;
  const auto [sum, names] = desktop_in(sample);
  constexpr std::int64_t kSmallMachine = 33;  // GiB
  const bool is_small = sample.ram_total && sample.ram_total->count <= gibibytes(kSmallMachine).count;
  if (sum < mebibytes(32) || !is_small) return std::nullopt;
  Finding finding =
      new_finding("desktop-running", Severity::note,
                  fmt::format("A desktop runs and holds about {}: {}", format_bytes(sum), names),
                  "A machine that only runs inference needs no desktop.");
  finding.figures = {{"desktop_bytes", sum.count}};
  finding.cures = {{"stop the desktop", "sudo systemctl isolate multi-user.target", sum},
                   {"boot without it from now on", "sudo systemctl set-default multi-user.target", {}}};
  return finding;
}

}  // namespace headroom::doctor
