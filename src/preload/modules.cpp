#include "preload/modules.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstring>

#include "preload/clock.h"
#include "preload/loaded_objects.h"
#include "preload/process.h"
#include "types/lock.h"

namespace headroom::preload {
namespace {

constexpr std::size_t kMostModules = 4096;

struct KnownModule {
  std::uint64_t load_bias, start, end;
  const std::uint8_t* frame_header;          // .eh_frame_hdr
  const void* link_map;                      // the loader's record; set only in a forked child
  std::uint32_t text_at;                     // offset of its build id, followed by its path
  std::uint32_t build_id_bytes, path_bytes;  // both 0 if `text` is full
  bool seen;                                 // found by the current scan
  bool is_written;                           // in the recording
};

// The result of one scan. Two of them alternate, so that a child always finds a complete one, whenever it is
// forked. Zero-initialised without a constructor: the first scan comes before this library's constructors
// run.
struct KnownModules {
  std::size_t count, text_used;
  KnownModule modules[kMostModules];
  char text[1 << 20];
};

Lock modules_lock;
constinit KnownModules snapshots[2] = {};
std::atomic<KnownModules*> latest_snapshot{&snapshots[0]};
std::uint64_t last_scan_ticks = 0;

// Address ranges that threads read without the lock. A read during an update may be wrong; that causes only
// one extra scan.
struct Range {
  std::atomic<std::uint64_t> start, end;
};
Range ranges[kMostModules];
std::atomic<std::size_t> range_count{0};
// The loader's change count at the last scan. Without it, each address of code outside all modules (a
// just-in-time compiler's) would cost a scan.
std::atomic<std::uint64_t> changes_seen{0};

// OrtGetApiBase addresses that the handler has not accepted yet; 0: unused.
std::atomic<std::uint64_t> new_onnxruntimes[4];
std::atomic<bool (*)(std::uint64_t)> onnxruntime_handler{nullptr};
std::atomic<void (*)(LoaderState)> scan_handler{nullptr};

struct ModuleScan {
  KnownModules& before;
  KnownModules& now;
  std::uint64_t ticks;  // load time recorded for new modules: they may have come right after the last scan
};

struct BuildId {
  const void* bytes = nullptr;
  std::uint32_t size = 0;
};

BuildId build_id_in(const std::uint8_t* notes, std::size_t bytes) {
  constexpr char kGnu[4] = {'G', 'N', 'U', 0};
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    const std::size_t name = (std::size_t{note.n_namesz} + 3) / 4 * 4;
    const std::size_t total = sizeof note + name + (std::size_t{note.n_descsz} + 3) / 4 * 4;
    if (total > bytes) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof kGnu &&
        std::memcmp(notes + sizeof note, kGnu, sizeof kGnu) == 0)
      return {notes + sizeof note + name, note.n_descsz};
    notes += total;
    bytes -= total;
  }
  return {};
}

// Parses a line of /proc/self/maps, "7f00-7fff r-xp 0 08:01 12 /path". False if the address is not in it, or
// the mapping has no file.
bool is_mapped_here(const char* line, std::uint64_t address, char (&path)[PATH_MAX]) {
  char* rest = nullptr;
  const std::uint64_t start = ::strtoull(line, &rest, 16);
  if (*rest != '-' || address < start || address >= ::strtoull(rest + 1, nullptr, 16)) return false;
  const char* const file = std::strchr(rest, '/');
  if (file == nullptr) return false;
  std::strncpy(path, file, sizeof path - 1);
  path[sizeof path - 1] = 0;
  return true;
}

// Finds the file at an address in the kernel's list of mappings.
bool find_mapped_file(std::uint64_t address, char (&path)[PATH_MAX]) {
  const int fd = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  static char text[2 * PATH_MAX];  // a line has one path; protected by the lock
  std::size_t buffered = 0;
  bool is_found = false;
  for (ssize_t size = 0; !is_found && (size = ::read(fd, text + buffered, sizeof text - 1 - buffered)) > 0;) {
    buffered += static_cast<std::size_t>(size);
    text[buffered] = 0;
    char* line = text;
    for (char* end = nullptr; !is_found && (end = std::strchr(line, '\n')) != nullptr; line = end + 1) {
      *end = 0;
      is_found = is_mapped_here(line, address, path);
    }
    buffered -= static_cast<std::size_t>(line - text);
    std::memmove(text, line, buffered);
    if (buffered == sizeof text - 1) break;
  }
  ::close(fd);
  return is_found;
}

