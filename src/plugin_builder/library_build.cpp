#include "plugin_builder/library_build.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/files.h"
#include "plugin_builder/plugin_sources.h"

namespace headroom::plugin_builder {
namespace {
namespace fs = std::filesystem;

// The folder of the object files.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make() {
    std::error_code code;
    std::string path = (fs::temp_directory_path(code) / "headroom-build-XXXXXX").string();
    if (code || ::mkdtemp(path.data()) == nullptr)
      return failure("cannot create a temporary folder", code ? code.message() : errno_text(errno),
                     "set TMPDIR to a writable folder");
    return TemporaryFolder(path);
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code code;
    if (!path_.empty()) fs::remove_all(path_, code);
  }
  const fs::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

// One command for each source, and the one that links them to `library`.
struct Commands {
  std::vector<std::vector<std::string>> compile;
  std::vector<std::string> link;
};

Commands commands_for(const Library& library, const PluginSources& sources, const PluginHeaders& headers,
                      const Compiler& compiler, const fs::path& objects, const fs::path& to) {
  Commands commands;
  std::vector<std::string> flags = library.flags;
  flags.insert(flags.end(), {"-O2", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden",
                             "-fmax-errors=5", "-DNDEBUG", "-DFMT_HEADER_ONLY", "-I", sources.root.string(),
                             "-I", (sources.root / "../../../include").lexically_normal().string()});
  flags.insert(flags.end(), headers.flags.begin(), headers.flags.end());
  commands.link = compiler.command;
  commands.link.insert(commands.link.end(),
                       {"-shared", "-o", to.string(), "-Wl,--exclude-libs,ALL", "-Wl,-z,nodelete"});
  for (const std::string& source : sources.sources) {
    if (source == library.left_out) continue;
    const std::string object = (objects / fmt::format("{}.o", commands.compile.size())).string();
    commands.link.push_back(object);
    auto& command = commands.compile.emplace_back(compiler.command);
    command.insert(command.end(), flags.begin(), flags.end());
    command.insert(command.end(), {"-c", (sources.root / source).string(), "-o", object});
  }
  commands.link.insert(commands.link.end(), headers.libraries.begin(), headers.libraries.end());
  commands.link.insert(commands.link.end(), {"-ldl", "-pthread"});
  return commands;
}

// A file that is removed unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(fs::path path) : path_(std::move(path)) {}
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

Result<Proof> build_library(const Library& library, const PluginHeaders& headers, const Compiler& compiler,
                            const fs::path& to, const std::function<bool(std::string_view)>& progress) {
  const auto sources = find_sources(library.name);
  if (!sources) return tl::unexpected(sources.error());
  auto folder = TemporaryFolder::make();
  if (!folder) return forward_error(folder);
  if (auto made = make_folder(to.parent_path()); !made) return forward_error(made);
  const TemporaryFile made(fmt::format("{}.tmp-{}", to.string(), ::getpid()));
  const Commands commands = commands_for(library, *sources, headers, compiler, folder->path(), made.path());
  auto compiled = run_compiler(commands.compile, [&](std::size_t ended) {
    return progress(fmt::format("{} for {} with {} {}, {} of {} files", library.file, headers.built_for,
                                compiler.program, compiler.version, ended, commands.compile.size()));
  });
  if (compiled) compiled = run_compiler({commands.link}, [&](std::size_t) { return progress("linking"); });
  if (!compiled) return forward_error(compiled);
  progress("loading it");
  auto proof = prove(made.path(), library.interface);
  if (proof && ::rename(made.path().c_str(), to.c_str()) != 0)
    return failure(fmt::format("cannot write {}", to.string()), errno_text(errno));
  return proof;
}

}  // namespace headroom::plugin_builder
