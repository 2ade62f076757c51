#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"
#include "sources/nvidia_smi_parts.h"
#include "sources/nvml_device.h"

namespace headroom::sources::smi {
namespace {

// How the text of a column goes into a GPU's figures. False: the text is none of this column's.
using Setter = bool (*)(GpuSample& gpu, std::string_view text, std::string_view unit);

template <std::optional<Bytes> GpuSample::*member>
bool set_bytes(GpuSample& gpu, std::string_view text, std::string_view unit) {
  gpu.*member = bytes_figure(text, unit);
  return (gpu.*member).has_value();
}

template <std::optional<double> GpuSample::*member>
bool set_number(GpuSample& gpu, std::string_view text, std::string_view unit) {
  gpu.*member = figure(text, unit);
  return (gpu.*member).has_value();
}

// No load, power or clock is below zero; a temperature may be.
template <std::optional<double> GpuSample::*member>
bool set_positive(GpuSample& gpu, std::string_view text, std::string_view unit) {
  if (!set_number<member>(gpu, text, unit)) return false;
  return *(gpu.*member) >= 0;
}

template <std::string GpuSample::*member>
bool set_text(GpuSample& gpu, std::string_view text, std::string_view /*unit*/) {
  gpu.*member = text;
  return true;
}

bool set_index(GpuSample& gpu, std::string_view text, std::string_view /*unit*/) {
  gpu.index = parse_number<std::int64_t>(text);
  return gpu.index.has_value();
}

bool set_mig(GpuSample& gpu, std::string_view text, std::string_view /*unit*/) {
  gpu.mig_enabled = text == "Enabled";
  return text == "Enabled" || text == "Disabled";
}

bool set_reasons(GpuSample& gpu, std::string_view text, std::string_view /*unit*/) {
  if (!text.starts_with("0x")) return false;
  std::uint64_t reasons = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data() + 2, end, reasons, 16);
  if (code != std::errc{} || stop != end) return false;
  nvml::set_clock_reasons(gpu, reasons);
  return true;
}

struct KnownColumn {
  std::string_view name, short_name, unit;
  Setter set;
};

constexpr std::array<KnownColumn, 23> kColumns{{
    {"index", "", "", set_index},
    {"name", "gpu_name", "", set_text<&GpuSample::name>},
    {"uuid", "gpu_uuid", "", set_text<&GpuSample::uuid>},
    {"pci.bus_id", "gpu_bus_id", "", set_text<&GpuSample::pci_bus_id>},
    {"memory.total", "", "MiB", set_bytes<&GpuSample::memory_total>},
    {"memory.used", "", "MiB", set_bytes<&GpuSample::memory_used>},
    {"memory.free", "", "MiB", set_bytes<&GpuSample::memory_free>},
    {"memory.reserved", "", "MiB", set_bytes<&GpuSample::memory_reserved>},
    {"utilization.gpu", "", "%", set_positive<&GpuSample::gpu_percent>},
    {"utilization.memory", "", "%", set_positive<&GpuSample::memory_percent>},
    {"utilization.encoder", "", "%", set_positive<&GpuSample::encoder_percent>},
    {"utilization.decoder", "", "%", set_positive<&GpuSample::decoder_percent>},
    {"power.draw", "", "W", set_positive<&GpuSample::power_watts>},
    {"power.draw.instant", "", "W", set_positive<&GpuSample::power_watts>},
    {"power.draw.average", "", "W", set_positive<&GpuSample::power_watts>},
    {"power.limit", "enforced.power.limit", "W", set_positive<&GpuSample::power_limit_watts>},
    {"temperature.gpu", "", "C", set_number<&GpuSample::temperature_celsius>},
    {"clocks.current.graphics", "clocks.gr", "MHz", set_positive<&GpuSample::graphics_clock_hz>},
    {"clocks.current.sm", "clocks.sm", "MHz", set_positive<&GpuSample::sm_clock_hz>},
    {"clocks.current.memory", "clocks.mem", "MHz", set_positive<&GpuSample::memory_clock_hz>},
    {"clocks_event_reasons.active", "clocks_throttle_reasons.active", "", set_reasons},
    {"mig.mode.current", "mig.mode", "", set_mig},
    {"driver_version", "", "", nullptr},
}};

const KnownColumn* known_column(std::string_view name) {
  const auto* const known = std::find_if(kColumns.begin(), kColumns.end(), [&](const KnownColumn& column) {
    return column.name == name || (!column.short_name.empty() && column.short_name == name);
  });
  return known == kColumns.end() ? nullptr : known;
}

// Of a process: "memory.used" is a GPU's.
bool is_used_memory(std::string_view name) { return name == "used_memory" || name == "used_gpu_memory"; }

bool is_process_column(std::string_view name) {
  return name == "pid" || name == "process_name" || is_used_memory(name);
}

// Of the figures of a column where neither the header nor the row says it.
std::string_view usual_unit(std::string_view name) {
  if (is_used_memory(name)) return "MiB";
  const KnownColumn* known = known_column(name);
  return known == nullptr ? "" : known->unit;
}

// Names may have commas in them, and nvidia-smi quotes nothing.
bool is_free_text(std::string_view name) {
  return name == "name" || name == "gpu_name" || name == "process_name";
}

// "memory.used [MiB]" is a name of lower-case words and dots, and a unit.
bool is_column_name(std::string_view text) {
  return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._") == text.npos &&
         text.find_first_not_of("0123456789.") != text.npos;
}

}  // namespace

