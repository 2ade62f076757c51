// The largest contiguous block of free pages. NvMap and other device drivers need contiguous free memory.
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

class BuddyinfoSource : public MetricSource {
 public:
  explicit BuddyinfoSource(const std::filesystem::path& root)
      : file_(root / "proc/buddyinfo"), is_this_machine_(root == "/") {}
  bool exists() const { return file_.exists(); }
  std::string describe() const override { return "buddyinfo"; }

  // Parses "Node 0, zone   Normal   4   2 …": the numbers of free blocks of one page, two pages, four pages
  // and so on. Reports the largest block of all zones and the number of blocks of that size.
  bool read(SystemSample& sample) override {
    std::string_view text = file_.read();
    int largest = -1;
    std::int64_t blocks = 0;
    double pages = 0;
    bool has_zone = false;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
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
    sample.largest_free_block = largest < 0 ? Bytes{} : Bytes{page_size(sample, pages) << largest};
    sample.largest_free_blocks = blocks;
    return true;
  }

 private:
  // The page size in bytes. For a file tree of another machine it is unknown (4, 16 or 64 KiB on arm64). Then
  // take the size for which the sum of the free blocks is nearest to MemFree.
  std::int64_t page_size(const SystemSample& sample, double pages) const {
    if (is_this_machine_ || !sample.ram_free || pages <= 0) return ::sysconf(_SC_PAGESIZE);
    const double bytes = static_cast<double>(sample.ram_free->count) / pages;
    if (bytes > 32768) return 65536;
    return bytes > 8192 ? 16384 : 4096;
  }

  RereadFile file_;
  bool is_this_machine_;
};

}  // namespace

std::unique_ptr<MetricSource> make_buddyinfo_source(const std::filesystem::path& root) {
  auto source = std::make_unique<BuddyinfoSource>(root);
  if (!source->exists()) return nullptr;
  return source;
}

}  // namespace headroom::sources
