#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

struct Ticks {
  std::int64_t total = 0, idle = 0;
};

// "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; guest time is already in user time.
std::optional<Ticks> ticks_of(std::string_view text) {
  auto rest = rest_of_line(text, "cpu ");
  if (!rest) return std::nullopt;
  Ticks ticks;
  int field = 0;
  for (; field < 8; ++field) {
    const auto value = parse_number<std::int64_t>(take_word(*rest));
    if (!value) break;  // kernels before 2.6.11 have fewer fields
    ticks.total += *value;
    if (field == 3 || field == 4) ticks.idle += *value;  // idle, and waiting for a disk
  }
  return field >= 4 ? std::optional<Ticks>(ticks) : std::nullopt;
}

class CpuLoadSource : public MetricSource {
 public:
  explicit CpuLoadSource(const std::filesystem::path& root) : file_(root / "proc/stat") {}
  bool exists() const { return file_.exists(); }
  std::string describe() const override { return "CPU load"; }
  void read(SystemSample& sample) override {
    const auto now = ticks_of(file_.read());
    if (now && last_ && now->total > last_->total) {
      const auto total = static_cast<double>(now->total - last_->total);
      const auto idle = static_cast<double>(now->idle - last_->idle);
      sample.cpu_percent = 100.0 * (total - idle) / total;
    }
    last_ = now;
  }

 private:
  RereadFile file_;
  std::optional<Ticks> last_;
};

}  // namespace

std::unique_ptr<MetricSource> make_cpu_load_source(const std::filesystem::path& root) {
  auto source = std::make_unique<CpuLoadSource>(root);
  if (!source->exists()) return nullptr;
  return source;
}

}  // namespace headroom::sources
