// Compressed swap in memory: the data that was swapped out, and the memory that it uses.
#include <fmt/format.h>

#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

class ZramSource : public MetricSource {
 public:
  explicit ZramSource(std::vector<RereadFile> devices) : devices_(std::move(devices)) {}
  std::string describe() const override { return fmt::format("zram: {} devices", devices_.size()); }

  // "orig_data_size compr_data_size mem_used_total mem_limit …", in bytes.
  bool read(SystemSample& sample) override {
    Bytes original, compressed, used;
    bool found = false;
    for (RereadFile& device : devices_) {
      std::string_view text = device.read();
      const auto a = parse_number<std::int64_t>(take_word(text));
      const auto b = parse_number<std::int64_t>(take_word(text));
      const auto c = parse_number<std::int64_t>(take_word(text));
      if (!a || !b || !c) continue;
      original += {*a};
      compressed += {*b};
      used += {*c};
      found = true;
    }
    if (!found) return false;
    sample.zram_original = original;
    sample.zram_compressed = compressed;
    sample.zram_used = used;
    return true;
  }

 private:
  std::vector<RereadFile> devices_;
};

}  // namespace

std::unique_ptr<MetricSource> make_zram_source(const std::filesystem::path& root) {
  std::vector<RereadFile> devices;
  for (const auto& device : entries(root / "sys/block")) {
    if (!device.filename().string().starts_with("zram")) continue;
    RereadFile file(device / "mm_stat");
    if (file.exists()) devices.push_back(std::move(file));
  }
  if (devices.empty()) return nullptr;
  return std::make_unique<ZramSource>(std::move(devices));
}

}  // namespace headroom::sources
