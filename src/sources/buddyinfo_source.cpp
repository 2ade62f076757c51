// The largest block of free pages that hang together: what NvMap and other devices need of MemFree.
#include <unistd.h>

#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

class BuddyinfoSource : public MetricSource {
 public:
  explicit BuddyinfoSource(const std::filesystem::path& root)
      : file_(root / "proc/buddyinfo"), page_(::sysconf(_SC_PAGESIZE)) {}
  bool exists() const { return file_.exists(); }
  std::string describe() const override { return "buddyinfo"; }

  // "Node 0, zone   Normal   4   2 …": free blocks of one page, of two, of four, … The largest of all zones,
  // and how many there are of that size.
  bool read(SystemSample& sample) override {
    std::string_view text = file_.read();
    int largest = -1;
    std::int64_t blocks = 0;
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
        const auto count = parse_number<std::int64_t>(take_word(line));
        if (!count) break;
        has_zone = true;
        if (*count <= 0 || order < largest) continue;
        blocks = order > largest ? *count : blocks + *count;
        largest = order;
      }
    }
    if (!has_zone) return false;
    sample.largest_free_block = largest < 0 ? Bytes{} : Bytes{page_ << largest};
    sample.largest_free_blocks = blocks;
    return true;
  }

 private:
  RereadFile file_;
  std::int64_t page_;
};

}  // namespace

std::unique_ptr<MetricSource> make_buddyinfo_source(const std::filesystem::path& root) {
  auto source = std::make_unique<BuddyinfoSource>(root);
  if (!source->exists()) return nullptr;
  return source;
}

}  // namespace headroom::sources
