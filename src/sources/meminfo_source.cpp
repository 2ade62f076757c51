#include "sources/meminfo_reader.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

class MeminfoSource : public MetricSource {
 public:
  explicit MeminfoSource(const std::filesystem::path& root) : file_(root / "proc/meminfo") {}
  bool exists() const { return file_.exists(); }
  std::string describe() const override { return "meminfo"; }
  bool read(SystemSample& sample) override {
    const Meminfo figures = read_meminfo(file_.read());
    fill(sample, figures);
    return figures != Meminfo{};
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
