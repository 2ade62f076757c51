#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

// The avg10 of a line "some avg10=1.23 avg60=…": percent of the last ten seconds.
std::optional<double> average_of(std::string_view text, std::string_view line_name) {
  auto rest = rest_of_line(text, line_name);
  if (!rest) return std::nullopt;
  for (std::string_view word = take_word(*rest); !word.empty(); word = take_word(*rest))
    if (word.starts_with("avg10=")) return parse_number<double>(word.substr(6));
  return std::nullopt;
}

class PressureSource : public MetricSource {
 public:
  explicit PressureSource(const std::filesystem::path& root) : file_(root / "proc/pressure/memory") {}
  // Without CONFIG_PSI the file is absent; with psi=0 it is there and cannot be read.
  bool works() { return !file_.read().empty(); }
  std::string describe() const override { return "memory pressure"; }
  void read(SystemSample& sample) override {
    const std::string_view text = file_.read();
    sample.psi_some_avg10 = average_of(text, "some");
    sample.psi_full_avg10 = average_of(text, "full");
  }

 private:
  RereadFile file_;
};

}  // namespace

std::unique_ptr<MetricSource> make_pressure_source(const std::filesystem::path& root) {
  auto source = std::make_unique<PressureSource>(root);
  if (!source->works()) return nullptr;
  return source;
}

}  // namespace headroom::sources
