#include "symbols/symbolizer.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <algorithm>
#include <compare>
#include <deque>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/files.h"
#include "base/unfinished.h"
#include "symbols/debug_files.h"
#include "symbols/demangle.h"
#include "symbols/open_module.h"

namespace headroom::symbols {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kNoModule = ~std::size_t{0};

std::string_view file_name_of(std::string_view path) {
  if (is_vdso(std::string(path))) return "[vdso]";
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos || slash + 1 == path.size() ? path : path.substr(slash + 1);
}

// Each module needs one to three descriptors. The usual limit of 1024 allows 341 modules.
std::size_t most_open_modules() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  return std::clamp<std::size_t>(limit.rlim_cur / 3, 16, 4096);
}

struct Place {
  std::size_t module = kNoModule;
  std::uint64_t address = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

struct PlaceHash {
  std::size_t operator()(const Place& place) const {
    return std::hash<std::uint64_t>()(place.address * 0x9e3779b97f4a7c15ULL ^ place.module);
  }
};

Status copy_whole(const fs::path& from, const fs::path& to, CarriedSymbols& carried) {
  std::error_code error;
  if (fs::exists(to, error)) {
    ++carried.files;
    return {};
  }
  if (auto made = make_folder(to.parent_path()); !made) return made;
  const std::string what = fmt::format("cannot copy {} to {}", from.string(), to.string());
  auto copy = UnfinishedFile::create(to);
  if (!copy) return failure(what, copy.error().why);
  if (auto copied = write_copy(copy->fd(), from); !copied) return failure(what, copied.error().why);
  const auto bytes = fs::file_size(copy->path(), error);
  if (auto finished = copy->finish(); !finished) return failure(what, finished.error().why);
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

class Symbolizer::Implementation {
 public:
  Implementation(std::vector<recording::Module> modules, SymbolizerOptions options)
      : options_(std::move(options)),
        debug_files_(options_.symbol_folders, options_.sysroot),
        modules_(std::move(modules)),
        states_(modules_.size()) {}

  // If several modules used the place one after another, the last one counts.
  Place place_of(std::uint64_t address, bool is_return_address) const {
    // A call may be the last instruction of its function or line, so look up the byte before the return
    // address.
    if (is_return_address && address > 0) --address;
    Place place{kNoModule, address};
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      const recording::Module& module = modules_[i];
      if (address < module.start || address >= module.end) continue;
      if (place.module == kNoModule || modules_[place.module].loaded <= module.loaded) place.module = i;
    }
    return place;
  }

  const std::vector<SourceFrame>& frames_at(const Place& place) {
    const auto [entry, is_new] = known_.try_emplace(place, frames_.size());
    if (is_new) frames_.push_back(look_up(place));
    return frames_[entry->second];
  }

  std::vector<std::string> problems() const {
    std::vector<std::string> all = debug_files_.problems();
    for (const State& state : states_)
      if (!state.problem.empty()) all.push_back(state.problem);
    return all;
  }

 private:
  struct State {
    bool looked_for = false;
    ModuleFiles files;
    std::string problem;
    std::unique_ptr<OpenModule> open;
    std::size_t bytes = 0;
  };

  std::vector<SourceFrame> look_up(const Place& place) {
    if (place.module == kNoModule) return {{.function = kept(fmt::format("{:#x}", place.address))}};
    const recording::Module& module = modules_[place.module];
    const std::string_view module_name = kept(file_name_of(module.path));
    const std::uint64_t file_address = place.address - module.load_bias;
    std::vector<SourceFrame> frames;
    if (OpenModule* open = open_module(place.module); open != nullptr) {
      for (const ModuleFrame& found : open->frames_at(file_address))
        frames.push_back({.function = found.mangled ? readable(found.function) : kept(found.function),
                          .file = kept(found.file),
                          .module = module_name,
                          .line = found.line,
                          .named = !found.function.empty()});
      account_for(place.module);
    } else {
      frames.push_back({.module = module_name});
    }
    for (SourceFrame& frame : frames)
      if (!frame.named) frame.function = kept(fmt::format("{}+{:#x}", module_name, file_address));
    return frames;
  }

  std::string_view kept(std::string_view text) { return *strings_.emplace(text).first; }

  std::string_view readable(const std::string& symbol) {
    const std::string_view name = kept(symbol);
    if (!options_.demangle) return name;
    const auto [entry, is_new] = readable_.try_emplace(name.data());
    if (is_new) entry->second = kept(demangle(name));
    return entry->second;
  }

  OpenModule* open_module(std::size_t index) {
    State& state = states_[index];
    if (state.open) return state.open.get();
    if (!std::exchange(state.looked_for, true)) {
      state.files = debug_files_.files_of(modules_[index]);
      state.problem = state.files.problem;
    }
    if (!state.files.found()) return nullptr;
    if (open_count_ >= most_open_modules_) close_all();
    auto opened = OpenModule::open(state.files, debug_files_);
    if (!opened) {
      state.problem = opened.error().sentence();
      state.files = {};
      return nullptr;
    }
    state.open = std::move(*opened);
    ++open_count_;
    return state.open.get();
  }

  // Call this after a lookup, because the module may have read more debug information.
  void account_for(std::size_t index) {
    State& state = states_[index];
    open_bytes_ += state.open->bytes() - state.bytes;
    state.bytes = state.open->bytes();
    if (open_bytes_ > static_cast<std::size_t>(options_.memory.count)) close_all();
  }

  // Simple, because prepare() looks up one module after another.
  void close_all() {
    for (State& state : states_) {
      state.open.reset();
      state.bytes = 0;
    }
    open_bytes_ = open_count_ = 0;
  }

  SymbolizerOptions options_;
  DebugFiles debug_files_;
  std::vector<recording::Module> modules_;
  std::vector<State> states_;
  std::size_t open_bytes_ = 0, open_count_ = 0;
  std::size_t most_open_modules_ = most_open_modules();
  // Each distinct text once: a hundred thousand addresses share a few thousand names and paths. Elements
  // never move.
  std::unordered_set<std::string> strings_;
  std::unordered_map<const char*, std::string_view> readable_;  // by the symbol's address in strings_
  std::unordered_map<Place, std::size_t, PlaceHash> known_;
  std::deque<std::vector<SourceFrame>> frames_;  // elements never move
};

Symbolizer::Symbolizer(std::vector<recording::Module> modules, SymbolizerOptions options)
    : implementation_(std::make_unique<Implementation>(std::move(modules), std::move(options))) {}
Symbolizer::Symbolizer(Symbolizer&&) noexcept = default;
Symbolizer& Symbolizer::operator=(Symbolizer&&) noexcept = default;
Symbolizer::~Symbolizer() = default;

const std::vector<SourceFrame>& Symbolizer::frames_of(std::uint64_t address, bool is_return_address) {
  return implementation_->frames_at(implementation_->place_of(address, is_return_address));
}

void Symbolizer::prepare(std::span<const std::uint64_t> addresses, bool are_return_addresses) {
  std::vector<Place> places;
  places.reserve(addresses.size());
  for (const std::uint64_t address : addresses)
    places.push_back(implementation_->place_of(address, are_return_addresses));
  std::ranges::sort(places);
  for (const Place& place : places) implementation_->frames_at(place);
}

std::vector<std::string> Symbolizer::problems() const { return implementation_->problems(); }

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
