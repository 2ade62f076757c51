// Memory of the whole machine: /proc/meminfo, vmstat, memory pressure, free blocks, and compressed swap.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

struct Key {
  std::string_view name;
  std::optional<Bytes> SystemSample::*figure = nullptr;  // null: other figures are computed from it
};

constexpr std::array<Key, Meminfo::kKeys> kMeminfoKeys{{{"MemTotal", &SystemSample::ram_total},
                                                        {"MemFree", &SystemSample::ram_free},
                                                        {"MemAvailable", &SystemSample::ram_available},
                                                        {"Buffers", &SystemSample::ram_buffers},
                                                        {"Cached", &SystemSample::ram_cached},
                                                        {"SwapCached", &SystemSample::swap_cached},
                                                        {"SwapTotal", &SystemSample::swap_total},
                                                        {"SwapFree"},
                                                        {"Dirty", &SystemSample::ram_dirty},
                                                        {"AnonPages", &SystemSample::ram_anonymous},
                                                        {"Mapped", &SystemSample::ram_mapped},
                                                        {"Shmem", &SystemSample::ram_shared},
                                                        {"SReclaimable", &SystemSample::slab_reclaimable},
                                                        {"SUnreclaim", &SystemSample::slab_unreclaimable},
                                                        {"KernelStack", &SystemSample::kernel_stacks},
                                                        {"PageTables", &SystemSample::page_tables},
                                                        {"CmaTotal", &SystemSample::cma_total},
                                                        {"CmaFree", &SystemSample::cma_free},
                                                        {"NvMapMemUsed", &SystemSample::nvmap_used},
                                                        {"NvMapMemFree", &SystemSample::nvmap_free},
                                                        {"Hugepagesize"},
                                                        {"HugePages_Total"},  // counts of pages, not bytes
                                                        {"HugePages_Free"}}};

std::size_t place_of(std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(kMeminfoKeys, name, &Key::name) - kMeminfoKeys.begin());
}

std::optional<Bytes> product(const std::optional<Bytes>& pages, const std::optional<Bytes>& size) {
  if (!pages || !size) return std::nullopt;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(pages->count, size->count, &bytes)) return std::nullopt;
  return Bytes{bytes};
}

std::optional<Bytes> rest_of(const std::optional<Bytes>& whole, const std::optional<Bytes>& part) {
  return whole && part ? std::optional<Bytes>(*whole - *part) : std::nullopt;
}

struct Counter {
  std::string_view name;
  std::optional<std::int64_t> SystemSample::*figure;
};

// Several counters can form one figure. Linux before 5.9 had one counter of refaults, before 4.8 one of
// stalls (Jetson Nano and TX2 have 4.9).
constexpr std::array<Counter, 14> kCounters{{{"pswpin", &SystemSample::pages_swapped_in},
                                             {"pswpout", &SystemSample::pages_swapped_out},
                                             {"oom_kill", &SystemSample::oom_kills},
                                             {"workingset_refault", &SystemSample::refaults},
                                             {"workingset_refault_anon", &SystemSample::refaults},
                                             {"workingset_refault_file", &SystemSample::refaults},
                                             {"allocstall", &SystemSample::allocation_stalls},
                                             {"allocstall_dma", &SystemSample::allocation_stalls},
                                             {"allocstall_dma32", &SystemSample::allocation_stalls},
                                             {"allocstall_normal", &SystemSample::allocation_stalls},
                                             {"allocstall_movable", &SystemSample::allocation_stalls},
                                             {"compact_stall", &SystemSample::compaction_stalls},
                                             {"compact_fail", &SystemSample::compaction_failures},
                                             {"pgmajfault", &SystemSample::major_faults}}};

// Counters of /proc/vmstat, which the kernel counts since boot. A sample contains the increase since the
// previous sample, so the first sample has none.
class Vmstat {
 public:
  bool operator()(std::string_view text, SystemSample& sample) {
    const auto before = now_;
    now_ = {};
    bool found = false;
    while (!text.empty()) {
      std::string_view line = take_line(text);
      const std::string_view name = take_word(line);
      for (std::size_t i = 0; i < kCounters.size(); ++i)
        if (kCounters[i].name == name) {
          now_[i] = parse_number<std::int64_t>(trim(line));
          found = true;
        }
    }
    for (std::size_t i = 0; i < kCounters.size(); ++i)
      if (now_[i] && before[i]) {
        auto& figure = sample.*(kCounters[i].figure);
        figure = figure.value_or(0) + (*now_[i] - *before[i]);
      }
    return found;
  }

