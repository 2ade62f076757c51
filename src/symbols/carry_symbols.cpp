#include "symbols/carry_symbols.h"

#include <fmt/format.h>
#include <unistd.h>

#include <set>

#include "base/files.h"
#include "symbols/debug_files.h"

namespace headroom::symbols {
namespace fs = std::filesystem;
namespace {

Status copy_whole(const fs::path& from, const fs::path& to, CarriedSymbols& carried) {
  std::error_code error;
  if (fs::exists(to, error)) {
    ++carried.files;
    return {};
  }
  if (auto made = make_folder(to.parent_path()); !made) return made;
  fs::path part = to;
  part += fmt::format(".tmp-{}", ::getpid());
  fs::copy_file(from, part, fs::copy_options::overwrite_existing, error);
  const auto bytes = error ? 0 : fs::file_size(part, error);
  if (!error) fs::rename(part, to, error);
  if (error) {
    std::error_code ignored;
    fs::remove(part, ignored);
    return failure(fmt::format("cannot copy {} to {}", from.string(), to.string()), error.message());
  }
  ++carried.files;
  carried.copied += Bytes{static_cast<std::int64_t>(bytes)};
  return {};
}

// Copies the file, and the shared debug file that dwz split off from it.
Status copy_with_shared(const fs::path& file, const fs::path& to, const fs::path& folder,
                        DebugFiles& debug_files, CarriedSymbols& carried) {
  if (auto copied = copy_whole(file, folder / to, carried); !copied) return copied;
  const auto elf = ElfFile::open(file);
  const std::string shared_id = elf ? elf->shared_debug_id() : std::string();
  const fs::path shared = debug_files.debug_file_of(shared_id);
  return shared.empty() ? Status() : copy_whole(shared, folder / debug_path(shared_id), carried);
}

}  // namespace

Result<CarriedSymbols> carry_symbols(const std::vector<recording::Module>& modules,
                                     const SymbolizerOptions& options, const fs::path& folder) {
  if (auto made = make_folder(folder); !made) return forward_error(made);
  CarriedSymbols carried;
  DebugFiles debug_files(options.symbol_folders, options.sysroot);
  std::set<std::string> done;
  for (const recording::Module& module : modules) {
    if (is_vdso(module.path) || !done.insert(module.build_id + module.path).second) continue;
    if (!is_build_id(module.build_id)) {
      carried.problems.push_back(fmt::format(
          "{} has no build id, so another machine cannot identify it; link it with -Wl,--build-id",
          module.path));
      continue;
    }
    const ModuleFiles files = debug_files.files_of(module);
    if (!files.found()) {
      carried.problems.push_back(files.problem);
      continue;
    }
    ++carried.modules;
    Status copied;
    if (!files.code.empty())
      copied = copy_with_shared(files.code, code_path(module.build_id), folder, debug_files, carried);
    if (copied && !files.debug.empty())
      copied = copy_with_shared(files.debug, debug_path(module.build_id), folder, debug_files, carried);
    if (!copied) return forward_error(copied);
  }
  return carried;
}

}  // namespace headroom::symbols
