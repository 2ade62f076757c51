// One source of metrics: one file each, all in metric_source_list.cpp. To add one, write NAME_source.cpp with
// a make_NAME_source() that gives nullptr where the machine does not have it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "model/sample.h"

namespace headroom::sources {

class MetricSource {
 public:
  virtual ~MetricSource() = default;
  // "thermal: 3 zones", for the log.
  virtual std::string describe() const = 0;
  // Fills its part of the sample; leaves absent what cannot be read now. False if that was everything.
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

// All of them, in the order in which they are read. NVML's (nvml_source.h) is not among them: a library, not
// a file tree, and one that belongs into a process of its own.
const std::vector<MetricSourceMaker>& metric_source_list();

// A file of /proc or /sys that stays open and is read again from its start: an open costs more than the read.
class RereadFile {
 public:
  RereadFile() = default;
  explicit RereadFile(const std::filesystem::path& path);
  bool exists() const { return static_cast<bool>(fd_); }
  // The whole content, valid until the next call; empty when it cannot be read now (a sleeping sensor).
  std::string_view read();
  // The file's number as bytes, of one below 2^62 (control groups write "max", or a number near 2^63, for
  // none).
  std::optional<Bytes> read_bytes() const;
  // The one number of a file of /sys.
  std::optional<std::int64_t> read_integer() const;

 private:
  UniqueFd fd_;
  std::string buffer_;
};

// What follows `key` in the line that starts with it, or nothing.
std::optional<std::string_view> rest_of_line(std::string_view text, std::string_view key);
// Takes the first word off the text; empty at its end.
std::string_view take_word(std::string_view& text);
// The value in bytes of a "Key:   123 kB" line, or nothing.
std::optional<Bytes> kib_line(std::string_view text, std::string_view key);
// The value of a "key 123" line, or nothing.
std::optional<std::int64_t> plain_line(std::string_view text, std::string_view key);
// Text of a one-line file without its newline; empty if absent.
std::string one_line(const std::filesystem::path& path);
// The entries of a folder in natural order; empty if it is absent.
std::vector<std::filesystem::path> entries(const std::filesystem::path& folder);

}  // namespace headroom::sources
