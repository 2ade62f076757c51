#include "sources/text_samples.h"

#include <algorithm>

#include "base/text.h"
#include "sources/metric_source.h"
#include "sources/tegrastats_reader.h"

namespace headroom::sources {
namespace {

// Limits for samples of several lines: at this size a sample is passed on as it is.
constexpr std::size_t kMostUnknown = 256, kMostUnknownBytes = 256 << 10;

// Lines of a sample that no reader knows. Each has at most 64 KiB.
class UnknownLines {
 public:
  void add(std::string_view line) {
    lines_.emplace_back(line);
    bytes_ += line.size();
  }
  bool is_empty() const { return lines_.empty(); }
  bool is_too_long() const { return bytes_ >= kMostUnknownBytes; }
  bool is_full() const { return lines_.size() >= kMostUnknown || is_too_long(); }
  std::vector<std::string> take() {
    bytes_ = 0;
    return std::exchange(lines_, {});
  }

 private:
  std::vector<std::string> lines_;
  std::size_t bytes_ = 0;
};

class TegrastatsText : public TextReader {
 public:
  void read_line(std::string_view line, const OnSample& on_sample) override {
    if (trim(line).empty()) return;
    read_tegrastats_line(line, sample_);
    on_sample(sample_);
  }

 private:
  SystemSample sample_;
};

// Several dumps in sequence: a repeated key begins the next one.
class MeminfoText : public TextReader {
 public:
  void read_line(std::string_view line, const OnSample& on_sample) override {
    if (trim(line).empty()) return;
    Meminfo with_line = figures_;
    const auto key = with_line.read_line(line);
    if (!key) {
      unknown_.add(line);
      if (unknown_.is_full()) finish(on_sample);
      return;
    }
    if (std::ranges::find(keys_, *key) != keys_.end()) {
      finish(on_sample);
      with_line = {};
      with_line.read_line(line);
    }
    figures_ = with_line;
    keys_.emplace_back(*key);
    if (keys_.size() >= kMostKeys) finish(on_sample);
  }
  void finish(const OnSample& on_sample) override {
    if (keys_.empty() && unknown_.is_empty()) return;
    SystemSample sample;
    figures_.fill(sample);
    sample.unknown_tokens = unknown_.take();
    figures_ = {};
    keys_.clear();
    on_sample(sample);
  }

 private:
  static constexpr std::size_t kMostKeys = 512;  // Linux 6 has 60
  Meminfo figures_;
  std::vector<std::string> keys_;
  UnknownLines unknown_;
};

// Collects GPU rows until a GPU repeats. The time of a row is its first column if the query asked for it.
class NvidiaSmiText : public TextReader {
 public:
  explicit NvidiaSmiText(const std::vector<std::string>& columns)
      : csv_(columns),
        has_clock_(!columns.empty() && columns.front() == "timestamp" && !csv_.has_processes()) {}

  void read_line(std::string_view raw, const OnSample& on_sample) override {
    std::string buffer;
    const std::string_view line = smi::without_quotes(trim(raw), buffer);
    if (line.empty()) return;
    if (line.starts_with("|") && line.find("NVIDIA-SMI") != line.npos) finish(on_sample);
    const std::size_t gpus = output_.gpus.size(), processes = output_.processes.size();
    if (!table_.read(line, output_)) {
      if (!read_csv(line)) {
        unknown_.add(line);
      } else if (output_.gpus.size() == gpus && output_.processes.size() == processes) {
        // The line is a header. Unless it is for processes, it begins another query, whose rows are not
        // part of this sample. (It may also be a process row of a query without pids.)
        const bool of_processes = csv_.has_processes();
        if (!of_processes) finish(on_sample);
        has_clock_ = !of_processes && line.starts_with("timestamp");
      }
    }
    if (output_.gpus.size() > gpus) {
      assign_index(output_.gpus.back());
      start_sample_if_repeated(on_sample);
      if (has_clock_ && clock_.empty()) clock_ = line.substr(0, line.find_first_of(",;"));
    }
    if (++lines_ >= kMostLines || unknown_.is_too_long()) finish(on_sample);
  }

