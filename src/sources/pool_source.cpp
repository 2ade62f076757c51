// Reads the metrics that model pools publish (types/sample.h). Each pool has a file in /dev/shm, which
// it rewrites periodically and removes at its end. Files of ended programs are skipped.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "sources/metric_source.h"
#include "sources/process_table.h"
#include "types/sample.h"

namespace headroom::sources {
namespace {

constexpr Nanoseconds kBetweenScans{1'000'000'000};
constexpr std::size_t kMostPools = 32;

// Any user may create files there, so don't follow links and don't block on FIFOs.
UniqueFd open_status(const fs::path& path) {
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

class Pools {
 public:
  explicit Pools(fs::path root) : root_(std::move(root)) { scan(); }
  bool exist() const { return !pools_.empty(); }

  // Returns true even without pools: that is not a failure of the source.
  bool operator()(SystemSample& sample) {
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
    for (const fs::path& path : entries(root_ / "dev/shm", kPoolStatusPrefix)) {
      const std::string file = path.filename().string();
      if (found.size() == kMostPools) break;
      UniqueFd fd = open_status(path);
      if (!fd) continue;
      // A file that is being written now is kept if it was found before; otherwise the next scan finds it.
      auto status = read_status(fd.get());
      const auto known =
          std::ranges::find_if(pools_, [&](const OpenStatus& pool) { return pool.file == file; });
      if (status && file_of(status->pool) == file &&
          read_process_start(static_cast<pid_t>(status->pool.pid), root_) == status->start_ticks)
        found.push_back({file, std::move(fd), std::move(status->pool)});
      else if (!status && known != pools_.end())
        found.push_back({file, std::move(fd), std::move(known->last)});
    }
    pools_ = std::move(found);
  }

  fs::path root_;
  std::vector<OpenStatus> pools_;
  Nanoseconds last_scan_;
};

}  // namespace

SourcePointer make_pool_source(const fs::path& root) {
  Pools pools(root);
  return pools.exist() ? make_source("model pools", std::move(pools)) : nullptr;
}

}  // namespace headroom::sources
