#include "base/files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/chrono.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "base/file_limits.h"
#include "base/text.h"
#include "base/unfinished.h"

namespace headroom {
namespace fs = std::filesystem;

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

namespace {

std::string how_to_fix_open(int error_number) {
  if (error_number == ENOENT) return "check the path";
  return error_number == EACCES || error_number == EPERM ? "check the file's permissions" : "";
}

// What a path is that is neither a regular file nor a link; empty for a regular file.
std::string_view non_file_kind(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return {};
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

// Calls `on_piece` with each 64 KiB until it fails.
Status read_in_pieces(int fd, const std::string& name,
                      const std::function<Status(std::string_view)>& on_piece) {
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got == 0) return {};
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return input_error(fmt::format("cannot read {}", name), errno_text(errno));
    if (auto taken = on_piece({buffer.data(), static_cast<std::size_t>(got)}); !taken) return taken;
  }
}

tl::unexpected<Error> too_large(const std::string& name, Bytes limit) {
  return input_error(fmt::format("{} is larger than {}", name, format_bytes(limit)));
}

}  // namespace

Result<UniqueFd> open_regular_file(const fs::path& path, std::string fix) {
  const std::string what = fmt::format("cannot read {}", path.string());
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return input_error(what, errno_text(errno), std::move(fix));
  if (!S_ISREG(info.st_mode)) return input_error(what, "it is not a file", std::move(fix));
  return fd;
}

Result<std::string> read_descriptor(int fd, const std::string& name, Bytes limit, std::int64_t expected) {
  std::string content;
  content.reserve(static_cast<std::size_t>(std::clamp<std::int64_t>(expected, 0, limit.count)));
  auto read = read_in_pieces(fd, name, [&](std::string_view piece) -> Status {
    content += piece;
    if (static_cast<std::int64_t>(content.size()) <= limit.count) return {};
    return too_large(name, limit);
  });
  if (!read) return forward_error(read);
  return content;
}

Result<UniqueFd> open_file_or_pipe(const fs::path& path) {
  const std::string name = path.string();
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    const int code = errno;
    return input_error(fmt::format("cannot open {}", name), errno_text(code), how_to_fix_open(code));
  }
  if (const std::string_view kind = non_file_kind(info.st_mode); !kind.empty() && !S_ISFIFO(info.st_mode))
    return input_error(fmt::format("{} is {}, not a file", name, kind));
  // A writer may be slower than the reader.
  if (::fcntl(fd.get(), F_SETFL, O_RDONLY) != 0)
    return input_error(fmt::format("cannot open {}", name), errno_text(errno));
  return fd;
}

Result<std::string> read_file(const fs::path& path, Bytes limit) {
  auto fd = open_file_or_pipe(path);
  if (!fd) return forward_error(fd);
  struct stat info {};
  const bool is_file = ::fstat(fd->get(), &info) == 0 && S_ISREG(info.st_mode);
  const std::int64_t size = is_file ? info.st_size : 0;
  if (size > limit.count) return too_large(path.string(), limit);
  // Files of /proc report no size. Some never end: /proc/PID/pagemap.
  if (is_file && size == 0) limit = std::min(limit, kLargestWithoutSize);
  return read_descriptor(fd->get(), path.string(), limit, size);
}

bool file_contains(const std::filesystem::path& path, std::string_view text) {
  std::ifstream stream(path, std::ios::binary);
  std::string window;
  std::array<char, 65536> piece;
  while (stream.read(piece.data(), piece.size()), stream.gcount() > 0) {
    window.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
    if (window.find(text) != std::string::npos) return true;
    // Keep the last bytes: they may be the beginning of the text.
    if (window.size() >= text.size()) window.erase(0, window.size() - text.size() + 1);
  }
  return false;
}

Result<std::string> read_small_file(const fs::path& path) { return read_file(path, kLargestWithoutSize); }

Status write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return failure("cannot write", errno_text(errno));
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Status write_copy(int fd, const fs::path& from) {
  auto source = open_regular_file(from);
  if (!source) return forward_error(source);
  return read_in_pieces(source->get(), from.string(),
                        [&](std::string_view piece) { return write_all(fd, piece); });
}

Status write_file_atomically(const fs::path& path, std::string_view content) {
  return write_file_in_pieces(path, [&](const WritePiece& write) { return write(content); });
}

Status write_file_in_pieces(const fs::path& path,
                            const std::function<Status(const WritePiece& write)>& give) {
  auto file = UnfinishedFile::create(path);
  if (!file) return forward_error(file);
  auto written = give([&](std::string_view piece) { return write_all(file->fd(), piece); });
  if (written) written = file->finish();
  if (!written)
    return failure(fmt::format("cannot write {}", path.string()), written.error().why,
                   "check the free space and permissions of its folder");
  return {};
}

