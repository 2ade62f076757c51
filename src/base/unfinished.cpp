#include "base/unfinished.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

namespace headroom {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kUnfinished = ".tmp-";
constexpr int kMostTries = 100;

// Locks a file or folder that was created just now. Another process may have found it before it was locked,
// and may be removing it.
bool lock_new(int fd) {
  struct stat info {};
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  return ::fstat(fd, &info) == 0 && info.st_nlink > 0;
}

// Locks what a killed process left. The result is unset while its process lives, and where files cannot be
// locked.
UniqueFd lock_abandoned(const fs::path& path, int flags) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | flags));
  if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) fd.reset();
  return fd;
}

// Calls `use` with the path and the name of each entry of the folder.
template <class Use>
void for_each_entry(const fs::path& folder, const Use& use) {
  std::error_code code;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, code), end; !code && entry != end;
       entry.increment(code))
    use(entry->path(), entry->path().filename().string());
}

// Removes what killed writers left of the files in `folder` whose names `fits` accepts.
template <class Fits>
void remove_left_versions(const fs::path& folder, const Fits& fits) {
  for_each_entry(folder, [&](const fs::path& found, const std::string& name) {
    const std::size_t at = name.rfind(kUnfinished);
    if (at == name.npos || !fits(std::string_view(name).substr(0, at))) return;
    const std::size_t number = at + kUnfinished.size();
    if (name.find_first_not_of("0123456789-", number) != name.npos) return;  // the user's own file
    if (const UniqueFd locked = lock_abandoned(found, 0)) ::unlink(found.c_str());
  });
}

}  // namespace

void remove_unfinished(const fs::path& folder, std::string_view ending) {
  remove_left_versions(folder, [&](std::string_view name) {
    return name.size() >= ending.size() && name.substr(name.size() - ending.size()) == ending;
  });
}

Result<UnfinishedFile> UnfinishedFile::create(const fs::path& path) {
  static std::atomic<unsigned> files{0};
  const std::string own_name = path.filename().string();
  remove_left_versions(path.parent_path(), [&](std::string_view name) { return name == own_name; });
  for (int i = 0; i < kMostTries; ++i) {
    fs::path name = fmt::format("{}{}{}-{}", path.string(), kUnfinished, ::getpid(), ++files);
    UniqueFd fd(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd && errno != EEXIST) break;
    if (fd && lock_new(fd.get())) return UnfinishedFile(std::move(name), path, std::move(fd));
  }
  return failure(fmt::format("cannot write {}", path.string()), errno_text(errno),
                 "check that the folder exists and is writable");
}

UnfinishedFile::UnfinishedFile(UnfinishedFile&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      final_path_(std::move(other.final_path_)),
      fd_(std::move(other.fd_)) {}

UnfinishedFile::~UnfinishedFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

Status UnfinishedFile::finish() {
  if (::fsync(fd_.get()) != 0 && errno != EINVAL && errno != EROFS)
    return failure("cannot flush", errno_text(errno));
  if (::rename(path_.c_str(), final_path_.c_str()) != 0) return failure("cannot rename", errno_text(errno));
  path_.clear();
  fd_.reset();
  return {};
}

Result<ScratchFolder> ScratchFolder::create(std::string_view purpose) {
  const auto cannot = [](const std::string& why) {
    return failure("cannot create a temporary folder", why, "set TMPDIR to a writable folder");
  };
  std::error_code code;
  const fs::path parent = fs::temp_directory_path(code);
  if (code) return cannot(code.message());
  const std::string begin = fmt::format("headroom-{}.", purpose);
  for_each_entry(parent, [&](const fs::path& found, const std::string& name) {
    if (name.compare(0, begin.size(), begin) != 0) return;
    const UniqueFd locked = lock_abandoned(found, O_DIRECTORY);
    struct stat info {};
    std::error_code ignored;
    if (locked && ::fstat(locked.get(), &info) == 0 && info.st_uid == ::geteuid())
      fs::remove_all(found, ignored);
  });
  for (int i = 0; i < kMostTries; ++i) {
    std::string name = (parent / begin).string() + "XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) break;
    UniqueFd fd(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd && lock_new(fd.get())) return ScratchFolder(std::move(name), std::move(fd));
  }
  return cannot(errno_text(errno));
}

ScratchFolder::ScratchFolder(ScratchFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), fd_(std::move(other.fd_)) {}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace headroom
