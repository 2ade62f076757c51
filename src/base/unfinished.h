// Files and folders that exist only while a process works on them. A killed process leaves them behind. The
// kernel then drops their lock (flock), so the next process recognises and removes them. A process id would
// not show that: containers that share a folder have the same ids.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/result.h"

namespace headroom {

// A new version of the file `path`, which is written beside it as `path.tmp-PID-NUMBER`. Readers see either
// the old file or the complete new one. Without finish(), the new version is removed.
class UnfinishedFile {
 public:
  // Also removes what killed writers of `path` left behind.
  static Result<UnfinishedFile> create(const std::filesystem::path& path);
  UnfinishedFile(UnfinishedFile&& other) noexcept;
  UnfinishedFile& operator=(UnfinishedFile&&) = delete;
  ~UnfinishedFile();

  int fd() const { return fd_.get(); }
  // Its name until finish(), for writers that open files themselves.
  const std::filesystem::path& path() const { return path_; }
  // Flushes it to disk and renames it.
  Status finish();

 private:
  UnfinishedFile(std::filesystem::path path, std::filesystem::path final_path, UniqueFd fd)
      : path_(std::move(path)), final_path_(std::move(final_path)), fd_(std::move(fd)) {}
  std::filesystem::path path_, final_path_;  // path_ is empty after finish()
  UniqueFd fd_;
};

// Removes what killed writers left of the files in `folder` whose names end so.
void remove_unfinished(const std::filesystem::path& folder, std::string_view ending);

// A private folder in TMPDIR, removed with everything in it.
class ScratchFolder {
 public:
  // `purpose` is part of its name. Also removes what killed processes of this user left behind.
  static Result<ScratchFolder> create(std::string_view purpose);
  ScratchFolder(ScratchFolder&& other) noexcept;
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  ScratchFolder(std::filesystem::path path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::filesystem::path path_;
  UniqueFd fd_;  // holds the lock
};

}  // namespace headroom
