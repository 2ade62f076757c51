#include "exporters/output_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/terminal.h"

namespace headroom::exporters {
namespace fs = std::filesystem;

Result<OutputSink> OutputSink::open(const fs::path& path) {
  OutputSink sink;
  if (path == "-") return sink;
  sink.path_ = path;
  std::error_code code;
  const fs::file_type type = fs::symlink_status(path, code).type();
  const bool appears_by_rename = type == fs::file_type::not_found || type == fs::file_type::regular;
  if (appears_by_rename) sink.temporary_ = fmt::format("{}.tmp-{}", path.string(), ::getpid());
  const fs::path& opened = appears_by_rename ? sink.temporary_ : path;
  sink.file_.reset(::open(opened.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!sink.file_) {
    const int problem = errno;
    sink.temporary_.clear();
    return failure(fmt::format("cannot write {}", path.string()), errno_text(problem),
                   "check that its folder exists and is writable, or name another with --out");
  }
  return sink;
}

OutputSink::~OutputSink() {
  if (file_ && !temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputSink::flush() {
  const std::string_view bytes(buffer_.data(), buffer_.size());
  if (!file_)
    print_output(bytes);
  else if (status_)
    status_ = write_all(file_.get(), bytes);
  flushed_ += bytes.size();
  buffer_.clear();
}

Status OutputSink::finish() {
  flush();
  if (!file_) return {};  // main() checks standard output
  if (status_ && !temporary_.empty()) {
    if (::fsync(file_.get()) != 0 && errno != EINVAL && errno != EROFS)
      status_ = failure("cannot flush", errno_text(errno));
    else if (::rename(temporary_.c_str(), path_.c_str()) != 0)
      status_ = failure("cannot rename", errno_text(errno));
  }
  if (!status_)
    return failure(fmt::format("cannot write {}", path_.string()), status_.error().why,
                   "check the free space and permissions of its folder, or name another with --out");
  temporary_.clear();
  file_.reset();
  return {};
}

}  // namespace headroom::exporters
