// Parses nvidia-smi's tables and lists. Rows are recognized by their shape, not their position: drivers
// move, widen and add columns, and copied texts often lack headers and frames.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "sources/nvidia_smi_reader.h"

namespace headroom::sources::smi {
namespace {

using Words = std::vector<std::string_view>;

std::optional<std::int64_t> integer(std::string_view text) { return parse_number<std::int64_t>(text); }

bool is_number_or_absent(std::string_view word) { return word == "N/A" || integer(word).has_value(); }

// "00000000:01:00.0"
bool is_bus_id(std::string_view word) {
  return std::ranges::count(word, ':') == 2 &&
         word.find_first_not_of("0123456789abcdefABCDEF:.") == word.npos;
}

// "C", "G", "C+G", "M+C"
bool is_process_type(std::string_view word) {
  if (word.size() % 2 == 0) return false;
  for (std::size_t i = 0; i < word.size(); ++i)
    if (i % 2 == 0 ? std::string_view("CGM").find(word[i]) == std::string_view::npos : word[i] != '+')
      return false;
  return true;
}

// The text from the beginning of one word to the end of another.
std::string_view text_between(std::string_view first, std::string_view last) {
  return {first.data(), static_cast<std::size_t>(last.data() + last.size() - first.data())};
}

// The two figures around a separate slash: "231W / 300W", "N/A /  N/A".
struct Pair {
  std::string_view first, second;
};
std::optional<Pair> around_slash(const Words& words) {
  const auto slash = std::ranges::find(words, "/");
  if (slash == words.begin() || slash == words.end() || slash + 1 == words.end()) return std::nullopt;
  return Pair{*(slash - 1), *(slash + 1)};
}

std::vector<std::string_view> cells_of(std::string_view line) {
  line.remove_prefix(1);
  if (line.ends_with("|")) line.remove_suffix(1);
  std::vector<std::string_view> cells = split(line, '|');
  for (std::string_view& cell : cells) cell = trim(cell);
  return cells;
}

bool is_persistence(std::string_view word) {
  constexpr std::array<std::string_view, 5> kModes{"On", "Off", "WDDM", "TCC", "MCDM"};
  return is_absent(word) || std::ranges::find(kModes, word) != kModes.end();
}

// Tables print these words without the brackets of CSV.
bool mentions_lost(std::string_view cell) {
  return cell.find("GPU is lost") != cell.npos || cell.find("GPU requires reset") != cell.npos;
}

bool begins_gpu(const std::vector<std::string_view>& cells) {
  const Words words = split_words(cells[0]), bus = split_words(cells[1]);
  return words.size() >= 3 && integer(words[0]) && bus.size() >= 2 &&
         (is_absent(bus[0]) || is_bus_id(bus[0])) && is_persistence(words.back());
}

GpuSample gpu_of(const std::vector<std::string_view>& cells) {
  const Words words = split_words(cells[0]), bus = split_words(cells[1]);
  GpuSample gpu;
  gpu.index = integer(words[0]);
  gpu.name = text_between(words[1], words[words.size() - 2]);
  if (!is_absent(bus[0])) gpu.pci_bus_id = bus[0];
  return gpu;
}

// "N/A   57C    P0   231W / 300W |  12427MiB / 16160MiB |     99%      Default"
void read_figures(const std::vector<std::string_view>& cells, GpuSample& gpu) {
  const Words words = split_words(cells[0]);
  for (const std::string_view word : words)
    if (word.size() > 1 && word.ends_with("C")) gpu.temperature_celsius = figure(word, Quantity::celsius);
  if (const auto power = around_slash(words)) {
    gpu.power_watts = figure(power->first, Quantity::watts);
    gpu.power_limit_watts = figure(power->second, Quantity::watts);
  }
  if (const auto memory = around_slash(split_words(cells[1]))) {
    gpu.memory_used = bytes_figure(memory->first);
    gpu.memory_total = bytes_figure(memory->second);
  }
  for (const std::string_view word : split_words(cells[2]))
    if (word.ends_with("%")) gpu.gpu_percent = figure(word, Quantity::percent);
}

// "Enabled*" is the mode after the next reset.
void read_mig_mode(std::string_view cell, GpuSample& gpu) {
  if (cell == "Enabled" || cell == "Disabled") gpu.mig_enabled = cell == "Enabled";
  if (cell == "Enabled*" || cell == "Disabled*") gpu.mig_enabled = cell != "Enabled*";
}

// "0    1   0   0 |     11MiB / 20096MiB | 42      0 |  3   0    2    0    0": GPU, instances, number of the
// device.
void read_mig_row(const std::vector<std::string_view>& cells, SmiOutput& output) {
  const Words words = split_words(cells[0]);
  if (words.size() != 4 || !std::ranges::all_of(words, is_number_or_absent)) return;
  const auto gpu = integer(words[0]), index = integer(words[3]);
  if (!gpu || !index) return;
  MigInstance instance;
  instance.index = *index;
  instance.gpu_instance = integer(words[1]);
  instance.compute_instance = integer(words[2]);
  if (const auto memory = around_slash(split_words(cells[1]))) {
    instance.memory_used = bytes_figure(memory->first);
    instance.memory_total = bytes_figure(memory->second);
  }
  const auto of = std::ranges::find(output.gpus, gpu, &GpuSample::index);
  if (of != output.gpus.end()) of->mig_instances.push_back(std::move(instance));
}

// "0   N/A  N/A      3507      G   /usr/lib/xorg/Xorg      0MiB"; before R450 without the two instance
// columns.
void read_process_row(std::string_view cell, SmiOutput& output) {
  const Words words = split_words(cell);
  if (words.size() < 4) return;
  std::size_t pid = 1;
  SmiProcess row;
  if (words.size() >= 6 && is_number_or_absent(words[1]) && is_number_or_absent(words[2]) &&
      integer(words[3]) && is_process_type(words[4])) {
    pid = 3;
    row.process.gpu_instance = integer(words[1]);
    row.process.compute_instance = integer(words[2]);
  }
  const auto gpu = integer(words[0]), number = integer(words[pid]);
  if (!gpu || !number || *number < 0 || pid + 2 >= words.size() || !is_process_type(words[pid + 1])) return;
  const auto used = bytes_figure(words.back());
  if (!used && !is_absent(words.back())) return;
  row.gpu = gpu;
  row.process.pid = *number;
  row.process.used = used;
  output.processes.push_back(std::move(row));
}

}  // namespace

void TableReader::read_gpu_row(const std::vector<std::string_view>& cells, SmiOutput& output) {
  if (begins_gpu(cells)) {
    output.gpus.push_back(gpu_of(cells));
    row_ = 1;
  } else if (row_ == 0 || output.gpus.empty()) {  // the caller may have moved the GPU out of the output
    row_ = 0;
    return;
  } else if (row_ == 1) {
    read_figures(cells, output.gpus.back());
    row_ = 2;
  } else {
    read_mig_mode(cells[2], output.gpus.back());
    row_ = 0;
  }
  GpuSample& gpu = output.gpus.back();
  gpu.lost = gpu.lost || std::ranges::any_of(cells, mentions_lost);
}

// "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)", followed by "MIG 1g.10gb     Device  0: (UUID: MIG-…)".
bool TableReader::read_list(std::string_view line, SmiOutput& output) {
  const std::size_t uuid = line.rfind("(UUID: ");
  if (uuid == line.npos || !line.ends_with(")")) return false;
  const std::string_view value = line.substr(uuid + 7, line.size() - uuid - 8);
  const std::string_view before = trim(line.substr(0, uuid));
  const Words words = split_words(before);
  if (words.size() >= 3 && words[0] == "GPU" && words[1].ends_with(":")) {
    GpuSample gpu;
    gpu.index = integer(words[1].substr(0, words[1].size() - 1));
    if (!gpu.index) return false;
    gpu.name = text_between(words[2], words.back());
    gpu.uuid = value;
    output.gpus.push_back(std::move(gpu));
    return true;
  }
  if (words.size() != 4 || words[0] != "MIG" || words[2] != "Device" || !words[3].ends_with(":") ||
      output.gpus.empty())
    return false;
  const auto index = integer(words[3].substr(0, words[3].size() - 1));
  if (!index) return false;
  MigInstance instance;
  instance.index = *index;
  instance.name = text_between(words[0], words[1]);
  instance.uuid = value;
  output.gpus.back().mig_enabled = true;
  output.gpus.back().mig_instances.push_back(std::move(instance));
  return true;
}

bool TableReader::read(std::string_view line, SmiOutput& output) {
  if (line.find_first_not_of("+-=| ") == line.npos) {
    row_ = 0;
    return true;
  }
  if (line.front() != '|') return read_list(line, output);
  const std::vector<std::string_view> cells = cells_of(line);
  if (cells.size() == 1) read_process_row(cells[0], output);
  if (cells.size() == 3) read_gpu_row(cells, output);
  if (cells.size() == 4) read_mig_row(cells, output);
  return true;
}

}  // namespace headroom::sources::smi
