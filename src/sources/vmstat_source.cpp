// Counters of /proc/vmstat, which the kernel counts since boot. A sample contains the increase since the
// previous sample, so the first sample has none.
#include <array>

#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

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

class VmstatSource : public MetricSource {
 public:
  explicit VmstatSource(const std::filesystem::path& root) : file_(root / "proc/vmstat") {}
  bool exists() const { return file_.exists(); }
  std::string describe() const override { return "vmstat"; }

  bool read(SystemSample& sample) override {
    std::string_view text = file_.read();
    const auto before = now_;
    now_ = {};
    bool found = false;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, end);
      const std::size_t space = std::min(line.find(' '), line.size());
      for (std::size_t i = 0; i < kCounters.size(); ++i)
        if (kCounters[i].name == line.substr(0, space)) {
          now_[i] = parse_number<std::int64_t>(trim(line.substr(space)));
          found = true;
        }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    for (std::size_t i = 0; i < kCounters.size(); ++i)
      if (now_[i] && before[i]) {
        auto& figure = sample.*(kCounters[i].figure);
        figure = figure.value_or(0) + (*now_[i] - *before[i]);
      }
    return found;
  }

 private:
  RereadFile file_;
  std::array<std::optional<std::int64_t>, kCounters.size()> now_;
};

}  // namespace

std::unique_ptr<MetricSource> make_vmstat_source(const std::filesystem::path& root) {
  auto source = std::make_unique<VmstatSource>(root);
  if (!source->exists()) return nullptr;
  return source;
}

}  // namespace headroom::sources