// `ld.so ./program`: the process's executable is the loader, not the program.
bool is_started_by_naming_the_loader() { return ::getauxval(AT_BASE) == 0; }

void find_path(const dl_phdr_info& info, std::uint64_t start, char (&path)[PATH_MAX]) {
  path[0] = 0;
  if (info.dlpi_name == nullptr || info.dlpi_name[0] == 0) {
    if (is_started_by_naming_the_loader() && find_mapped_file(start, path)) return;
    const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
  } else if (info.dlpi_name[0] == '/' || ::realpath(info.dlpi_name, path) == nullptr) {
    // The vDSO has no file (linux-vdso.so.1).
    std::strncpy(path, info.dlpi_name, sizeof path - 1);
    path[sizeof path - 1] = 0;
  }
}

// A program that loads and unloads libraries without end would fill the metadata area. Modules get at most
// half of it, so that scopes and threads still fit. Addresses in modules that are not written have no names.
constexpr std::size_t kMostModuleBytes = recording::kDefaultMetadataBytes / 2;
std::atomic<std::size_t> module_bytes_written{0};
std::atomic<bool> noted_modules{false};

bool fits_in_metadata(std::size_t bytes) {
  constexpr std::size_t kRecordHeader = 16;
  const std::size_t before = module_bytes_written.fetch_add((bytes + 7) / 8 * 8 + kRecordHeader);
  if (before < kMostModuleBytes) return true;
  if (!noted_modules.exchange(true))
    process.file.note(
        "libraries were loaded and unloaded too often: addresses in later libraries have no names");
  return false;
}

// False if the metadata area is full.
bool write_module(const KnownModule& module, const void* build_id, std::uint32_t build_id_bytes,
                  const char* path, std::size_t path_bytes, std::uint64_t ticks) {
  recording::ModuleRecord record{};
  record.load_bias = module.load_bias;
  record.start = module.start;
  record.end = module.end;
  record.ticks = ticks;
  record.build_id_bytes = build_id_bytes;
  if (!fits_in_metadata(sizeof record + build_id_bytes + path_bytes)) return false;
  const RecordingFile::Piece pieces[] = {
      {&record, sizeof record}, {build_id, build_id_bytes}, {path, path_bytes}};
  process.file.write_metadata(recording::MetadataKind::module, 0, pieces, 3);
  return true;
}

// Adds a module and copies its build id and path.
void add_known_module(KnownModules& known, KnownModule module, const void* build_id, const char* path) {
  if (known.count == kMostModules) return;
  const std::size_t bytes = std::size_t{module.build_id_bytes} + module.path_bytes;
  if (bytes > sizeof known.text - known.text_used) {
    module.build_id_bytes = module.path_bytes = 0;
  } else {
    module.text_at = static_cast<std::uint32_t>(known.text_used);
    char* const text = known.text + known.text_used;
    if (module.build_id_bytes > 0) std::memcpy(text, build_id, module.build_id_bytes);
    std::memcpy(text + module.build_id_bytes, path, module.path_bytes);
    known.text_used += bytes;
  }
  known.modules[known.count++] = module;
}
void copy_module(KnownModules& known, const KnownModules& before, const KnownModule& module) {
  const char* const text = before.text + module.text_at;
  add_known_module(known, module, text, text + module.build_id_bytes);
}

void add_new_onnxruntime(std::uint64_t get_api_base) {
  for (auto& place : new_onnxruntimes) {
    std::uint64_t none = 0;
    if (place.compare_exchange_strong(none, get_api_base)) return;
  }
}
void remove_new_onnxruntime(const KnownModule& gone) {
  for (auto& place : new_onnxruntimes) {
    std::uint64_t address = place.load();
    if (address >= gone.start && address < gone.end) place.compare_exchange_strong(address, 0);
  }
}

