// Parses lines of /proc/meminfo, from this machine or from a dump of another one.
#pragma once

#include <optional>
#include <string_view>

#include "types/sample.h"

namespace headroom::sources {

// The figures that Headroom uses, unchanged; a kernel provides only some of them.
struct Meminfo {
  std::optional<Bytes> total, free, available, buffers, cached, swap_cached, swap_total, swap_free, dirty;
  std::optional<Bytes> anonymous, mapped, shared, slab_reclaimable, slab_unreclaimable, kernel_stacks,
      page_tables;
  std::optional<Bytes> cma_total, cma_free, nvmap_used, nvmap_free, huge_page_size;
  std::optional<Bytes> huge_pages, huge_pages_free;  // counts of pages, not bytes
  friend bool operator==(const Meminfo&, const Meminfo&) = default;
};

// Returns the key of a line "Key:   123 kB" (the unit is optional), or nothing if the line has another
// form. Stores the figure if Headroom uses it.
std::optional<std::string_view> read_meminfo_line(std::string_view line, Meminfo& figures);

// Parses all lines of a text.
Meminfo read_meminfo(std::string_view text);

// Fills the sample's fields. A field that is computed from several figures is absent if one of them is.
void fill(SystemSample& sample, const Meminfo& figures);

}  // namespace headroom::sources
