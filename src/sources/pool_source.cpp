// Reads the metrics that model pools publish (model/pool_sample.h). Each pool has a file in /dev/shm, which
// it rewrites periodically and removes at its end. Files of ended programs are skipped.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "sources/metric_source.h"
#include "types/pool_sample.h"

namespace headroom::sources {
namespace {

constexpr Nanoseconds kBetweenScans{1'000'000'000};
constexpr std::size_t kMostPools = 32;

// Any user may create files there, so don't follow links and don't block on FIFOs.
UniqueFd open_status(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat facts {};
  if (!fd || ::fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return {};
  return fd;
}

std::optional<PoolStatus> read_status(int fd) {
  std::array<char, kPoolStatusSize> text;
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  if (got <= 0) return std::nullopt;
  return parse_pool_status({text.data(), static_cast<std::size_t>(got)});
}

// The start time is field 22 of "PID (name) S …"; the name may contain anything.
bool is_alive(const std::filesystem::path& root, const PoolStatus& status) {
  const auto text = read_small_file(root / "proc" / std::to_string(status.pool.pid) / "stat");
  if (!text) return false;
  const std::size_t name_ends = text->rfind(')');
  if (name_ends == std::string::npos) return false;
  constexpr std::size_t kStartTicks = 22 - 3;  // the text after the name begins with field 3
  const auto words = split_words(std::string_view(*text).substr(name_ends + 1));
  return words.size() > kStartTicks && parse_number<std::int64_t>(words[kStartTicks]) == status.start_ticks;
}

struct OpenStatus {
  std::string file;
  UniqueFd fd;
  PoolSample last;  // the last complete content
};

// The file name that the content requires. A file with another name is ignored, so no two pools have the
// same name and pid.
std::string file_of(const PoolSample& pool) {
  return fmt::format("{}{}.{}", kPoolStatusPrefix, pool.pid, pool.name);
}

class PoolSource : public MetricSource {
 public:
  explicit PoolSource(std::filesystem::path root) : root_(std::move(root)) { scan(); }
  std::string describe() const override { return "model pools"; }
  bool has_any() const { return !pools_.empty(); }

  // Returns true even without pools: that is not a failure of the source.
  bool read(SystemSample& sample) override {
    if (monotonic_now() - last_scan_ >= kBetweenScans) scan();
    for (OpenStatus& pool : pools_) {
      auto status = read_status(pool.fd.get());
      if (status && file_of(status->pool) == pool.file) pool.last = std::move(status->pool);
      sample.pools.push_back(pool.last);
    }
    return true;
  }

 private:
  void scan() {
    last_scan_ = monotonic_now();
    std::vector<OpenStatus> found;
    for (const std::filesystem::path& path : entries(root_ / "dev/shm")) {
      const std::string file = path.filename().string();
      if (!file.starts_with(kPoolStatusPrefix) || found.size() == kMostPools) continue;
      UniqueFd fd = open_status(path);
      if (!fd) continue;
      // A file that is being written now is kept if it was found before; otherwise the next scan finds it.
      auto status = read_status(fd.get());
      const auto known = std::find_if(pools_.begin(), pools_.end(),
                                      [&](const OpenStatus& pool) { return pool.file == file; });
      if (status && file_of(status->pool) == file && is_alive(root_, *status))
        found.push_back({file, std::move(fd), std::move(status->pool)});
      else if (!status && known != pools_.end())
        found.push_back({file, std::move(fd), std::move(known->last)});
    }
    pools_ = std::move(found);
  }

  std::filesystem::path root_;
  std::vector<OpenStatus> pools_;
  Nanoseconds last_scan_;
};

}  // namespace

std::unique_ptr<MetricSource> make_pool_source(const std::filesystem::path& root) {
  auto source = std::make_unique<PoolSource>(root);
  if (!source->has_any()) return nullptr;
  return source;
}

}  // namespace headroom::sources
