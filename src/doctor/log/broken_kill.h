// The kernel's line of a kill, which shippers of logs break in two: "… Killed process 12345 (python3)
// total-vm:8123456kB, anon-rss:4123456kB," and "file-rss:1234kB, shmem-rss:0kB, …".
#pragma once

#include <optional>
#include <string_view>

namespace headroom::doctor {

// Whether the rest of such a line may come in the next one. Kernels before 5.3 end it where others are
// broken.
bool may_be_broken_kill(std::string_view line);

// What a line has for the one before it, without what loggers put there again; nothing of other lines.
std::optional<std::string_view> rest_of_kill(std::string_view line);

}  // namespace headroom::doctor
