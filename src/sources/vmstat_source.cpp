#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

// Counters since boot; a sample holds what was added since the one before, so the first has none.
class VmstatSource : public MetricSource {
 public:
  explicit VmstatSource(const std::filesystem::path& root) : file_(root / "proc/vmstat") {}
  bool exists() const { return file_.exists(); }
  std::string describe() const override { return "vmstat"; }

  void read(SystemSample& sample) override {
    const std::string_view text = file_.read();
    sample.pages_swapped_in = swapped_in_.since_last(plain_line(text, "pswpin"));
    sample.pages_swapped_out = swapped_out_.since_last(plain_line(text, "pswpout"));
    sample.oom_kills = oom_kills_.since_last(plain_line(text, "oom_kill"));
    // One counter before Linux 5.9, two since.
    const auto file = plain_line(text, "workingset_refault_file");
    const auto anonymous = plain_line(text, "workingset_refault_anon");
    const auto both = file && anonymous ? std::optional<std::int64_t>(*file + *anonymous)
                                        : plain_line(text, "workingset_refault");
    sample.refaults = refaults_.since_last(both);
  }

 private:
  class Counter {
   public:
    std::optional<std::int64_t> since_last(std::optional<std::int64_t> now) {
      const auto before = last_;
      last_ = now;
      return before && now ? std::optional<std::int64_t>(*now - *before) : std::nullopt;
    }

   private:
    std::optional<std::int64_t> last_;
  };
  RereadFile file_;
  Counter swapped_in_, swapped_out_, oom_kills_, refaults_;
};

}  // namespace

std::unique_ptr<MetricSource> make_vmstat_source(const std::filesystem::path& root) {
  auto source = std::make_unique<VmstatSource>(root);
  if (!source->exists()) return nullptr;
  return source;
}

}  // namespace headroom::sources
