#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

class MeminfoSource : public MetricSource {
 public:
  explicit MeminfoSource(const std::filesystem::path& root) : file_(root / "proc/meminfo") {}
  bool exists() const { return file_.exists(); }
  std::string describe() const override { return "meminfo"; }

  void read(SystemSample& sample) override {
    const std::string_view text = file_.read();
    sample.ram_total = kib_line(text, "MemTotal");
    sample.ram_free = kib_line(text, "MemFree");
    sample.ram_available = kib_line(text, "MemAvailable");
    sample.ram_cached = kib_line(text, "Cached");
    sample.ram_shared = kib_line(text, "Shmem");
    sample.nvmap_used = kib_line(text, "NvMapMemUsed");
    const auto buffers = kib_line(text, "Buffers");
    if (sample.ram_total && sample.ram_free && buffers && sample.ram_cached)
      sample.ram_used = *sample.ram_total - *sample.ram_free - *buffers - *sample.ram_cached;
    sample.swap_total = kib_line(text, "SwapTotal");
    if (const auto swap_free = kib_line(text, "SwapFree"); swap_free && sample.swap_total)
      sample.swap_used = *sample.swap_total - *swap_free;
  }

 private:
  RereadFile file_;
};

}  // namespace

std::unique_ptr<MetricSource> make_meminfo_source(const std::filesystem::path& root) {
  auto source = std::make_unique<MeminfoSource>(root);
  if (!source->exists()) return nullptr;
  return source;
}

}  // namespace headroom::sources
