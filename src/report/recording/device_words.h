// Words and names that the views of a recording's GPUs share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/recording/recording_views.h"

namespace headroom::report {

// "device memory (cuMemAlloc)".
std::string_view words_for(DeviceMemoryKind kind);

// Null if the recording does not describe the device.
const recording::Device* find_device(const RecordingReport& report, std::uint32_t ordinal);

// "GPU 0, NVIDIA H200".
std::string name_of_device(const RecordingReport& report, std::uint32_t ordinal);

// The command of another process that held memory when a limit refused a request. For a process outside of
// the tree: its name in the kernel. Empty if unknown.
std::string command_of(const RecordingReport& report, const attribution::DeviceProcess& process);
// "process 4711 (python3)", "process 12 of another container".
std::string words_for_process(const RecordingReport& report, const attribution::DeviceProcess& process);

// Words for the holders of DeviceRest::unknown.
std::string_view words_for_unknown(const attribution::DeviceRest& rest);

// "--gpu-mem-limit 0=4GiB,1=8GiB ", for the devices that were used; empty without a limit.
std::string flag_of_device_limits(const recording::RecordingInfo& info);

// By the index of a share. The name is "(outside of any layer)" if the path is empty.
std::string path_of_layer(const RecordingReport& report, std::uint32_t index);
std::string name_of_layer(const RecordingReport& report, std::uint32_t index);

// False if all memory was allocated outside of any layer.
bool tells_layers(const std::vector<attribution::DeviceShare>& layers);

}  // namespace headroom::report