Status make_folder(const fs::path& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code)
    return failure(fmt::format("cannot create the folder {}", path.string()), code.message(),
                   "choose a writable folder");
  return {};
}

fs::path own_executable() {
  std::error_code code;
  const fs::path self = fs::read_symlink("/proc/self/exe", code);
  return code ? fs::path("/proc/self/exe") : self;
}

fs::path executable_folder() { return own_executable().parent_path(); }

namespace {

fs::path find_own_file() {
  static const char here = 0;  // is in the file that is searched
  Dl_info info{};
  void* entry = nullptr;
  if (::dladdr1(&here, &info, &entry, RTLD_DL_LINKMAP) == 0 || entry == nullptr) return own_executable();
  const std::string_view name = static_cast<const link_map*>(entry)->l_name;
  if (name.empty()) return own_executable();  // the loader leaves the executable's name empty
  std::error_code code;
  const fs::path file = fs::canonical(name, code);
  return code ? fs::path(name) : file;
}

std::string_view variable_or_empty(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

fs::path own_file() {
  // Once: a library's name may be relative to the folder in which the process started.
  static const fs::path file = find_own_file();
  return file;
}

std::vector<fs::path> plugin_folders() {
  std::vector<fs::path> folders;
  const auto add = [&](fs::path folder) {
    if (std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(std::move(folder));
  };
  for (const std::string_view folder : split(variable_or_empty("HEADROOM_BACKEND_PATH"), ':'))
    if (!folder.empty()) add(folder);
  const fs::path own_folder = own_file().parent_path();
  add((own_folder / "../lib/headroom").lexically_normal());
  add(own_folder);
  if (const fs::path home = variable_or_empty("HOME"); home.is_absolute()) add(home / ".local/lib/headroom");
  add("/usr/lib/headroom");
  return folders;
}

std::string plugin_folders_text() {
  std::string text;
  for (const fs::path& folder : plugin_folders()) text += (text.empty() ? "" : ", ") + folder.string();
  return text;
}

std::optional<fs::path> find_plugin(std::string_view file_name) {
  std::error_code ignored;
  for (const fs::path& folder : plugin_folders())
    if (fs::path file = folder / file_name; fs::exists(file, ignored)) return file;
  return std::nullopt;
}

Result<void*> load_plugin(const fs::path& file, const char* function, std::string fix) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return internal_error(fmt::format("cannot load {}", file.string()),
                          reason != nullptr ? reason : "unknown", std::move(fix));
  }
  void* found = ::dlsym(library, function);
  if (found == nullptr)
    return internal_error(fmt::format("cannot use {}", file.string()),
                          fmt::format("it has no function {}", function),
                          "rebuild it together with this headroom");
  return found;
}

Result<std::string> file_fingerprint(const fs::path& path,
                                     const std::function<void(std::string_view)>& on_piece) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0)
    if (const std::string_view kind = non_file_kind(info.st_mode); !kind.empty())
      return input_error(fmt::format("{} is {}, not a file", path.string(), kind), "", "check the path");
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd)
    return input_error(fmt::format("cannot open {}", path.string()), errno_text(errno), "check the path");
  Fnv1a hash;
  auto read = read_in_pieces(fd.get(), path.string(), [&](std::string_view piece) -> Status {
    hash.add(piece);
    if (on_piece) on_piece(piece);
    return {};
  });
  if (!read) return forward_error(read);
  return hash.text();
}

std::string file_name_of(const std::string& model) {
  std::string name = model;
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  if (name.empty() || name.front() == '.') name.insert(0, "_");
  return name;
}

Result<RunFolder> create_run_folder(const fs::path& output_dir) {
  const std::string second = fmt::format("{:%Y-%m-%d_%H-%M-%S}", fmt::localtime(std::time(nullptr)));
  const auto unwritable = [&](const std::error_code& code) {
    return input_error(fmt::format("cannot create a run folder in {}", output_dir.string()), code.message(),
                       "choose a writable folder with --output-dir");
  };
  std::error_code code;
  fs::create_directories(output_dir, code);
  if (code) return unwritable(code);
  for (int attempt = 1; attempt <= 1000; ++attempt) {
    RunFolder folder;
    folder.name = attempt == 1 ? second : fmt::format("{}-{}", second, attempt);
    folder.path = output_dir / folder.name;
    folder.started_at = timestamp_now();
    if (fs::create_directory(folder.path, code)) return folder;
    if (code) return unwritable(code);
  }
  return unwritable(std::make_error_code(std::errc::file_exists));
}

}  // namespace headroom
