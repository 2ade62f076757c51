// The parts of findings, and cures that several findings propose. A command contains the machine's figures,
// or it reads them where it runs.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/units.h"
#include "report/finding/finding_views.h"
#include "types/finding.h"

namespace headroom::doctor {

// Sets the evidence's file. A finding without evidence gets `text`.
void complete_evidence(std::vector<Finding>& findings, const std::string& file, const std::string& text = "");

// Names and values by turns: figures("gpu", 0, "limit_bytes", limit). Leaves out absent values.
inline std::vector<Figure> figures() { return {}; }
template <class Value, class... More>
std::vector<Figure> figures(const char* name, const Value& value, const More&... more) {
  std::vector<Figure> all = figures(more...);
  if constexpr (requires { value.has_value(); }) {
    if (value) all.insert(all.begin(), figures(name, *value).front());
  } else if constexpr (std::is_same_v<Value, Bytes>) {
    all.insert(all.begin(), Figure{name, value.count});
  } else {
    all.insert(all.begin(), Figure{name, value});
  }
  return all;
}

void add_figures(Finding& finding, const auto&... names_and_values) {
  std::ranges::move(figures(names_and_values...), std::back_inserter(finding.figures));
}

inline Finding finding_of(std::string id, Severity severity, Confidence confidence, std::string title,
                          std::string cause, std::vector<Figure> figures = {}, std::vector<Cure> cures = {},
                          std::vector<Evidence> evidence = {}) {
  return {std::move(id),       severity,           std::move(title), std::move(cause), confidence, 1,
          std::move(evidence), std::move(figures), std::move(cures)};
}

// "headroom report FILE", and "headroom top".
Cure open_report(std::string what, std::string_view file, std::optional<Bytes> saves = std::nullopt);
Cure find_holders();

// Sets vm.min_free_kbytes to 1/30 of the memory. The kernel then keeps 1/20 free: its high watermark is
// min + 2 · min/4. Below 1/20, Headroom reports page-cache-starves-nvmap.
Cure keep_pages_free(const std::optional<Bytes>& ram);

// A swap file of half the memory, in whole GiB. If swap exists, /swapfile may be in use: the new file gets
// another name. `before_others`: the kernel uses it before other swap, such as zram.
enum class SwapFile { the_first, another, before_others };
Cure make_swap_file(std::string what, const std::optional<Bytes>& ram, SwapFile which = SwapFile::the_first,
                    std::optional<Bytes> saves = std::nullopt);

// A container's memory limit. `docker update` refuses a limit above the limit of memory and swap together,
// and a smaller sum would do harm.
struct ContainerLimit {
  std::int64_t mib = 0;                  // the new limit
  Bytes memory;                          // the present limit
  std::optional<Bytes> memory_and_swap;  // the present limit of both, if known
};
std::string docker_update(const ContainerLimit& limit, std::string_view container);

// The next power of two in MiB that leaves a quarter of `size` as reserve.
std::int64_t mebibytes_above(Bytes size);

// A command that can be run as printed: a cure of the worst finding, unless a trial showed that it does not
// help. Without such a cure, the report of the one recording, snapshot or run. Empty for a log.
std::string next_command(const report::DoctorReport& report);

}  // namespace headroom::doctor