int scan_module(dl_phdr_info* info, std::size_t, void* data) {
  auto& scan = *static_cast<ModuleScan*>(data);
  KnownModule module{};
  module.load_bias = info->dlpi_addr;
  module.start = ~std::uint64_t{0};
  BuildId id;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const std::uint64_t start = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) {
      if (start < module.start) module.start = start;
      if (start + segment.p_memsz > module.end) module.end = start + segment.p_memsz;
    }
    if (segment.p_type == PT_NOTE && id.bytes == nullptr)
      id = build_id_in(reinterpret_cast<const std::uint8_t*>(start), segment.p_memsz);
    if (segment.p_type == PT_GNU_EH_FRAME) module.frame_header = reinterpret_cast<const std::uint8_t*>(start);
  }
  if (module.start >= module.end) return 0;
  for (std::size_t i = 0; i < scan.before.count; ++i) {
    KnownModule& known = scan.before.modules[i];
    if (known.load_bias != module.load_bias || known.start != module.start || known.end != module.end)
      continue;
    if (!known.seen) copy_module(scan.now, scan.before, known);
    known.seen = true;
    return 0;
  }
  if (scan.now.count == kMostModules) return 0;
  char path[PATH_MAX];
  find_path(*info, module.start, path);
  module.build_id_bytes = id.size;
  module.path_bytes = static_cast<std::uint32_t>(std::strlen(path));
  module.is_written = write_module(module, id.bytes, id.size, path, module.path_bytes, scan.ticks);
  add_known_module(scan.now, module, id.bytes, path);
  if (const std::uint64_t address = address_of_export(*info, "OrtGetApiBase")) add_new_onnxruntime(address);
  return 0;
}

int read_change_counts(dl_phdr_info* info, std::size_t, void* data) {
  *static_cast<std::uint64_t*>(data) = info->dlpi_adds + info->dlpi_subs;
  return 1;
}

bool is_known(std::uint64_t pc) {
  // The frames of a stack often lie in the same module.
  static constinit std::atomic<std::size_t> last_found{0};
  const std::size_t count = range_count.load(std::memory_order_acquire);
  const auto is_in = [pc](std::size_t i) {
    return pc >= ranges[i].start.load(std::memory_order_relaxed) &&
           pc < ranges[i].end.load(std::memory_order_relaxed);
  };
  if (const std::size_t last = last_found.load(std::memory_order_relaxed); last < count && is_in(last))
    return true;
  for (std::size_t i = 0; i < count; ++i)
    if (is_in(i)) {
      last_found.store(i, std::memory_order_relaxed);
      return true;
    }
  return false;
}

// Called with the lock.
ModuleScan begin_scan(std::uint64_t now) {
  KnownModules& before = *latest_snapshot.load(std::memory_order_relaxed);
  KnownModules& next = &before == &snapshots[0] ? snapshots[1] : snapshots[0];
  next.count = next.text_used = 0;
  for (std::size_t i = 0; i < before.count; ++i) before.modules[i].seen = false;
  return {before, next, last_scan_ticks != 0 ? last_scan_ticks : now};
}

void publish_ranges(const KnownModules& known) {
  for (std::size_t i = 0; i < known.count; ++i) {
    ranges[i].start.store(known.modules[i].start, std::memory_order_relaxed);
    ranges[i].end.store(known.modules[i].end, std::memory_order_relaxed);
  }
  range_count.store(known.count, std::memory_order_release);
}

void end_scan(const ModuleScan& scan, std::uint64_t now) {
  for (std::size_t i = 0; i < scan.before.count; ++i) {
    if (scan.before.modules[i].seen) continue;
    remove_new_onnxruntime(scan.before.modules[i]);
    if (!scan.before.modules[i].is_written) continue;
    const std::uint64_t gone[] = {scan.before.modules[i].load_bias, now};
    process.file.write_metadata(recording::MetadataKind::module_gone, 0, {gone, sizeof gone});
  }
  latest_snapshot.store(&scan.now, std::memory_order_release);
  publish_ranges(scan.now);
  last_scan_ticks = now;
}

const void* link_map_at(std::uint64_t address) {
  FoundObject found{};
  return find_object(address, found) ? found.link_map : nullptr;
}

// Builds what dl_iterate_phdr would report, from the ELF header at the start of the module's memory. False if
// there is none.
bool describe_found(const FoundObject& found, dl_phdr_info& info) {
  ElfW(Ehdr) header;
  const auto bytes = static_cast<std::size_t>(static_cast<const char*>(found.map_end) -
                                              static_cast<const char*>(found.map_start));
  if (found.link_map == nullptr || bytes < sizeof header) return false;
  std::memcpy(&header, found.map_start, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr)) ||
      header.e_phoff > bytes || bytes - header.e_phoff < header.e_phnum * sizeof(ElfW(Phdr)))
    return false;
  const auto& map = *static_cast<const link_map*>(found.link_map);
  info.dlpi_addr = map.l_addr;
  info.dlpi_name = map.l_name;
  info.dlpi_phdr =
      reinterpret_cast<const ElfW(Phdr)*>(static_cast<const char*>(found.map_start) + header.e_phoff);
  info.dlpi_phnum = header.e_phnum;
  return true;
}