  void finish(const OnSample& on_sample) override {
    // Processes belong to the GPUs before them. Without GPUs they belong to no sample.
    SmiOutput output = std::exchange(output_, {});
    lines_ = 0;
    if (output.gpus.empty() && unknown_.is_empty()) return;
    SystemSample sample;
    sample.gpus.swap(output.gpus);
    sample.unknown_tokens = unknown_.take();
    sample.clock_text.swap(clock_);
    for (const SmiProcess& row : output.processes) add_process(row, sample.gpus);
    for (const GpuSample& gpu : sample.gpus) {
      if (gpu.gpu_percent) sample.gpu_percent = std::max(sample.gpu_percent.value_or(0), *gpu.gpu_percent);
      if (gpu.throttled) sample.throttled = sample.throttled.value_or(false) || *gpu.throttled;
    }
    on_sample(sample);
  }

 private:
  static constexpr std::size_t kMostLines = 4096;  // per sample: at this size it is passed on as it is

  // Returns false for unknown text, and keeps the reason. Messages ("No devices were found") are unknown
  // text, too, and explain all the rest.
  bool read_csv(std::string_view line) {
    auto message = smi::message_of(line);
    if (!message && csv_.read(line, output_)) return true;
    if (message && !std::exchange(has_message_, true))
      problem_ = std::move(*message);
    else if (problem_.why.empty())
      problem_ = csv_.problem_of_line(line);
    return false;
  }

  // The query had no index column: GPUs are numbered in their order and distinguished by UUID, bus id or
  // name. Rows without any of these are one GPU.
  void assign_index(GpuSample& gpu) {
    const std::string& name = !gpu.uuid.empty()         ? gpu.uuid
                              : !gpu.pci_bus_id.empty() ? gpu.pci_bus_id
                                                        : gpu.name;
    if (gpu.index) return;
    const auto known = std::ranges::find(numbered_, name);
    if (known == numbered_.end() && numbered_.size() == kMostNumbered) return;
    gpu.index = known - numbered_.begin();
    if (known == numbered_.end()) numbered_.push_back(name);
  }

  void start_sample_if_repeated(const OnSample& on_sample) {
    GpuSample& added = output_.gpus.back();
    const bool again = std::any_of(output_.gpus.begin(), output_.gpus.end() - 1, [&](const GpuSample& known) {
      return known.index == added.index && known.uuid == added.uuid;
    });
    if (!again) return;
    GpuSample next = std::move(added);
    output_.gpus.pop_back();
    finish(on_sample);
    output_.gpus.push_back(std::move(next));
  }

  static void add_process(const SmiProcess& row, std::vector<GpuSample>& gpus) {
    for (GpuSample& gpu : gpus) {
      const bool is_its = row.gpu                 ? gpu.index == row.gpu
                          : !row.gpu_uuid.empty() ? gpu.uuid == row.gpu_uuid
                                                  : gpus.size() == 1;
      if (!is_its) continue;
      if (!gpu.processes) gpu.processes.emplace();
      gpu.processes->push_back(row.process);
    }
  }

  static constexpr std::size_t kMostNumbered = 1024;
  std::vector<std::string> numbered_;
  smi::CsvReader csv_;
  smi::TableReader table_;
  SmiOutput output_;
  std::size_t lines_ = 0;  // lines of this sample, also those without data
  UnknownLines unknown_;
  std::string clock_;
  bool has_clock_;
  bool has_message_ = false;
};

}  // namespace

const std::vector<std::string>& text_reader_names() {
  static const std::vector<std::string> kNames{"tegrastats", "nvidia-smi", "meminfo"};
  return kNames;
}

std::unique_ptr<TextReader> make_text_reader(std::string_view name, const std::vector<std::string>& columns) {
  if (name == "tegrastats") return std::make_unique<TegrastatsText>();
  if (name == "nvidia-smi") return std::make_unique<NvidiaSmiText>(columns);
  if (name == "meminfo") return std::make_unique<MeminfoText>();
  return nullptr;
}

}  // namespace headroom::sources