 private:
  std::array<std::optional<std::int64_t>, kCounters.size()> now_;
};

struct Pressure {
  std::optional<double> average;        // percent, over the last ten seconds
  std::optional<Nanoseconds> in_total;  // stall time since boot
};

// "some avg10=1.23 avg60=… avg300=… total=12345", the total in microseconds.
Pressure pressure_of(std::string_view text, std::string_view line_name) {
  Pressure pressure;
  auto rest = rest_of_line(text, line_name);
  if (!rest) return pressure;
  for (std::string_view word = take_word(*rest); !word.empty(); word = take_word(*rest)) {
    if (word.starts_with("avg10=")) pressure.average = parse_number<double>(word.substr(6));
    if (!word.starts_with("total=")) continue;
    const auto microseconds = parse_number<std::int64_t>(word.substr(6));
    if (microseconds && *microseconds < std::int64_t{1} << 50)
      pressure.in_total = Nanoseconds{*microseconds * 1000};
    break;  // the last word of the line
  }
  return pressure;
}

std::optional<Nanoseconds> between(const Pressure& before, const Pressure& now) {
  if (!before.in_total || !now.in_total) return std::nullopt;
  return *now.in_total - *before.in_total;
}

// The page size in bytes. For a file tree of another machine it is unknown (4, 16 or 64 KiB on arm64). Then
// take the size for which the sum of the free blocks is nearest to MemFree.
std::int64_t page_size(bool is_this_machine, const SystemSample& sample, double pages) {
  if (is_this_machine || !sample.ram_free || pages <= 0) return ::sysconf(_SC_PAGESIZE);
  const double bytes = static_cast<double>(sample.ram_free->count) / pages;
  if (bytes > 32768) return 65536;
  return bytes > 8192 ? 16384 : 4096;
}

// Parses "Node 0, zone   Normal   4   2 …": the numbers of free blocks of one page, two pages, four pages and
// so on. Reports the largest block of all zones and the number of blocks of that size.
bool read_buddyinfo(std::string_view text, bool is_this_machine, SystemSample& sample) {
  int largest = -1;
  std::int64_t blocks = 0;
  double pages = 0;
  bool has_zone = false;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (take_word(line) != "Node") continue;
    take_word(line);  // "0,"
    take_word(line);  // "zone"
    take_word(line);  // "Normal"
    constexpr int kMostOrders = 40;
    for (int order = 0; order < kMostOrders; ++order) {
      const auto number = parse_number<std::int64_t>(take_word(line));
      if (!number) break;
      has_zone = true;
      // A file under --sysroot may contain any number. Clamping to 4 EiB of pages prevents an overflow of
      // both figures.
      const std::int64_t count = std::clamp<std::int64_t>(*number, 0, std::int64_t{1} << 40);
      pages += std::ldexp(static_cast<double>(count), order);
      if (count == 0 || order < largest) continue;
      blocks = order > largest ? count : blocks + count;
      largest = order;
    }
  }
  if (!has_zone) return false;
  sample.largest_free_block =
      largest < 0 ? Bytes{} : Bytes{page_size(is_this_machine, sample, pages) << largest};
  sample.largest_free_blocks = blocks;
  return true;
}

// "orig_data_size compr_data_size mem_used_total mem_limit …", in bytes.
bool read_zram(std::vector<RereadFile>& devices, SystemSample& sample) {
  bool found = false;
  for (RereadFile& device : devices) {
    std::string_view text = device.read();
    const auto original = parse_number<std::int64_t>(take_word(text));
    const auto compressed = parse_number<std::int64_t>(take_word(text));
    const auto used = parse_number<std::int64_t>(take_word(text));
    if (!original || !compressed || !used) continue;
    const auto add = [](std::optional<Bytes>& sum, std::int64_t bytes) {
      sum = sum.value_or(Bytes{}) + Bytes{bytes};
    };
    add(sample.zram_original, *original);
    add(sample.zram_compressed, *compressed);
    add(sample.zram_used, *used);
    found = true;
  }
  return found;
}

}  // namespace

