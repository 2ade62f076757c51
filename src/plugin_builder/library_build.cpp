#include "plugin_builder/library_build.h"

#include <fmt/format.h>

#include <utility>

#include "base/files.h"
#include "base/unfinished.h"
#include "plugin_builder/plugin_sources.h"

namespace headroom::plugin_builder {
namespace {
namespace fs = std::filesystem;

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

}  // namespace

Result<Proof> build_library(const Library& library, const PluginHeaders& headers, const Compiler& compiler,
                            const fs::path& to, const std::function<bool(std::string_view)>& progress) {
  const auto sources = find_sources(library.name);
  if (!sources) return tl::unexpected(sources.error());
  auto folder = ScratchFolder::create("objects");
  if (!folder) return forward_error(folder);
  if (auto there = make_folder(to.parent_path()); !there) return forward_error(there);
  const fs::path linked = folder->path() / library.file;
  const Commands commands = commands_for(library, *sources, headers, compiler, folder->path(), linked);
  auto compiled = run_compiler(commands.compile, [&](std::size_t ended) {
    return progress(fmt::format("{} for {} with {} {}, {} of {} files", library.file, headers.built_for,
                                compiler.program, compiler.version, ended, commands.compile.size()));
  });
  if (compiled) compiled = run_compiler({commands.link}, [&](std::size_t) { return progress("linking"); });
  if (!compiled) return forward_error(compiled);
  progress("loading it");
  const std::string what = fmt::format("cannot write {}", to.string());
  auto made = UnfinishedFile::create(to);
  if (!made) return forward_error(made);
  if (auto copied = write_copy(made->fd(), linked); !copied) return failure(what, copied.error().why);
  auto proof = prove(made->path(), library.interface);  // not in the other folder, which may be noexec
  if (proof)
    if (auto finished = made->finish(); !finished) return failure(what, finished.error().why);
  return proof;
}

}  // namespace headroom::plugin_builder
