#include "sources/nvidia_smi_reader.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "sources/nvidia_smi_parts.h"

namespace headroom::sources {
namespace {

constexpr std::size_t kLongestMessage = 400;

// What nvidia-smi and its libraries print when they have no figures, in lower case.
constexpr std::array<std::string_view, 9> kMessages{
    "no devices were found",         "nvidia-smi has failed",       "unable to determine the device handle",
    "failed to initialize nvml",     "fallen off the bus",          "nvrmmeminitnvmap failed",
    "nvidia-smi: command not found", "insufficient permissions to", "version mismatch"};

bool is_message(std::string_view line) {
  const std::string lower = to_lower(line);
  return lower.starts_with("warning:") || lower.starts_with("error:") ||
         std::any_of(kMessages.begin(), kMessages.end(),
                     [&](std::string_view known) { return lower.find(known) != std::string::npos; });
}

}  // namespace

namespace smi {

bool is_lost(std::string_view text) {
  return equals_ignoring_case(text, "[GPU is lost]") || equals_ignoring_case(text, "[GPU requires reset]");
}

bool is_absent(std::string_view text) {
  constexpr std::array<std::string_view, 7> kWords{"N/A",  "Not Supported", "ERR!",         "Unknown Error",
                                                   "None", "Not Found",     "Not Available"};
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') return true;  // "[Not Supported]"
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return equals_ignoring_case(text, word); });
}

std::optional<double> figure(std::string_view text, std::string_view unit) {
  struct Unit {
    std::string_view name;
    double factor;
  };
  constexpr std::array<Unit, 10> kUnits{{{"B", 1},
                                         {"KiB", 1024},
                                         {"MiB", 1048576},
                                         {"GiB", 1073741824},
                                         {"%", 1},
                                         {"W", 1},
                                         {"mW", 1e-3},
                                         {"MHz", 1e6},
                                         {"C", 1},
                                         {"", 1}}};
  text = trim(text);
  const std::size_t end = std::min(text.find_first_not_of("+-.0123456789"), text.size());
  const std::string_view own_unit = trim(text.substr(end));
  const auto number = parse_number<double>(text.substr(0, end));
  if (!number || !std::isfinite(*number)) return std::nullopt;
  if (!own_unit.empty()) unit = own_unit;
  const auto* const known =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& one) { return one.name == unit; });
  return known == kUnits.end() ? std::nullopt : std::optional<double>(*number * known->factor);
}

std::optional<Bytes> bytes_figure(std::string_view text, std::string_view unit) {
  const auto count = figure(text, unit);
  if (!count || *count < 0 || *count > 0x1p62) return std::nullopt;
  return Bytes{static_cast<std::int64_t>(*count)};
}

}  // namespace smi

SmiOutput read_nvidia_smi(std::string_view text, const std::vector<std::string>& columns) {
  SmiOutput output;
  smi::CsvReader csv(columns);
  smi::TableReader table;
  for (const std::string_view raw : split(text, '\n')) {
    const std::string_view line = trim(raw);
    if (line.empty()) continue;
    if (table.read(line, output)) continue;
    if (is_message(line))
      output.messages.emplace_back(line.substr(0, kLongestMessage));
    else if (!csv.read(line, output))
      ++output.unread_lines;
  }
  return output;
}

}  // namespace headroom::sources
