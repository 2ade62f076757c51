// The kernel's line about a kill, which log shippers may break in two: "… Killed process 12345 (python3)
// total-vm:8123456kB, anon-rss:4123456kB," and "file-rss:1234kB, shmem-rss:0kB, …".
#pragma once

#include <optional>
#include <string_view>

namespace headroom::doctor {

// Whether the next line may have the rest. Kernels before 5.3 end the line where others are broken.
bool may_be_broken_kill(std::string_view line);

// The rest in this line, without a logger's prefix; nothing in other lines.
std::optional<std::string_view> rest_of_kill(std::string_view line);

}  // namespace headroom::doctor
