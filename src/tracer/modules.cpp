#include "tracer/modules.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstring>

#include "tracer/clock.h"
#include "tracer/exported_symbols.h"
#include "tracer/lock.h"
#include "tracer/process.h"

namespace headroom::tracer {
namespace {

constexpr std::size_t kMostModules = 4096;

struct KnownModule {
  std::uint64_t load_bias, start, end;
  bool seen;  // in the current look
};

Lock lock;
KnownModule known[kMostModules];
std::size_t known_count = 0;
std::uint64_t last_look_ticks = 0;

// What threads ask without the lock. While a look changes it an answer may be wrong, and then there is one
// look more.
struct Range {
  std::atomic<std::uint64_t> start, end;
};
Range ranges[kMostModules];
std::atomic<std::size_t> range_count{0};
// Code that belongs to no module (a just-in-time compiler's) must not cost a look for each address.
std::atomic<std::uint64_t> changes_seen{0};

std::atomic<bool> has_new_onnxruntime{false};

struct Look {
  std::uint64_t ticks;  // what new modules are dated: they may have come right after the last look
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

void write_module(const dl_phdr_info& info, const KnownModule& module, const BuildId& id,
                  std::uint64_t ticks) {
  char path[PATH_MAX] = "";
  if (info.dlpi_name == nullptr || info.dlpi_name[0] == 0) {
    const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
  } else if (info.dlpi_name[0] == '/' || ::realpath(info.dlpi_name, path) == nullptr) {
    std::strncpy(path, info.dlpi_name, sizeof path - 1);  // the kernel's own has no file: linux-vdso.so.1
  }
  recording::ModuleRecord record{};
  record.load_bias = module.load_bias;
  record.start = module.start;
  record.end = module.end;
  record.ticks = ticks;
  record.build_id_bytes = id.size;
  const RecordingFile::Piece pieces[] = {
      {&record, sizeof record}, {id.bytes, id.size}, {path, std::strlen(path)}};
  process.file.write_metadata(recording::MetadataKind::module, 0, pieces, 3);
}

int visit_module(dl_phdr_info* info, std::size_t, void* data) {
  const auto& look = *static_cast<const Look*>(data);
  KnownModule module{info->dlpi_addr, ~std::uint64_t{0}, 0, true};
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
  }
  if (module.start >= module.end) return 0;
  for (std::size_t i = 0; i < known_count; ++i) {
    if (known[i].load_bias != module.load_bias || known[i].start != module.start ||
        known[i].end != module.end)
      continue;
    known[i].seen = true;
    return 0;
  }
  if (known_count == kMostModules) return 0;
  known[known_count++] = module;
  write_module(*info, module, id, look.ticks);
  if (exports_symbol(*info, "OrtGetApiBase")) has_new_onnxruntime = true;
  return 0;
}

int read_change_counts(dl_phdr_info* info, std::size_t, void* data) {
  *static_cast<std::uint64_t*>(data) = info->dlpi_adds + info->dlpi_subs;
  return 1;
}

bool is_known(std::uint64_t pc) {
  const std::size_t count = range_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i)
    if (pc >= ranges[i].start.load(std::memory_order_relaxed) &&
        pc < ranges[i].end.load(std::memory_order_relaxed))
      return true;
  return false;
}

}  // namespace

void refresh_modules() {
  if (!lock.try_lock()) return;  // somebody looks already
  const ErrnoKeeper keep;
  for (std::size_t i = 0; i < known_count; ++i) known[i].seen = false;
  const std::uint64_t now = ticks_now();
  Look look{last_look_ticks != 0 ? last_look_ticks : now};
  std::uint64_t changes = 0;
  ::dl_iterate_phdr(read_change_counts, &changes);
  ::dl_iterate_phdr(visit_module, &look);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < known_count; ++i) {
    if (known[i].seen) {
      known[kept++] = known[i];
      continue;
    }
    const std::uint64_t gone[] = {known[i].load_bias, now};
    process.file.write_metadata(recording::MetadataKind::module_gone, 0, {gone, sizeof gone});
  }
  known_count = kept;
  for (std::size_t i = 0; i < known_count; ++i) {
    ranges[i].start.store(known[i].start, std::memory_order_relaxed);
    ranges[i].end.store(known[i].end, std::memory_order_relaxed);
  }
  range_count.store(known_count, std::memory_order_release);
  changes_seen.store(changes, std::memory_order_relaxed);
  last_look_ticks = now;
  lock.unlock();
}

void note_code_address(std::uint64_t pc) {
  if (is_known(pc)) return;
  std::uint64_t changes = 0;
  ::dl_iterate_phdr(read_change_counts, &changes);
  if (changes != changes_seen.load(std::memory_order_relaxed)) refresh_modules();
}

bool onnxruntime_has_come() { return has_new_onnxruntime.exchange(false); }

void forget_modules() {
  lock.reset();
  known_count = 0;
  range_count = 0;
  changes_seen = 0;
  last_look_ticks = 0;
}

}  // namespace headroom::tracer
