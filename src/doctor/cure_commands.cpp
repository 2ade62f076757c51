#include "doctor/cure_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/text.h"

namespace headroom::doctor {
namespace {

constexpr std::int64_t kPartOfMemory = 30, kBytesOfKib = 1 << 10, kBytesOfMib = 1 << 20,
                       kBytesOfGib = 1 << 30;

}  // namespace

void complete_evidence(Finding& finding, const std::string& file, const std::string& text) {
  if (finding.evidence.empty()) finding.evidence.push_back({.text = text});
  for (Evidence& evidence : finding.evidence) evidence.file = file;
}

Cure open_report(std::string what, std::string_view file, std::optional<Bytes> saves) {
  return {std::move(what), fmt::format("headroom report {}", shell_word(file)), saves};
}

Cure find_holders() { return {"see which processes hold the memory", "headroom top"}; }

Cure keep_pages_free(const std::optional<Bytes>& ram) {
  const std::string size =
      ram ? fmt::format("{}", ram->count / kPartOfMemory / kBytesOfKib)
          : fmt::format("$(awk '/MemTotal/ {{print int($2/{})}}' /proc/meminfo)", kPartOfMemory);
  return {"keep more pages free: 1/30 of the memory", "sudo sysctl vm.min_free_kbytes=" + size};
}

Cure half_of_batch(const std::optional<Bytes>& requested) {
  Cure cure{"halve the batch size, or use a smaller input", "batch_size = batch_size // 2", {}};
  if (requested && requested->count > 1) cure.saves = Bytes{requested->count / 2};
  return cure;
}

std::string docker_update(const ContainerLimit& limit, std::string_view container) {
  // Docker's default is as much swap as memory.
  std::int64_t both = 2 * limit.mib;
  if (limit.memory_and_swap)
    both = limit.mib + std::max<std::int64_t>(0, (*limit.memory_and_swap - limit.memory).count / kBytesOfMib);
  return fmt::format("docker update --memory={}m --memory-swap={}m {}", limit.mib, both, container);
}

Cure make_swap_file(std::string what, const std::optional<Bytes>& ram, SwapFile which,
                    std::optional<Bytes> saves) {
  // Round up: MemTotal is a little less than the built-in memory.
  const std::string size =
      ram ? fmt::format("{}G", std::max<std::int64_t>(1, (ram->count / 2 + kBytesOfGib - 1) / kBytesOfGib))
          : "$(awk '/MemTotal/ {print int($2/2097152)+1}' /proc/meminfo)G";
  return {
      std::move(what),
      fmt::format("sudo fallocate -l {0} {1} && sudo chmod 600 {1} && sudo mkswap {1} && sudo swapon {2}{1}",
                  size, which == SwapFile::the_first ? "/swapfile" : "/swapfile.headroom",
                  which == SwapFile::before_others ? "-p 100 " : ""),
      saves};
}

std::int64_t mebibytes_above(Bytes size) {
  const std::int64_t wanted = std::max<std::int64_t>(1, (size.count + size.count / 4) / kBytesOfMib);
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(wanted)));
}

}  // namespace headroom::doctor
