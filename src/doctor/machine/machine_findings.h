// Findings in a machine's samples: of now (--live), of a log of headroom watch, or of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "doctor/machine/machine_history.h"
#include "types/finding.h"

namespace headroom::doctor {

// `name`: of the log, or "this machine". Unsorted.
std::vector<Finding> machine_findings(const MachineHistory& history, const std::string& name);

// For samples that a run took of its machine: without findings that a run causes by loading and freeing
// models, and without those that the run's own report has.
std::vector<Finding> findings_during_run(const MachineHistory& history, const std::string& name);

// To add a finding: write its function, declare it, and add it to the list below.
using MachineFinding = std::optional<Finding>(const MachineHistory& history);

// memory.cpp
MachineFinding kernel_oom_kill, control_group_thrash, control_group_nearly_full, swap_thrash,
    swap_nearly_full, zram_missized, little_memory_left, free_memory_in_pieces, memory_of_no_process,
    desktop_running;
// machine_findings.cpp
MachineFinding memory_running_out, growth_levelled_off, page_cache_starves_nvmap, gpu_memory_nearly_full,
    throttled;

// In the order of the report among findings of equal severity.
inline constexpr MachineFinding* kMachineFindings[] = {
    kernel_oom_kill,           control_group_thrash, swap_thrash,
    memory_running_out,        growth_levelled_off,  page_cache_starves_nvmap,
    free_memory_in_pieces,     little_memory_left,   swap_nearly_full,
    control_group_nearly_full, zram_missized,        memory_of_no_process,
    gpu_memory_nearly_full,    desktop_running,      throttled,
};

// Shorter thrashing of a machine or a control group is neither a finding nor an alert.
inline constexpr Nanoseconds kLeastThrash{3'000'000'000};

// "636.0 MiB available, 12.000 s after the first of 40 samples over 1.5 min". Empty for a single sample.
std::vector<Evidence> moment(const MachineHistory& history, Nanoseconds at, const std::string& what);
// "40 samples of session 1 of 2".
std::vector<Evidence> of_session(const MachineHistory& history, const MachineSession& session);

// The finding of the newest session that has one. An earlier session is its evidence.
std::optional<Finding> in_newest_session(
    const MachineHistory& history,
    const std::function<std::optional<Finding>(const MachineSession&, bool is_last)>& look_for);

// 0 if `total` is absent.
std::int64_t share_of(const std::optional<Bytes>& total, std::int64_t percent);

}  // namespace headroom::doctor
