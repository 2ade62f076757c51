// Memory of the GPU and other devices of a Jetson by process, from debugfs, which only root can read. It is
// part of MemTotal − MemFree, but not of any process's resident memory.
#include "base/text.h"
#include "sources/metric_source.h"
#include "sources/nvmap_clients.h"

namespace headroom::sources {
namespace {

class NvmapSource : public MetricSource {
 public:
  explicit NvmapSource(const std::filesystem::path& root)
      : file_(root / "sys/kernel/debug/nvmap/iovmm/clients") {}
  bool exists() const { return file_.exists(); }
  std::string describe() const override { return "NvMap by process"; }
  bool read(SystemSample& sample) override {
    const auto total = read_nvmap_clients(file_.read(), sample.processes);
    if (!sample.nvmap_used) sample.nvmap_used = total;
    return total.has_value();
  }

 private:
  RereadFile file_;
};

// "23549320K", "12M"; without a letter the number is bytes.
std::optional<Bytes> size_of(std::string_view word) {
  if (word.empty()) return std::nullopt;
  int shift = 0;
  switch (word.back()) {
    case 'K':
      shift = 10;
      break;
    case 'M':
      shift = 20;
      break;
    case 'G':
      shift = 30;
      break;
    default:
      break;
  }
  if (shift > 0) word.remove_suffix(1);
  const auto count = parse_number<std::int64_t>(word);
  if (!count || *count < 0 || *count > (std::int64_t{1} << 62) >> shift) return std::nullopt;
  return Bytes{*count << shift};
}

}  // namespace

std::optional<Bytes> read_nvmap_clients(std::string_view text, std::vector<ProcessSample>& processes) {
  std::optional<Bytes> total;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    // Parse from the end of the line, because names may contain spaces.
    const auto take_last = [&line] {
      const std::size_t space = line.find_last_of(" \t");
      const std::string_view word = space == line.npos ? line : line.substr(space + 1);
      line = space == line.npos ? std::string_view() : trim(line.substr(0, space));
      return word;
    };
    const auto size = size_of(take_last());
    if (!size) continue;
    if (line == "total") {
      total = size;
      continue;
    }
    const auto pid = parse_number<std::int64_t>(take_last());
    std::string_view name = line;
    take_word(name);  // "user", "kernel"
    name = trim(name);
    if (!pid || *pid <= 0 || name.empty()) continue;
    ProcessSample& process = processes.emplace_back();
    process.pid = *pid;
    process.name = name;
    process.gpu = size;
  }
  return total;
}

std::unique_ptr<MetricSource> make_nvmap_source(const std::filesystem::path& root) {
  auto source = std::make_unique<NvmapSource>(root);
  if (!source->exists()) return nullptr;
  return source;
}

}  // namespace headroom::sources
