// Test videos, written by the real ffmpeg, and what is known of a program that this process has started.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace headroom::media {

// Runs the command to its end; the test fails if it fails.
void run_program(const std::vector<std::string>& command);

// A video of `frames` different frames, in the usual codec of the extension.
void write_video(const std::filesystem::path& path, int frames, int width, int height);

// The running children of a process.
std::vector<pid_t> children_of(pid_t process);
// The state of a process in /proc: 'R' runs, 'S' waits, 'T' is stopped.
char state_of(pid_t process);

}  // namespace headroom::media
