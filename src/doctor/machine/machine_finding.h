// What a machine's samples tell: a file each, <name>_finding.cpp, and one list, machine_finding_list.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doctor/machine/machine_history.h"
#include "types/finding.h"

namespace headroom::doctor {

using MachineFinding = std::optional<Finding> (*)(const MachineHistory&);

std::optional<Finding> control_group_nearly_full(const MachineHistory& history);
std::optional<Finding> control_group_thrash(const MachineHistory& history);
std::optional<Finding> desktop_running(const MachineHistory& history);
std::optional<Finding> free_memory_in_pieces(const MachineHistory& history);
std::optional<Finding> gpu_memory_nearly_full(const MachineHistory& history);
std::optional<Finding> growth_levelled_off(const MachineHistory& history);
std::optional<Finding> kernel_oom_kill(const MachineHistory& history);
std::optional<Finding> little_memory_left(const MachineHistory& history);
std::optional<Finding> memory_of_no_process(const MachineHistory& history);
std::optional<Finding> memory_running_out(const MachineHistory& history);
std::optional<Finding> page_cache_starves_nvmap(const MachineHistory& history);
std::optional<Finding> swap_nearly_full(const MachineHistory& history);
std::optional<Finding> swap_thrash(const MachineHistory& history);
std::optional<Finding> throttled(const MachineHistory& history);
std::optional<Finding> zram_missized(const MachineHistory& history);

// In the order in which they are looked for.
const std::vector<MachineFinding>& machine_finding_list();

// A machine or a control group that thrashes for less is no finding, nor is it an alert.
inline constexpr Nanoseconds kLeastThrash{3'000'000'000};

// "636.0 MiB available, 12.000 s after the first of 40 samples over 1.5 min"; nothing of one sample alone.
std::vector<Evidence> moment(const MachineHistory& history, Nanoseconds at, const std::string& what);
// "40 samples of session 1 of 2".
std::vector<Evidence> of_session(const MachineHistory& history, const MachineSession& session);

// 0 of what is absent.
std::int64_t share_of(const std::optional<Bytes>& total, std::int64_t percent);

}  // namespace headroom::doctor
