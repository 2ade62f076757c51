// The power mode of a Jetson (nvpmodel): the mode that its service saved last, with its name from the
// configuration. The file is replaced when the mode changes, so it is reopened periodically.
#include <map>

#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

constexpr int kSamplesBetween = 16;

class PowerModeSource : public MetricSource {
 public:
  explicit PowerModeSource(const std::filesystem::path& root) : status_(root / "var/lib/nvpmodel/status") {
    read_names(root / "etc/nvpmodel.conf");
    read_mode();
  }
  bool exists() const { return !mode_.empty(); }
  std::string describe() const override { return "power mode"; }
  bool read(SystemSample& sample) override {
    if (++samples_ % kSamplesBetween == 0) read_mode();
    sample.power_mode = mode_;
    return !mode_.empty();
  }

 private:
  // "pmode:0002 …" or "pmode:2".
  void read_mode() {
    mode_.clear();
    const auto text = read_small_file(status_);
    if (!text) return;
    const auto rest = rest_of_line(*text, "pmode:");
    if (!rest) return;
    std::string_view word = *rest;
    word = take_word(word);
    const auto number = parse_number<int>(word);
    if (!number) return;
    const auto name = names_.find(*number);
    mode_ = name == names_.end() ? "mode " + std::to_string(*number) : name->second;
  }
  // "< POWER_MODEL ID=2 NAME=MODE_15W >"
  void read_names(const std::filesystem::path& path) {
    const auto text = read_small_file(path);
    if (!text) return;
    for (const std::string_view line : split(*text, '\n')) {
      if (line.find("POWER_MODEL") == line.npos) continue;
      std::optional<int> id;
      std::string_view name;
      for (std::string_view word : split_words(line)) {
        if (word.starts_with("ID=")) id = parse_number<int>(word.substr(3));
        if (word.starts_with("NAME=")) name = word.substr(5);
      }
      if (id && !name.empty()) names_[*id] = name;
    }
  }

  std::filesystem::path status_;
  std::map<int, std::string> names_;
  std::string mode_;
  int samples_ = 0;
};

}  // namespace

std::unique_ptr<MetricSource> make_power_mode_source(const std::filesystem::path& root) {
  auto source = std::make_unique<PowerModeSource>(root);
  if (!source->exists()) return nullptr;
  return source;
}

}  // namespace headroom::sources
