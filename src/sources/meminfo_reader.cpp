#include "sources/meminfo_reader.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

struct Key {
  std::string_view name;
  std::optional<Bytes> Meminfo::*figure;
};

constexpr std::array<Key, 23> kKeys{{{"MemTotal", &Meminfo::total},
                                     {"MemFree", &Meminfo::free},
                                     {"MemAvailable", &Meminfo::available},
                                     {"Buffers", &Meminfo::buffers},
                                     {"Cached", &Meminfo::cached},
                                     {"SwapCached", &Meminfo::swap_cached},
                                     {"SwapTotal", &Meminfo::swap_total},
                                     {"SwapFree", &Meminfo::swap_free},
                                     {"Dirty", &Meminfo::dirty},
                                     {"AnonPages", &Meminfo::anonymous},
                                     {"Mapped", &Meminfo::mapped},
                                     {"Shmem", &Meminfo::shared},
                                     {"SReclaimable", &Meminfo::slab_reclaimable},
                                     {"SUnreclaim", &Meminfo::slab_unreclaimable},
                                     {"KernelStack", &Meminfo::kernel_stacks},
                                     {"PageTables", &Meminfo::page_tables},
                                     {"CmaTotal", &Meminfo::cma_total},
                                     {"CmaFree", &Meminfo::cma_free},
                                     {"NvMapMemUsed", &Meminfo::nvmap_used},
                                     {"NvMapMemFree", &Meminfo::nvmap_free},
                                     {"Hugepagesize", &Meminfo::huge_page_size},
                                     {"HugePages_Total", &Meminfo::huge_pages},
                                     {"HugePages_Free", &Meminfo::huge_pages_free}}};

std::optional<Bytes> product(const std::optional<Bytes>& pages, const std::optional<Bytes>& size) {
  if (!pages || !size) return std::nullopt;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(pages->count, size->count, &bytes)) return std::nullopt;
  return Bytes{bytes};
}

std::optional<Bytes> rest_of(const std::optional<Bytes>& whole, const std::optional<Bytes>& part) {
  return whole && part ? std::optional<Bytes>(*whole - *part) : std::nullopt;
}

}  // namespace

std::optional<std::string_view> read_meminfo_line(std::string_view line, Meminfo& figures) {
  constexpr std::int64_t kMost = std::int64_t{1} << 46;  // KiB: 64 PiB, so that sums of bytes fit
  const std::size_t colon = line.find(':');
  if (colon == 0 || colon == line.npos) return std::nullopt;
  const std::string_view name = line.substr(0, colon);
  std::string_view rest = line.substr(colon + 1);
  const auto value = parse_number<std::int64_t>(take_word(rest));
  const std::string_view unit = take_word(rest);
  if (!value || *value < 0 || *value > kMost || (!unit.empty() && unit != "kB") || !take_word(rest).empty())
    return std::nullopt;
  const auto* const key =
      std::find_if(kKeys.begin(), kKeys.end(), [&](const Key& one) { return one.name == name; });
  if (key != kKeys.end()) figures.*(key->figure) = unit.empty() ? Bytes{*value} : kibibytes(*value);
  return name;
}

Meminfo read_meminfo(std::string_view text) {
  Meminfo figures;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    read_meminfo_line(text.substr(0, end), figures);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return figures;
}

void fill(SystemSample& sample, const Meminfo& figures) {
  sample.ram_total = figures.total;
  sample.ram_free = figures.free;
  sample.ram_available = figures.available;
  sample.ram_buffers = figures.buffers;
  sample.ram_cached = figures.cached;
  sample.ram_shared = figures.shared;
  sample.ram_anonymous = figures.anonymous;
  sample.ram_mapped = figures.mapped;
  sample.ram_dirty = figures.dirty;
  if (figures.buffers && figures.cached)
    sample.ram_used = rest_of(rest_of(figures.total, figures.free), *figures.buffers + *figures.cached);
  sample.slab_reclaimable = figures.slab_reclaimable;
  sample.slab_unreclaimable = figures.slab_unreclaimable;
  sample.kernel_stacks = figures.kernel_stacks;
  sample.page_tables = figures.page_tables;
  sample.cma_total = figures.cma_total;
  sample.cma_free = figures.cma_free;
  sample.huge_pages_total = product(figures.huge_pages, figures.huge_page_size);
  sample.huge_pages_free = product(figures.huge_pages_free, figures.huge_page_size);
  sample.swap_total = figures.swap_total;
  sample.swap_used = rest_of(figures.swap_total, figures.swap_free);
  sample.swap_cached = figures.swap_cached;
  sample.nvmap_used = figures.nvmap_used;
  sample.nvmap_free = figures.nvmap_free;
}

}  // namespace headroom::sources
