#include "exporters/output_sink.h"

#include <fcntl.h>

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
  constexpr const char* kFix = "check that its folder exists and is writable, or name another with --out";
  if (type == fs::file_type::not_found || type == fs::file_type::regular) {
    auto unfinished = UnfinishedFile::create(path);
    if (!unfinished) {
      unfinished.error().fix = kFix;
      return forward_error(unfinished);
    }
    sink.unfinished_.emplace(std::move(*unfinished));
    sink.fd_ = sink.unfinished_->fd();
    return sink;
  }
  sink.in_place_.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!sink.in_place_) return failure(fmt::format("cannot write {}", path.string()), errno_text(errno), kFix);
  sink.fd_ = sink.in_place_.get();
  return sink;
}

void OutputSink::flush() {
  const std::string_view bytes(buffer_.data(), buffer_.size());
  if (fd_ < 0)
    print_output(bytes);
  else if (status_)
    status_ = write_all(fd_, bytes);
  flushed_ += bytes.size();
  buffer_.clear();
}

Status OutputSink::finish() {
  flush();
  if (fd_ < 0) return {};  // main() checks standard output
  if (status_ && unfinished_) status_ = unfinished_->finish();
  if (!status_)
    return failure(fmt::format("cannot write {}", path_.string()), status_.error().why,
                   "check the free space and permissions of its folder, or name another with --out");
  return {};
}

}  // namespace headroom::exporters
