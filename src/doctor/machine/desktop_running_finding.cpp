#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/machine/machine_finding.h"
#include "doctor/new_finding.h"

namespace headroom::doctor {

std::optional<Finding> desktop_running(const MachineHistory& history) {
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
  Bytes sum;
  std::string names;
  for (const ProcessSample& process : history.last.processes) {
    if (!process.rss || std::find(kNames.begin(), kNames.end(), process.name) == kNames.end()) continue;
    sum += process.pss.value_or(*process.rss);
    if (names.find(process.name) == names.npos) names += (names.empty() ? "" : ", ") + process.name;
  }
  constexpr std::int64_t kSmallMachine = 33;  // GiB
  const bool is_small =
      history.last.ram_total && history.last.ram_total->count <= gibibytes(kSmallMachine).count;
  if (sum < mebibytes(32) || !is_small) return std::nullopt;
  Finding finding =
      new_finding("desktop-running", Severity::note,
                  fmt::format("A desktop runs and holds about {}: {}", format_bytes(sum), names),
                  "A machine that only infers needs none.");
  finding.figures = {{"desktop_bytes", sum.count}};
  finding.cures = {{"stop the desktop", "sudo systemctl isolate multi-user.target", sum},
                   {"boot without it from now on", "sudo systemctl set-default multi-user.target", {}}};
  return finding;
}

}  // namespace headroom::doctor