std::optional<std::string_view> Meminfo::read_line(std::string_view line) {
  constexpr std::int64_t kMost = std::int64_t{1} << 46;  // KiB: 64 PiB, so that sums of bytes fit
  const std::size_t colon = line.find(':');
  if (colon == 0 || colon == line.npos) return std::nullopt;
  const std::string_view name = line.substr(0, colon);
  std::string_view rest = line.substr(colon + 1);
  const auto value = parse_number<std::int64_t>(take_word(rest));
  const std::string_view unit = take_word(rest);
  if (!value || *value < 0 || *value > kMost || (!unit.empty() && unit != "kB") || !take_word(rest).empty())
    return std::nullopt;
  if (const std::size_t place = place_of(name); place < kKeys)
    figures_[place] = unit.empty() ? Bytes{*value} : kibibytes(*value);
  return name;
}

void Meminfo::fill(SystemSample& sample) const {
  for (std::size_t i = 0; i < kKeys; ++i)
    if (kMeminfoKeys[i].figure != nullptr) sample.*kMeminfoKeys[i].figure = figures_[i];
  const auto figure = [this](std::string_view name) { return figures_[place_of(name)]; };
  if (sample.ram_buffers && sample.ram_cached)
    sample.ram_used =
        rest_of(rest_of(sample.ram_total, sample.ram_free), *sample.ram_buffers + *sample.ram_cached);
  sample.huge_pages_total = product(figure("HugePages_Total"), figure("Hugepagesize"));
  sample.huge_pages_free = product(figure("HugePages_Free"), figure("Hugepagesize"));
  sample.swap_used = rest_of(sample.swap_total, figure("SwapFree"));
}

Meminfo read_meminfo(std::string_view text) {
  Meminfo figures;
  while (!text.empty()) figures.read_line(take_line(text));
  return figures;
}

SourcePointer make_meminfo_source(const fs::path& root) {
  return make_file_source(root / "proc/meminfo", "meminfo", [](std::string_view text, SystemSample& sample) {
    const Meminfo figures = read_meminfo(text);
    figures.fill(sample);
    return figures != Meminfo{};
  });
}

SourcePointer make_vmstat_source(const fs::path& root) {
  return make_file_source(root / "proc/vmstat", "vmstat", Vmstat());
}

SourcePointer make_pressure_source(const fs::path& root) {
  const fs::path path = root / "proc/pressure/memory";
  if (RereadFile(path).read().empty()) return nullptr;  // with psi=0 it exists but cannot be read
  const auto read = [some_before = Pressure{}, full_before = Pressure{}](std::string_view text,
                                                                         SystemSample& sample) mutable {
    const Pressure some = pressure_of(text, "some"), full = pressure_of(text, "full");
    sample.psi_some_avg10 = some.average;
    sample.psi_full_avg10 = full.average;
    sample.psi_some_stalled = between(std::exchange(some_before, some), some);
    sample.psi_full_stalled = between(std::exchange(full_before, full), full);
    return some.average.has_value();
  };
  return make_file_source(path, "memory pressure", read);
}

// The largest contiguous block of free pages. NvMap and other device drivers need contiguous free memory.
SourcePointer make_buddyinfo_source(const fs::path& root) {
  return make_file_source(root / "proc/buddyinfo", "buddyinfo",
                          [here = root == "/"](std::string_view text, SystemSample& sample) {
                            return read_buddyinfo(text, here, sample);
                          });
}

// Compressed swap in memory: the data that was swapped out, and the memory that it uses.
SourcePointer make_zram_source(const fs::path& root) {
  std::vector<RereadFile> devices;
  for (const auto& device : entries(root / "sys/block", "zram"))
    if (RereadFile file(device / "mm_stat"); file.exists()) devices.push_back(std::move(file));
  if (devices.empty()) return nullptr;
  std::string description = fmt::format("zram: {} devices", devices.size());
  return make_source(std::move(description), [devices = std::move(devices)](SystemSample& sample) mutable {
    return read_zram(devices, sample);
  });
}

}  // namespace headroom::sources
