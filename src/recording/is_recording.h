// Recognizes a recording.
#pragma once

#include <filesystem>

namespace headroom::recording {

// Whether the file begins like a recording. Never opens a pipe, which would block.
bool is_recording(const std::filesystem::path& file);

}  // namespace headroom::recording
