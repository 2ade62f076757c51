// The lines of /proc/meminfo, of the machine itself or of a dump of another.
#pragma once

#include <optional>
#include <string_view>

#include "model/sample.h"

namespace headroom::sources {

// The figures that are used, as they stand there; a kernel has some of them.
struct Meminfo {
  std::optional<Bytes> total, free, available, buffers, cached, swap_cached, swap_total, swap_free, dirty;
  std::optional<Bytes> anonymous, mapped, shared, slab_reclaimable, slab_unreclaimable, kernel_stacks,
      page_tables;
  std::optional<Bytes> cma_total, cma_free, nvmap_used, nvmap_free, huge_page_size;
  std::optional<Bytes> huge_pages, huge_pages_free;  // counts of pages, not bytes
  friend bool operator==(const Meminfo&, const Meminfo&) = default;
};

// The key of a line "Key:   123 kB" (the unit is not always there), or nothing if the line is none. Keeps the
// figure if it is one that is used.
std::optional<std::string_view> read_meminfo_line(std::string_view line, Meminfo& figures);

// All lines of a text.
Meminfo read_meminfo(std::string_view text);

// Fills the sample's part; what is made of several figures is absent if one of them is.
void fill(SystemSample& sample, const Meminfo& figures);

}  // namespace headroom::sources
