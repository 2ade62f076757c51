#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

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

class PressureSource : public MetricSource {
 public:
  explicit PressureSource(const std::filesystem::path& root) : file_(root / "proc/pressure/memory") {}
  // Without CONFIG_PSI the file is absent; with psi=0 it exists but cannot be read.
  bool works() { return !file_.read().empty(); }
  std::string describe() const override { return "memory pressure"; }
  bool read(SystemSample& sample) override {
    const std::string_view text = file_.read();
    const Pressure some = pressure_of(text, "some"), full = pressure_of(text, "full");
    sample.psi_some_avg10 = some.average;
    sample.psi_full_avg10 = full.average;
    sample.psi_some_stalled = between(some_, some);
    sample.psi_full_stalled = between(full_, full);
    some_ = some;
    full_ = full;
    return some.average.has_value();
  }

 private:
  RereadFile file_;
  Pressure some_, full_;
};

}  // namespace

std::unique_ptr<MetricSource> make_pressure_source(const std::filesystem::path& root) {
  auto source = std::make_unique<PressureSource>(root);
  if (!source->works()) return nullptr;
  return source;
}

}  // namespace headroom::sources
