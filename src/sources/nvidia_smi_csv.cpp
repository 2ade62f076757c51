#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"
#include "base/utf8.h"
#include "sources/nvidia_smi_reader.h"
#include "sources/nvml_device.h"

namespace headroom::sources::smi {
namespace {

// Stores the text of a cell in a GPU's figures. Returns false if the text is not a value of this column.
using Setter = bool (*)(GpuSample& gpu, std::string_view text, std::string_view unit);

template <std::optional<Bytes> GpuSample::*member>
bool set_bytes(GpuSample& gpu, std::string_view text, std::string_view unit) {
  gpu.*member = bytes_figure(text, unit);
  return (gpu.*member).has_value();
}

// Load, power and clock are never negative; a temperature can be.
template <std::optional<double> GpuSample::*member, Quantity quantity>
bool set_figure(GpuSample& gpu, std::string_view text, std::string_view unit) {
  gpu.*member = figure(text, quantity, unit);
  return gpu.*member && (quantity == Quantity::celsius || *(gpu.*member) >= 0);
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

constexpr std::array<KnownColumn, 22> kColumns{{
    {"index", "", "", set_index},
    {"name", "gpu_name", "", set_text<&GpuSample::name>},
    {"uuid", "gpu_uuid", "", set_text<&GpuSample::uuid>},
    {"pci.bus_id", "gpu_bus_id", "", set_text<&GpuSample::pci_bus_id>},
    {"memory.total", "", "MiB", set_bytes<&GpuSample::memory_total>},
    {"memory.used", "", "MiB", set_bytes<&GpuSample::memory_used>},
    {"memory.free", "", "MiB", set_bytes<&GpuSample::memory_free>},
    {"memory.reserved", "", "MiB", set_bytes<&GpuSample::memory_reserved>},
    {"utilization.gpu", "", "%", set_figure<&GpuSample::gpu_percent, Quantity::percent>},
    {"utilization.memory", "", "%", set_figure<&GpuSample::memory_percent, Quantity::percent>},
    {"utilization.encoder", "", "%", set_figure<&GpuSample::encoder_percent, Quantity::percent>},
    {"utilization.decoder", "", "%", set_figure<&GpuSample::decoder_percent, Quantity::percent>},
    {"power.draw", "", "W", set_figure<&GpuSample::power_watts, Quantity::watts>},
    {"power.draw.instant", "", "W", set_figure<&GpuSample::power_watts, Quantity::watts>},
    {"power.draw.average", "", "W", set_figure<&GpuSample::power_watts, Quantity::watts>},
    {"power.limit", "enforced.power.limit", "W", set_figure<&GpuSample::power_limit_watts, Quantity::watts>},
    {"temperature.gpu", "", "C", set_figure<&GpuSample::temperature_celsius, Quantity::celsius>},
    {"clocks.current.graphics", "clocks.gr", "MHz",
     set_figure<&GpuSample::graphics_clock_hz, Quantity::hertz>},
    {"clocks.current.sm", "clocks.sm", "MHz", set_figure<&GpuSample::sm_clock_hz, Quantity::hertz>},
    {"clocks.current.memory", "clocks.mem", "MHz", set_figure<&GpuSample::memory_clock_hz, Quantity::hertz>},
    {"clocks_event_reasons.active", "clocks_throttle_reasons.active", "", set_reasons},
    {"mig.mode.current", "mig.mode", "", set_mig},
}};

const KnownColumn* known_column(std::string_view name) {
  const auto* const known = std::ranges::find_if(kColumns, [&](const KnownColumn& column) {
    return column.name == name || (!column.short_name.empty() && column.short_name == name);
  });
  return known == kColumns.end() ? nullptr : known;
}

// Memory of a process; "memory.used" is a GPU's.
bool is_used_memory(std::string_view name) { return name == "used_memory" || name == "used_gpu_memory"; }

bool is_process_column(std::string_view name) {
  return name == "pid" || name == "process_name" || is_used_memory(name);
}

// The unit of a column if neither the header nor the row contains it.
std::string_view usual_unit(std::string_view name) {
  if (is_used_memory(name)) return "MiB";
  const KnownColumn* known = known_column(name);
  return known == nullptr ? "" : known->unit;
}

// Names may contain commas, and nvidia-smi quotes nothing.
bool is_free_text(std::string_view name) {
  return name == "name" || name == "gpu_name" || name == "process_name";
}

// A header cell such as "memory.used [MiB]" is a name of words and dots ("encoder.stats.averageFps") and a
// unit.
bool is_column_name(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._") ==
             text.npos &&
         text.find_first_not_of("0123456789.") != text.npos;
}

bool is_value(std::string_view text) { return is_absent(text) || is_figure(text); }

// Text of unknown origin, shortened and quoted for a message.
std::string quoted(std::string_view text) {
  constexpr int kWidth = 60;
  return "'" + fit_to_width(text, kWidth) + "'";
}

}  // namespace

CsvReader::CsvReader(const std::vector<std::string>& columns) {
  for (const std::string& name : columns) columns_.push_back({name, std::string(usual_unit(name))});
}

bool CsvReader::has_processes() const {
  return std::ranges::any_of(columns_, [](const Column& column) { return is_process_column(column.name); });
}

bool CsvReader::has_pids() const {
  return std::ranges::any_of(columns_, [](const Column& column) { return column.name == "pid"; });
}

std::optional<std::vector<CsvReader::Column>> CsvReader::header_of(std::string_view line, char separator) {
  std::vector<Column> columns;
  for (const std::string_view field : split(line, separator)) {
    std::string_view name = trim(field), unit;
    if (const std::size_t bracket = name.find(" ["); bracket != name.npos && name.ends_with("]")) {
      unit = name.substr(bracket + 2, name.size() - bracket - 3);
      name = name.substr(0, bracket);
    }
    if (!is_column_name(name)) return std::nullopt;
    if (unit.empty()) unit = usual_unit(name);
    columns.push_back({std::string(name), std::string(unit)});
  }
  return columns;
}

bool CsvReader::read_header(std::string_view line) {
  const char separator = line.find(';') == line.npos ? ',' : ';';
  auto columns = header_of(line, separator);
  if (!columns || std::none_of(columns->begin(), columns->end(), [](const Column& column) {
        return known_column(column.name) != nullptr || is_process_column(column.name);
      }))
    return false;
  columns_ = std::move(*columns);
  separator_ = separator;
  has_header_ = true;
  return true;
}

// Splits a row into as many fields as columns. If there are too many commas, they belong to the only
// free-text column. A value or "[N/A]" between these commas is not part of a GPU's name: then the row has
// an unnamed column, and is rejected.
std::optional<CsvReader::Fields> CsvReader::fields_of(std::string_view line) const {
  Fields fields = split(line, separator_);
  for (std::string_view& field : fields) field = trim(field);
  if (columns_.empty() || fields.size() < columns_.size()) return std::nullopt;
  if (fields.size() > columns_.size()) {
    const auto is_text = [](const Column& column) { return is_free_text(column.name); };
    const auto text = std::ranges::find_if(columns_, is_text);
    if (text == columns_.end() || std::ranges::count_if(columns_, is_text) != 1) return std::nullopt;
    const auto at = fields.begin() + (text - columns_.begin());
    const auto last = at + static_cast<std::ptrdiff_t>(fields.size() - columns_.size());
    if (!has_processes() && std::any_of(at, last + 1, is_value)) return std::nullopt;
    *at = {at->data(), static_cast<std::size_t>(last->data() + last->size() - at->data())};
    fields.erase(at + 1, last + 1);
  }
  return fields;
}

bool CsvReader::read_cell(const Column& column, std::string_view text, GpuSample& gpu) {
  const KnownColumn* const known = known_column(column.name);
  gpu.lost = gpu.lost || is_lost(text);
  return known == nullptr || is_absent(text) || known->set(gpu, text, column.unit);
}

bool CsvReader::read_cell(const Column& column, std::string_view text, SmiProcess& row) {
  const std::string& name = column.name;
  if (is_absent(text)) return name != "pid";
  if (name == "pid") {
    const auto pid = parse_number<std::int64_t>(text);
    if (!pid || *pid < 0) return false;
    row.process.pid = *pid;
  } else if (is_used_memory(name)) {
    row.process.used = bytes_figure(text, column.unit);
    return row.process.used.has_value();
  } else if (name == "gpu_uuid") {
    row.gpu_uuid = text;
  }
  return true;
}

bool CsvReader::read_gpu(const Fields& fields, SmiOutput& output) const {
  GpuSample gpu;
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (!read_cell(columns_[i], fields[i], gpu)) return false;
  output.gpus.push_back(std::move(gpu));
  return true;
}

bool CsvReader::read_process(const Fields& fields, SmiOutput& output) const {
  SmiProcess row;
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (!read_cell(columns_[i], fields[i], row)) return false;
  if (has_pids()) output.processes.push_back(std::move(row));  // without pids, a process cannot be identified
  return true;
}

bool CsvReader::read(std::string_view text, SmiOutput& output) {
  std::string buffer;
  const std::string_view line = without_quotes(text, buffer);
  if (read_header(line)) return true;
  const auto fields = fields_of(line);
  if (!fields) return false;
  return has_processes() ? read_process(*fields, output) : read_gpu(*fields, output);
}

// A row before any header, or a header without a usable column. Other text is not explained.
ParseProblem CsvReader::problem_of_columns(std::string_view line) const {
  const Fields fields = split(line, separator_);
  const auto header = header_of(line, separator_);
  if (header && std::any_of(header->begin(), header->end(),
                            [](const Column& column) { return is_nvidia_smi_column(column.name); }))
    return {fmt::format("{} has no column that Headroom uses", quoted(line)),
            "print it with nvidia-smi --query-gpu=timestamp,index,memory.used,memory.total --format=csv"};
  if (std::ranges::any_of(fields, [](std::string_view field) { return is_value(trim(field)); }))
    return {fmt::format("{} has no header that names its columns", quoted(line)),
            "name them as in the query, for example --columns timestamp,index,memory.used"};
  return {};
}

ParseProblem CsvReader::problem_of_row(const Fields& fields) const {
  GpuSample gpu;
  SmiProcess process;
  std::size_t at = 0;
  while (at + 1 < fields.size() && (has_processes() ? read_cell(columns_[at], fields[at], process)
                                                    : read_cell(columns_[at], fields[at], gpu)))
    ++at;
  return {fmt::format("{} is not a value of {}", quoted(fields[at]), columns_[at].name), {}};
}

ParseProblem CsvReader::problem_of_line(std::string_view line) const {
  if (columns_.empty()) return problem_of_columns(line);
  const std::size_t cells = split(line, separator_).size();
  const auto fields = fields_of(line);
  ParseProblem problem =
      fields
          ? problem_of_row(*fields)
          : ParseProblem{fmt::format("{} has {} cell{} for {} column{}", quoted(line), cells,
                                     cells == 1 ? "" : "s", columns_.size(), columns_.size() == 1 ? "" : "s"),
                         {}};
  problem.fix = has_header_ ? "print each query with its own header, as --format=csv does"
                            : "pass all names of the query to --columns, in the same order";
  return problem;
}

}  // namespace headroom::sources::smi
