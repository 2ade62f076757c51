#include "watch/sample_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <iterator>
#include <new>
#include <system_error>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "monitoring/sample_metrics.h"
#include "report/run/report_json.h"
#include "watch/alert_watch.h"

namespace headroom::watch {
namespace fs = std::filesystem;
namespace {

constexpr Nanoseconds kRotationRetryDelay{10'000'000'000};  // after a failed rotation
constexpr Nanoseconds kLongestPending{5'000'000'000};
constexpr std::size_t kGzipAt = 256 << 10;
constexpr std::size_t kMostPending = 4 << 20;  // while the disk is full

// As short as possible; bytes and counts are integers.
void append_number(std::string& text, double value) {
  constexpr double kWhole = 1e15;
  if (std::abs(value) < kWhole && value == std::floor(value))
    fmt::format_to(std::back_inserter(text), "{}", static_cast<std::int64_t>(value));
  else
    fmt::format_to(std::back_inserter(text), "{:.6g}", value);
}

std::string in_percent(const std::optional<double>& percent) {
  return percent ? fmt::format(" ({:.0f} %)", *percent) : std::string();
}

}  // namespace

void append_json_line(std::string& text, const SystemSample& sample, std::span<const AlertEvent> alerts) {
  report::append_json(text, sample);
  text.pop_back();  // the closing brace: fields that only a log has follow
  if (const auto percent = monitoring::percent_of(sample.ram_used, sample.ram_total))
    fmt::format_to(std::back_inserter(text), ",\"ram_used_percent\":{:.2f}", *percent);
  if (sample.unknown_tokens.empty()) text += ",\"unknown_tokens\":[]";
  if (!alerts.empty()) {
    Json events = Json::array();
    for (const AlertEvent& event : alerts) events.push_back(to_json(event));
    text += ",\"alerts\":" + to_line(events);
  }
  text += "}\n";
}

std::string json_line(const SystemSample& sample, std::span<const AlertEvent> alerts) {
  std::string text;
  append_json_line(text, sample, alerts);
  return text;
}

void CsvRows::append(std::string& text, const SystemSample& sample) {
  if (columns_.empty()) {
    monitoring::for_each_metric(sample,
                                [this](std::string_view name, double) { columns_.emplace_back(name); });
    text += "time_seconds,unix_time_seconds";
    for (const std::string& column : columns_) text += "," + csv_field(column);
    text += "\n";
  }
  cells_.resize(columns_.size());
  for (std::string& cell : cells_) cell.clear();
  std::size_t next = 0;
  monitoring::for_each_metric(sample, [this, &next](std::string_view name, double value) {
    if (next >= columns_.size() || columns_[next] != name)
      next = static_cast<std::size_t>(std::ranges::find(columns_, name) - columns_.begin());
    if (next < columns_.size())
      append_number(cells_[next++], value);
    else if (!std::exchange(has_warned_, true))
      log::warning(
          "{} first appeared after the first sample, so the CSV has no column for it; JSON lines include it",
          name);
  });
  fmt::format_to(std::back_inserter(text), "{:.6f},", sample.time.seconds());
  if (sample.unix_time) fmt::format_to(std::back_inserter(text), "{:.3f}", sample.unix_time->seconds());
  for (const std::string& cell : cells_) {
    text += ',';
    text += cell;
  }
  text += '\n';
}

std::string line_for_person(const SystemSample& sample) {
  std::string line = fmt::format("{:>9}", fmt::format("{:.1f} s", sample.time.seconds()));
  const auto add = [&](const std::string& text) { line += "  " + text; };
  if (const auto percent = monitoring::percent_of(sample.ram_used, sample.ram_total))
    add(fmt::format("RAM {} of {} ({:.0f} %)", format_bytes(*sample.ram_used),
                    format_bytes(*sample.ram_total), *percent));
  if (sample.nvmap_used) add(fmt::format("NvMap {}", format_bytes(*sample.nvmap_used)));
  if (sample.largest_free_block)
    add(fmt::format("largest block {}", format_bytes(*sample.largest_free_block)));
  if (sample.swap_used && sample.swap_total && sample.swap_total->count > 0)
    add(fmt::format("swap {}", format_bytes(*sample.swap_used)));
  if (sample.cpu_percent) add(fmt::format("CPU {:.0f} %", *sample.cpu_percent));
  if (sample.gpu_percent) add(fmt::format("GPU {:.0f} %", *sample.gpu_percent));
  for (const GpuSample& gpu : sample.gpus)
    if (gpu.memory_used)
      add(fmt::format("GPU{} memory {}{}", gpu.index ? fmt::format(" {}", *gpu.index) : "",
                      format_bytes(*gpu.memory_used),
                      in_percent(monitoring::percent_of(gpu.memory_used, gpu.memory_total))));
  const auto followed = [&](std::string_view name) -> std::optional<double> {
    const auto found = std::ranges::find(sample.other, name, &Reading::name);
    return found != sample.other.end() ? std::optional(found->value) : std::nullopt;
  };
  if (const auto resident = followed("followed_rss_bytes"))
    add(fmt::format("followed {}{}", format_bytes({std::llround(*resident)}),
                    in_percent(followed("followed_rss_percent"))));
  if (const auto descriptors = followed("followed_descriptors"))
    add(fmt::format("{:.0f} descriptors", *descriptors));
  const auto hottest = std::ranges::max_element(sample.temperatures_celsius, {}, &Reading::value);
  if (hottest != sample.temperatures_celsius.end())
    add(fmt::format("{} {:.0f} °C", hottest->name, hottest->value));
  if (const std::size_t unknown = sample.unknown_tokens.size(); unknown > 0)
    add(fmt::format("{} unknown token{}", unknown, unknown == 1 ? "" : "s"));
  return without_terminal_control(line) + "\n";  // sensor names in a log may contain anything
}

std::string_view LogFile::suffix_of(Kind kind) {
  return kind == Kind::csv ? ".csv" : kind == Kind::jsonl ? ".jsonl" : ".jsonl.gz";
}

Result<LogFile> LogFile::create(fs::path path, Bytes rotate_at, int keep) {
  for (const Kind kind : {Kind::csv, Kind::jsonl, Kind::gzip}) {
    if (!path.filename().string().ends_with(suffix_of(kind))) continue;
    LogFile file(std::move(path), kind, rotate_at, keep);
    file.make_way();
    if (auto opened = file.open(); !opened) return forward_error(opened);
    return file;
  }
  return usage_error(fmt::format("--output {} has an unknown format", path.string()), "",
                     "use a name that ends in .csv, .jsonl or .jsonl.gz");
}

Status LogFile::open() {
  UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (file) {
    [[maybe_unused]] const int locked = ::flock(file.get(), LOCK_EX | LOCK_NB);  // for make_way()
    file_ = std::move(file);
    size_ = 0;
    csv_ = {};
    return {};
  }
  if (errno == EEXIST)
    return usage_error(fmt::format("{} already exists", path_.string()), "logs are not overwritten",
                       "choose another name for --output, or move it aside with --rotate");
  return input_error(fmt::format("cannot create {}", path_.string()), errno_text(errno),
                     "check the path given to --output");
}

// "log.jsonl" → "log.1.jsonl".
fs::path LogFile::rotated_path(int number) const {
  const std::string name = path_.filename().string();
  const std::string_view suffix = suffix_of(kind_);
  return path_.parent_path() /
         fmt::format("{}.{}{}", name.substr(0, name.size() - suffix.size()), number, suffix);
}

// Renames the current file and the older ones; the oldest is replaced. A watch that was killed here leaves a
// number without a file: older files than that stay.
std::error_code LogFile::move_aside(const fs::path& aside) const {
  std::error_code code;
  int last = 1;
  while (last < keep_ && fs::exists(rotated_path(last), code)) ++last;
  for (int i = last; i > 1 && !code; --i) fs::rename(rotated_path(i - 1), rotated_path(i), code);
  if (!code) fs::rename(path_, aside, code);
  return code;
}

// Makes way for the new log: removes an empty file, and moves an earlier log aside if --rotate allows it. A
// file that another watch writes to is locked, and stays.
void LogFile::make_way() const {
  const UniqueFd earlier(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!earlier || ::fstat(earlier.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  if (::flock(earlier.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (info.st_size == 0)
    ::unlink(path_.c_str());
  else if (rotate_at_.count > 0 && keep_ > 0)
      // If this fails, the log exists, and opening it says so.
      [[maybe_unused]]
    const std::error_code failed = move_aside(rotated_path(1));
}

// The old file stays open until the new one is created, so the log continues whatever fails.
void LogFile::rotate() {
  fs::path aside = rotated_path(1);
  if (keep_ == 0) (aside = path_) += ".rotated";
  std::error_code code = move_aside(aside);
  int why = code.value();
  if (!code) {
    if (auto opened = open(); opened) {
      if (keep_ == 0) fs::remove(aside, code);
      return;
    }
    why = errno;
    fs::rename(aside, path_, code);
  }
  if (!rotation_failed_)
    log::warning("cannot rotate {}: {}; the log continues in this file, and the rotation is tried again",
                 path_.string(), errno_text(why));
  rotation_failed_ = true;
  rotate_after_ = monotonic_now() + kRotationRetryDelay;
}

void LogFile::write(const SystemSample& sample, std::span<const AlertEvent> alerts) {
  if (kind_ == Kind::csv)
    csv_.append(pending_, sample);
  else
    append_json_line(pending_, sample, alerts);
  ++pending_samples_;
  const Nanoseconds now = monotonic_now();
  if (kind_ != Kind::gzip || pending_.size() >= kGzipAt || now - last_flush_ >= kLongestPending) {
    last_flush_ = now;
    flush();
  }
  const bool is_full = rotate_at_.count > 0 && size_ >= rotate_at_.count;
  if (is_full && pending_.empty() && now >= rotate_after_) rotate();
}

// Writes all bytes or none: a partial write is truncated.
bool LogFile::write_whole(std::string_view bytes) {
  if (!file_) return false;
  if (write_all(file_.get(), bytes)) {
    size_ += static_cast<std::int64_t>(bytes.size());
    return true;
  }
  const int why = errno;
  [[maybe_unused]] const int cut = ::ftruncate(file_.get(), size_);
  ::lseek(file_.get(), size_, SEEK_SET);
  errno = why;
  return false;
}

void LogFile::flush() {
  if (pending_.empty()) return;
  if (kind_ == Kind::gzip ? write_whole(gzip(pending_)) : write_whole(pending_)) {
    if (is_failing_) log::info("writing {} works again", path_.string());
    is_failing_ = false;
    pending_.clear();
    pending_samples_ = 0;
    return;
  }
  if (!is_failing_)
    log::warning("cannot write {}: {}; trying again with each sample", path_.string(), errno_text(errno));
  is_failing_ = true;
  if (pending_.size() < kMostPending) return;
  lost_ += pending_samples_;
  pending_.clear();
  pending_samples_ = 0;
  if (size_ == 0) csv_ = {};  // the dropped text included the header
}

Status LogFile::finish() {
  flush();
  lost_ += pending_samples_;
  pending_samples_ = 0;
  if (lost_ == 0) return {};
  return failure(fmt::format("{} samples are missing in {}", lost_, path_.string()),
                 "the file could not be written", "check the free space of its folder");
}

std::string gzip(std::string_view bytes) {
  constexpr int kLargestWindow = 15, kGzipHeader = 16, kDefaultMemory = 8;
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kLargestWindow + kGzipHeader, kDefaultMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string member(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // zlib only reads it
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(member.data());
  stream.avail_out = static_cast<uInt>(member.size());
  ::deflate(&stream, Z_FINISH);
  member.erase(member.size() - stream.avail_out);
  deflateEnd(&stream);
  return member;
}

}  // namespace headroom::watch
