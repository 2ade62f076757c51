#include "doctor/cure_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace headroom::doctor {
namespace {

constexpr std::int64_t kPartOfMemory = 30, kKib = 1 << 10, kMib = 1 << 20, kGib = 1 << 30;

}  // namespace

Cure keep_pages_free(const std::optional<Bytes>& ram) {
  Cure cure{"keep more pages free: a thirtieth of the memory", "", {}};
  cure.command = ram ? fmt::format("sudo sysctl vm.min_free_kbytes={}", ram->count / kPartOfMemory / kKib)
                     : fmt::format(
                           "sudo sysctl vm.min_free_kbytes=$(awk '/MemTotal/ {{print int($2/{})}}' "
                           "/proc/meminfo)",
                           kPartOfMemory);
  return cure;
}

Cure make_swap_file(std::string what, const std::optional<Bytes>& ram, bool first,
                    std::optional<Bytes> saves) {
  // Up to the next GiB, as MemTotal is a little less than what is built in.
  const std::string size =
      ram ? fmt::format("{}G", std::max<std::int64_t>(1, (ram->count / 2 + kGib - 1) / kGib))
          : "$(awk '/MemTotal/ {print int($2/2097152)+1}' /proc/meminfo)G";
  return {std::move(what),
          fmt::format("sudo fallocate -l {} /swapfile && sudo chmod 600 /swapfile && sudo mkswap /swapfile "
                      "&& sudo swapon {}/swapfile",
                      size, first ? "-p 100 " : ""),
          saves};
}

std::int64_t mebibytes_above(Bytes size) {
  const std::int64_t wanted = std::max<std::int64_t>(1, (size.count + size.count / 4) / kMib);
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(wanted)));
}

}  // namespace headroom::doctor
