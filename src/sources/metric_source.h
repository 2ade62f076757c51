// The interface of a metric source, and helpers for sources. system_sampler.cpp lists all sources. To add
// one, write NAME_source.cpp with a make_NAME_source() that returns nullptr if the machine lacks the source.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "types/sample.h"

namespace headroom::sources {
namespace fs = std::filesystem;

class MetricSource {
 public:
  virtual ~MetricSource() = default;
  // A description such as "thermal: 3 zones", for the log.
  virtual std::string describe() const = 0;
  // Fills this source's fields of the sample and leaves unreadable ones absent. Returns false if nothing
  // could be read.
  virtual bool read(SystemSample& sample) = 0;
};

using SourcePointer = std::unique_ptr<MetricSource>;
using MakeMetricSource = SourcePointer(const fs::path& root);
MakeMetricSource make_meminfo_source, make_vmstat_source, make_pressure_source, make_buddyinfo_source,
    make_zram_source, make_cgroup_source, make_cpu_load_source, make_cpu_clock_source, make_thermal_source,
    make_power_source, make_cpu_temperature_source, make_gpu_source, make_memory_clock_source,
    make_engine_source, make_fan_source, make_power_mode_source, make_nvmap_source, make_kernel_log_source,
    make_throttle_source, make_pool_source, make_open_files_source;

// What is read of one file of /proc or /sys. The largest ones have some ten KiB.
inline constexpr std::size_t kLargestFigures = 1 << 20;

// A file of /proc or /sys that stays open and is reread from its start: opening costs more than reading.
class RereadFile {
 public:
  RereadFile() = default;
  explicit RereadFile(const fs::path& path);
  bool exists() const { return static_cast<bool>(fd_); }
  // The whole content, up to kLargestFigures, valid until the next call. Empty if it cannot be read now (a
  // sleeping sensor).
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

// A source from its description and the function of MetricSource::read().
template <class Read>
SourcePointer make_source(std::string description, Read read_sample) {
  struct Source : MetricSource {
    Source(std::string words, Read function) : text(std::move(words)), call(std::move(function)) {}
    std::string describe() const override { return text; }
    bool read(SystemSample& sample) override { return call(sample); }
    std::string text;
    Read call;
  };
  return std::make_unique<Source>(std::move(description), std::move(read_sample));
}

// A source of one text file: calls `read_text` with its content. nullptr if there is no such file.
template <class Read>
SourcePointer make_file_source(const fs::path& path, std::string description, Read read_text) {
  RereadFile file(path);
  if (!file.exists()) return nullptr;
  return make_source(std::move(description),
                     [file = std::move(file), read_text = std::move(read_text)](
                         SystemSample& sample) mutable { return read_text(file.read(), sample); });
}

// The text after `key` in the line that starts with it, or nothing.
std::optional<std::string_view> rest_of_line(std::string_view text, std::string_view key);
// Removes the first line (without its newline) or word from the text and returns it; empty at the end.
std::string_view take_line(std::string_view& text);
std::string_view take_word(std::string_view& text);
// The value in bytes of a "Key:   123 kB" line, or nothing.
std::optional<Bytes> kib_line(std::string_view text, std::string_view key);
// The text of a file without white space and zero bytes at its ends; empty if the file is absent.
std::string file_text(const fs::path& path);
// The entries of a folder whose names begin with `prefix`, in natural order; empty if the folder is absent.
std::vector<fs::path> entries(const fs::path& folder, std::string_view prefix = {});
// The first of the files below `root` that exists; otherwise a file that does not exist.
RereadFile first_file(const fs::path& root, std::initializer_list<const char*> paths);

// The figures of /proc/meminfo, from this machine or from a dump of another one.
class Meminfo {
 public:
  static constexpr std::size_t kKeys = 23;  // a kernel provides only some of them
  // Returns the key of a line "Key:   123 kB" (the unit is optional), or nothing if the line has another
  // form. Stores the figure if Headroom uses it.
  std::optional<std::string_view> read_line(std::string_view line);
  // Fills the sample's fields. A field that is computed from several figures is absent if one of them is.
  void fill(SystemSample& sample) const;
  friend bool operator==(const Meminfo&, const Meminfo&) = default;

 private:
  std::array<std::optional<Bytes>, kKeys> figures_;
};
Meminfo read_meminfo(std::string_view text);

// Parses a kernel message without its prefix: an OOM kill with its victim, or an error of NvMap or the GPU
// driver. Absent for all other messages. In "NvMapMemAllocInternalTagged: 1075072515 error 12" the numbers
// are an ioctl number and ENOMEM, not a size. The anon-rss of a kill contains no GPU memory.
std::optional<KernelEvent> kernel_event_of(std::string_view message);

// Parses the list of NvMap's clients (debugfs nvmap/iovmm/clients). Adds a process with its `gpu` memory for
// each client, and returns the total. The total is larger than the sum if memory is also shared with
// non-processes. Absent if the text has no total.
std::optional<Bytes> read_nvmap_clients(std::string_view text, std::vector<ProcessSample>& processes);

}  // namespace headroom::sources
