// What TensorRT's error messages say, without the places in TensorRT's own source.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace headroom::tensorrt {

// The cause first, on one line: "IBuilder::buildSerializedNetwork: Error Code 10: Internal Error (Could not
// find any implementation for node Conv_1. In computeCosts at optimizer.cpp:4119)" becomes "Could not find
// any implementation for node Conv_1 (error code 10)".
std::string cause_of(std::string_view message);

// What to do if TensorRT reports that it cannot load one of its libraries. `folder` is the one of libnvinfer.
// Empty for other errors.
std::string cure_of(std::string_view cause, const std::filesystem::path& folder);

}  // namespace headroom::tensorrt
