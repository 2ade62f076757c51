// The interface of a metric source. Each source is one file, and metric_source_list.cpp lists them all. To
// add one, write NAME_source.cpp with a make_NAME_source() that returns nullptr if the machine lacks the
// source.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "types/sample.h"

namespace headroom::sources {

class MetricSource {
 public:
  virtual ~MetricSource() = default;
  // A description such as "thermal: 3 zones", for the log.
  virtual std::string describe() const = 0;
  // Fills this source's fields of the sample and leaves unreadable ones absent. Returns false if nothing
  // could be read.
  virtual bool read(SystemSample& sample) = 0;
};

using MetricSourceMaker = std::unique_ptr<MetricSource> (*)(const std::filesystem::path& root);

std::unique_ptr<MetricSource> make_meminfo_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_vmstat_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_pressure_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_buddyinfo_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_zram_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_cgroup_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_cpu_load_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_cpu_clock_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_thermal_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_power_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_cpu_temperature_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_gpu_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_memory_clock_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_engine_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_fan_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_power_mode_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_nvmap_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_kernel_log_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_throttle_source(const std::filesystem::path& root);
std::unique_ptr<MetricSource> make_pool_source(const std::filesystem::path& root);

// All sources, in the order in which they are read. NVML (nvml_source.h) is not among them: it is a library
// instead of a file tree, and runs in a separate process.
const std::vector<MetricSourceMaker>& metric_source_list();

// A file of /proc or /sys that stays open and is reread from its start: opening costs more than reading.
class RereadFile {
 public:
  RereadFile() = default;
  explicit RereadFile(const std::filesystem::path& path);
  bool exists() const { return static_cast<bool>(fd_); }
  // The whole content, valid until the next call. Empty if it cannot be read now (a sleeping sensor).
  std::string_view read();
  // The file's number as bytes, if it is below 2^56. Absent for "no limit": control groups then contain
  // "max" or a number near 2^63.
  std::optional<Bytes> read_bytes() const;
  // The number in a one-number file of /sys.
  std::optional<std::int64_t> read_integer() const;

 private:
  UniqueFd fd_;
  std::string buffer_;
};

// The text after `key` in the line that starts with it, or nothing.
std::optional<std::string_view> rest_of_line(std::string_view text, std::string_view key);
// Removes the first word from the text and returns it; empty at the end.
std::string_view take_word(std::string_view& text);
// The value in bytes of a "Key:   123 kB" line, or nothing.
std::optional<Bytes> kib_line(std::string_view text, std::string_view key);
// The value of a "key 123" line, or nothing.
std::optional<std::int64_t> plain_line(std::string_view text, std::string_view key);
// The text of a one-line file without its newline; empty if the file is absent.
std::string one_line(const std::filesystem::path& path);
// The entries of a folder in natural order; empty if the folder is absent.
std::vector<std::filesystem::path> entries(const std::filesystem::path& folder);

}  // namespace headroom::sources