// A scan that takes no loader lock. It can only check known modules and the one at `fresh` (0: none).
void scan_modules_in_child(std::uint64_t fresh) {
  if (!has_find_object() || !modules_lock.try_lock()) return;
  const OwnSystemCalls own_calls;
  const std::uint64_t now = ticks_now();
  ModuleScan scan = begin_scan(now);
  for (std::size_t i = 0; i < scan.before.count; ++i) {
    KnownModule& module = scan.before.modules[i];
    module.seen = module.link_map == nullptr || link_map_at(module.start) == module.link_map;
    if (module.seen) copy_module(scan.now, scan.before, module);
  }
  FoundObject found{};
  dl_phdr_info info{};
  const std::size_t kept = scan.now.count;
  if (fresh != 0 && find_object(fresh, found) && describe_found(found, info))
    scan_module(&info, sizeof info, &scan);
  if (scan.now.count > kept) scan.now.modules[kept].link_map = found.link_map;
  end_scan(scan, now);
  modules_lock.unlock();
}

void scan_modules() {
  if (!modules_lock.try_lock()) return;  // another thread scans already
  const OwnSystemCalls own_calls;
  const std::uint64_t now = ticks_now();
  ModuleScan scan = begin_scan(now);
  std::uint64_t changes = 0;
  ::dl_iterate_phdr(read_change_counts, &changes);
  ::dl_iterate_phdr(scan_module, &scan);
  end_scan(scan, now);
  changes_seen.store(changes, std::memory_order_relaxed);
  modules_lock.unlock();
}

}  // namespace

void refresh_modules() {
  if (is_forked_child())
    scan_modules_in_child(0);
  else
    scan_modules();
  offer_onnxruntimes(LoaderState::may_be_busy);
}

void check_loader() {
  if (is_forked_child()) return;
  std::uint64_t changes = 0;
  ::dl_iterate_phdr(read_change_counts, &changes);
  if (changes != changes_seen.load(std::memory_order_relaxed)) scan_modules();
  offer_onnxruntimes(LoaderState::may_be_busy);
}

void note_code_address(std::uint64_t pc) {
  if (is_known(pc)) return;
  if (is_forked_child()) {
    if (link_map_at(pc) == nullptr) return;
    scan_modules_in_child(pc);
    return offer_onnxruntimes(LoaderState::may_be_busy);
  }
  check_loader();
}

void set_scan_handler(void (*handler)(LoaderState)) { scan_handler = handler; }

void set_onnxruntime_handler(bool (*handler)(std::uint64_t)) { onnxruntime_handler = handler; }

void offer_onnxruntimes(LoaderState loader) {
  if (const auto scanned = scan_handler.load()) scanned(loader);
  const auto handler = onnxruntime_handler.load();
  if (handler == nullptr) return;
  for (auto& place : new_onnxruntimes) {
    std::uint64_t address = place.load();
    // The loader lists a library before it is relocated; find_object finds it only after that.
    const bool is_linked = has_find_object() ? link_map_at(address) != nullptr : loader == LoaderState::done;
    if (address != 0 && is_linked && handler(address)) place.compare_exchange_strong(address, 0);
  }
}

void reset_modules() {
  modules_lock.reset();
  last_scan_ticks = 0;
  module_bytes_written = 0;
  noted_modules = false;
  KnownModules& known = *latest_snapshot.load();
  for (std::size_t i = 0; i < known.count; ++i)
    known.modules[i].link_map = link_map_at(known.modules[i].start);
  publish_ranges(known);
}

void forget_known_modules() {
  KnownModules& known = *latest_snapshot.load();
  known.count = known.text_used = 0;
  publish_ranges(known);
  changes_seen = 0;
  last_scan_ticks = 0;
  module_bytes_written = 0;
  noted_modules = false;
  for (auto& place : new_onnxruntimes) place = 0;
}

void rewrite_modules() {
  const std::uint64_t now = ticks_now();
  KnownModules& known = *latest_snapshot.load();
  for (std::size_t i = 0; i < known.count; ++i) {
    KnownModule& module = known.modules[i];
    const char* const text = known.text + module.text_at;
    module.is_written = write_module(module, text, module.build_id_bytes, text + module.build_id_bytes,
                                     module.path_bytes, now);
  }
  last_scan_ticks = now;
}

// Read without the lock. Only called where the C library lacks find_object, and there a child's list never
// changes.
const std::uint8_t* known_frame_header(std::uint64_t pc) {
  const KnownModules& known = *latest_snapshot.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < known.count; ++i)
    if (pc >= known.modules[i].start && pc < known.modules[i].end) return known.modules[i].frame_header;
  return nullptr;
}

}  // namespace headroom::preload
