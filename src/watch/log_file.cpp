#include "watch/log_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <new>
#include <system_error>

#include "base/log.h"

namespace headroom::watch {
namespace fs = std::filesystem;
namespace {

constexpr Nanoseconds kRotationRetryDelay{10'000'000'000};  // after a failed rotation
constexpr Nanoseconds kLongestPending{5'000'000'000};
constexpr std::size_t kGzipAt = 256 << 10;
constexpr std::size_t kMostPending = 4 << 20;  // while the disk is full

}  // namespace

Result<LogFile> LogFile::create(fs::path path, Bytes rotate_at, int keep) {
  const std::string name = path.filename().string();
  Kind kind = Kind::jsonl;
  if (name.ends_with(".csv"))
    kind = Kind::csv;
  else if (name.ends_with(".jsonl.gz"))
    kind = Kind::gzip;
  else if (!name.ends_with(".jsonl"))
    return usage_error(fmt::format("--output {} has an unknown format", path.string()), "",
                       "use a name that ends in .csv, .jsonl or .jsonl.gz");
  LogFile file(std::move(path), kind, rotate_at, keep);
  if (auto opened = file.open(); !opened) return forward_error(opened);
  return file;
}

Status LogFile::open() {
  UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (file) {
    file_ = std::move(file);
    size_ = 0;
    csv_ = {};
    return {};
  }
  if (errno == EEXIST)
    return usage_error(fmt::format("{} already exists", path_.string()), "logs are not overwritten",
                       "choose another name for --output, or remove the file");
  return input_error(fmt::format("cannot create {}", path_.string()), errno_text(errno),
                     "check the path given to --output");
}

// "log.jsonl" → "log.1.jsonl".
fs::path LogFile::rotated_path(int number) const {
  const std::string name = path_.filename().string();
  const std::string suffix = kind_ == Kind::csv ? ".csv" : kind_ == Kind::jsonl ? ".jsonl" : ".jsonl.gz";
  return path_.parent_path() /
         fmt::format("{}.{}{}", name.substr(0, name.size() - suffix.size()), number, suffix);
}

// The old file stays open until the new one is created, so the log continues whatever fails.
void LogFile::rotate() {
  fs::path aside = rotated_path(1);
  if (keep_ == 0) (aside = path_) += ".rotated";
  std::error_code code;
  for (int i = keep_; i >= 1; --i) {
    if (!fs::exists(rotated_path(i), code)) continue;
    if (i == keep_)
      fs::remove(rotated_path(i), code);
    else
      fs::rename(rotated_path(i), rotated_path(i + 1), code);
  }
  fs::rename(path_, aside, code);
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
  member.resize(member.size() - stream.avail_out);
  deflateEnd(&stream);
  return member;
}

}  // namespace headroom::watch
