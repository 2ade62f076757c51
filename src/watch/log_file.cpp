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

constexpr Nanoseconds kPauseOfRotation{10'000'000'000};  // from one that failed to the next
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
    return usage_error(fmt::format("--output {} does not say its format", path.string()), "",
                       "end its name in .csv, .jsonl or .jsonl.gz");
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
    return usage_error(fmt::format("{} exists", path_.string()), "logs are not overwritten",
                       "give another name to --output, or remove it");
  return input_error(fmt::format("cannot make {}", path_.string()), errno_text(errno),
                     "check the path given to --output");
}

// "log.jsonl" → "log.1.jsonl".
fs::path LogFile::older(int number) const {
  const std::string name = path_.filename().string();
  const std::string suffix = kind_ == Kind::csv ? ".csv" : kind_ == Kind::jsonl ? ".jsonl" : ".jsonl.gz";
  return path_.parent_path() /
         fmt::format("{}.{}{}", name.substr(0, name.size() - suffix.size()), number, suffix);
}

// The file stays open until there is a new one, so whatever fails, the log goes on.
void LogFile::rotate() {
  fs::path aside = older(1);
  if (keep_ == 0) (aside = path_) += ".rotated";
  std::error_code code;
  for (int i = keep_; i >= 1; --i) {
    if (!fs::exists(older(i), code)) continue;
    if (i == keep_)
      fs::remove(older(i), code);
    else
      fs::rename(older(i), older(i + 1), code);
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
  if (!has_failed_)
    log::warning("{} cannot be rotated ({}); the log goes on in it, and it is tried again", path_.string(),
                 errno_text(why));
  has_failed_ = true;
  rotate_after_ = monotonic_now() + kPauseOfRotation;
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

// All of it, or nothing: what was written of a part is taken back.
bool LogFile::put(std::string_view bytes) {
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
  if (kind_ == Kind::gzip ? put(gzip(pending_)) : put(pending_)) {
    if (is_failing_) log::info("{} can be written again", path_.string());
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
  if (size_ == 0) csv_ = {};  // the header was among it
}

Status LogFile::finish() {
  flush();
  lost_ += pending_samples_;
  pending_samples_ = 0;
  if (lost_ == 0) return {};
  return failure(fmt::format("{} samples are missing in {}", lost_, path_.string()),
                 "it could not be written", "check the free space of its folder");
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