CsvReader::CsvReader(const std::vector<std::string>& columns) {
  for (const std::string& name : columns) columns_.push_back({name, std::string(usual_unit(name))});
}

bool CsvReader::has_processes() const {
  return std::any_of(columns_.begin(), columns_.end(),
                     [](const Column& column) { return is_process_column(column.name); });
}

bool CsvReader::has_pids() const {
  return std::any_of(columns_.begin(), columns_.end(),
                     [](const Column& column) { return column.name == "pid"; });
}

bool CsvReader::read_header(std::string_view line) {
  std::vector<Column> columns;
  bool has_known = false;
  for (const std::string_view field : split(line, ',')) {
    std::string_view name = trim(field), unit;
    if (const std::size_t bracket = name.find(" ["); bracket != name.npos && name.ends_with("]")) {
      unit = name.substr(bracket + 2, name.size() - bracket - 3);
      name = name.substr(0, bracket);
    }
    if (!is_column_name(name)) return false;
    has_known = has_known || known_column(name) != nullptr || is_process_column(name);
    if (unit.empty()) unit = usual_unit(name);
    columns.push_back({std::string(name), std::string(unit)});
  }
  if (has_known) columns_ = std::move(columns);
  return has_known;
}

// As many fields as columns; the commas too many belong to the one text among them.
std::optional<std::vector<std::string_view>> CsvReader::fields_of(std::string_view line) const {
  std::vector<std::string_view> fields = split(line, ',');
  if (columns_.empty() || fields.size() < columns_.size()) return std::nullopt;
  if (fields.size() > columns_.size()) {
    const auto is_text = [](const Column& column) { return is_free_text(column.name); };
    const auto text = std::find_if(columns_.begin(), columns_.end(), is_text);
    if (text == columns_.end() || std::count_if(columns_.begin(), columns_.end(), is_text) != 1)
      return std::nullopt;
    const auto at = fields.begin() + (text - columns_.begin());
    const auto last = at + static_cast<std::ptrdiff_t>(fields.size() - columns_.size());
    *at = {at->data(), static_cast<std::size_t>(last->data() + last->size() - at->data())};
    fields.erase(at + 1, last + 1);
  }
  for (std::string_view& field : fields) field = trim(field);
  return fields;
}

bool CsvReader::read_gpu(const std::vector<std::string_view>& fields, SmiOutput& output) const {
  GpuSample gpu;
  std::string driver;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const KnownColumn* known = known_column(columns_[i].name);
    gpu.lost = gpu.lost || is_lost(fields[i]);
    if (known == nullptr || is_absent(fields[i])) continue;
    if (known->set == nullptr)
      driver = fields[i];
    else if (!known->set(gpu, fields[i], columns_[i].unit))
      return false;
  }
  if (!driver.empty()) output.driver_version = driver;
  output.gpus.push_back(std::move(gpu));
  return true;
}

bool CsvReader::read_process(const std::vector<std::string_view>& fields, SmiOutput& output) const {
  SmiProcess row;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string& name = columns_[i].name;
    if (is_absent(fields[i])) {
      if (name == "pid") return false;
      continue;
    }
    if (name == "pid") {
      const auto pid = parse_number<std::int64_t>(fields[i]);
      if (!pid || *pid < 0) return false;
      row.process.pid = *pid;
    } else if (is_used_memory(name)) {
      row.process.used = bytes_figure(fields[i], columns_[i].unit);
      if (!row.process.used) return false;
    } else if (name == "name" || name == "process_name") {
      row.name = fields[i];
    } else if (name == "gpu_uuid") {
      row.gpu_uuid = fields[i];
    }
  }
  if (!has_pids()) return true;  // a process that nobody can name
  if (!output.processes) output.processes.emplace();
  output.processes->push_back(std::move(row));
  return true;
}

bool CsvReader::read(std::string_view line, SmiOutput& output) {
  if (read_header(line)) {
    // A query of processes that found none prints its header alone.
    if (has_pids() && !output.processes) output.processes.emplace();
    return true;
  }
  const auto fields = fields_of(line);
  if (!fields) return false;
  return has_processes() ? read_process(*fields, output) : read_gpu(*fields, output);
}

}  // namespace headroom::sources::smi
