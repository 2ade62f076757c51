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
  Cure cure{"keep more pages free: 1/30 of the memory", "", {}};
  cure.command = ram ? fmt::format("sudo sysctl vm.min_free_kbytes={}", ram->count / kPartOfMemory / kKib)
                     : fmt::format(
                           "sudo sysctl vm.min_free_kbytes=$(awk '/MemTotal/ {{print int($2/{})}}' "
                           "/proc/meminfo)",
                           kPartOfMemory);
  return cure;
}

Cure half_of_batch(const std::optional<Bytes>& requested) {
  Cure cure{"halve the batch size, or use a smaller input", "batch_size = batch_size // 2", {}};
  if (requested && requested->count > 1) cure.saves = Bytes{requested->count / 2};
  return cure;
}

std::string docker_update(const ContainerLimit& limit, std::string_view container) {
  // Docker gives as much swap as memory unless it is told otherwise.
  std::int64_t both = 2 * limit.mib;
  if (limit.memory_and_swap)
    both = limit.mib + std::max<std::int64_t>(0, (*limit.memory_and_swap - limit.memory).count / kMib);
  return fmt::format("docker update --memory={}m --memory-swap={}m {}", limit.mib, both, container);
}

Cure make_swap_file(std::string what, const std::optional<Bytes>& ram, SwapFile which,
                    std::optional<Bytes> saves) {
  // Up to the next GiB, as MemTotal is a little less than what is built in.
  const std::string size =
      ram ? fmt::format("{}G", std::max<std::int64_t>(1, (ram->count / 2 + kGib - 1) / kGib))
          : "$(awk '/MemTotal/ {print int($2/2097152)+1}' /proc/meminfo)G";
  return {
      std::move(what),
      fmt::format("sudo fallocate -l {0} {1} && sudo chmod 600 {1} && sudo mkswap {1} && sudo swapon {2}{1}",
                  size, which == SwapFile::the_first ? "/swapfile" : "/swapfile.headroom",
                  which == SwapFile::before_others ? "-p 100 " : ""),
      saves};
}

std::int64_t mebibytes_above(Bytes size) {
  const std::int64_t wanted = std::max<std::int64_t>(1, (size.count + size.count / 4) / kMib);
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(wanted)));
}

}  // namespace headroom::doctor
