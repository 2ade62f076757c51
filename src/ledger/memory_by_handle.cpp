// Memory by handle (cuMemCreate). The physical memory is charged. It has a number from the ledger, because
// drivers reuse the value of a released handle while its memory is still mapped.
//
// The driver may give the value of a handle to another thread before this thread records its release: then
// the recorded handle is known to be gone.
#include "ledger/ledger.h"
#include "ledger/ledger_internal.h"

namespace headroom::ledger {

namespace {

// Memory that another handle can be imported from: imported or exported memory.
bool can_be_imported(const Entry& physical) {
  return physical.kind == DeviceMemoryKind::imported || (physical.references & kExported) != 0;
}

}  // namespace

std::uint64_t Ledger::commit_physical(std::uint64_t handle, unsigned device, DeviceMemoryKind kind,
                                      std::uint64_t bytes, Entry& freed) {
  freed = Entry{};
  const Locked locked(lock_);
  const Entry physical{.address = ++last_physical_,
                       .bytes = bytes,
                       .charged = is_charged(device, kind) ? bytes : 0,
                       .device = static_cast<std::uint16_t>(device),
                       .type = EntryType::physical,
                       .kind = kind};
  put_handle(handle, physical, freed);
  table_.insert(physical);
  count_in(physical);
  if (physical.charged > 0) account_.note_peaks(device);
  return physical.address;
}

std::uint64_t Ledger::retain_physical(std::uint64_t handle) {
  const Locked locked(lock_);
  const Entry* const known = table_.find(EntryType::handle, handle);
  Entry* const physical = known != nullptr ? table_.find(EntryType::physical, known->owner) : nullptr;
  if (physical == nullptr) return 0;
  ++physical->references;
  return physical->address;
}

std::uint64_t Ledger::retain_mapped_physical(std::uint64_t address) {
  const Locked locked(lock_);
  std::size_t place = 0;
  const Entry* mapping = table_.find(EntryType::mapping, address);
  if (mapping == nullptr)
    mapping = table_.find_from(place, [&](const Entry& entry) {
      return entry.type == EntryType::mapping && address - entry.address < entry.bytes;
    });
  Entry* const physical = mapping != nullptr ? table_.find(EntryType::physical, mapping->owner) : nullptr;
  if (physical == nullptr) return 0;
  ++physical->references;
  return physical->address;
}

Entry Ledger::release_physical(std::uint64_t physical) {
  const Locked locked(lock_);
  Entry freed;
  drop_physical_reference(physical, freed);
  return freed;
}

Entry Ledger::retain_handle(std::uint64_t handle, std::uint64_t physical) {
  const Locked locked(lock_);
  Entry freed;
  Entry* const known = table_.find(EntryType::handle, handle);
  const Entry* const memory = table_.find(EntryType::physical, physical);
  if (known != nullptr && (physical == 0 || known->owner == physical)) {
    ++known->references;
    if (physical != 0) drop_physical_reference(physical, freed);  // the handle already has a reference
  } else if (memory != nullptr) {
    put_handle(handle, *memory, freed);
  }
  return freed;
}

// Takes over a reference. Any former memory of this handle value has been released.
void Ledger::put_handle(std::uint64_t handle, const Entry& physical, Entry& freed) {
  Entry entry = physical;
  entry.type = EntryType::handle;
  entry.address = handle;
  entry.owner = physical.address;
  entry.context = entry.charged = 0;
  entry.of = {};
  entry.references = 1;
  Entry before;
  if (table_.remove(EntryType::handle, handle, before)) drop_physical_reference(before.owner, freed);
  table_.insert(entry);
}

bool Ledger::reuse_handle(std::uint64_t handle) {
  const Locked locked(lock_);
  Entry* const known = table_.find(EntryType::handle, handle);
  const Entry* const physical = known != nullptr ? table_.find(EntryType::physical, known->owner) : nullptr;
  if (physical == nullptr || !can_be_imported(*physical)) return false;
  ++known->references;
  return true;
}

void Ledger::export_physical(std::uint64_t physical) {
  const Locked locked(lock_);
  if (Entry* const entry = table_.find(EntryType::physical, physical)) entry->references |= kExported;
}

Ledger::HandleRelease Ledger::begin_release_handle(std::uint64_t handle) {
  const Locked locked(lock_);
  const Entry* const entry = table_.find(EntryType::handle, handle);
  return entry != nullptr ? HandleRelease{handle, entry->owner} : HandleRelease{};
}

Entry Ledger::finish_release_handle(const HandleRelease& release) {
  const Locked locked(lock_);
  Entry freed;
  Entry* const entry = table_.find(EntryType::handle, release.handle);
  // If the value now belongs to another handle, recording that one has ended this one.
  if (entry == nullptr || entry->owner != release.physical || --entry->references > 0) return freed;
  table_.remove(EntryType::handle, release.handle);
  drop_physical_reference(release.physical, freed);
  return freed;
}

Entry Ledger::map(std::uint64_t address, std::uint64_t bytes, std::uint64_t physical, Entry& freed) {
  freed = Entry{};
  const Locked locked(lock_);
  Entry mapping{.address = address,
                .bytes = bytes,
                .owner = physical,
                .type = EntryType::mapping,
                .kind = DeviceMemoryKind::mapping};
  if (const Entry* const memory = table_.find(EntryType::physical, physical)) mapping.device = memory->device;
  Entry replaced;
  if (table_.remove(EntryType::mapping, address, replaced)) {
    count_out(replaced);
    drop_physical_reference(replaced.owner, freed);
  }
  if (table_.insert(mapping)) count_in(mapping);
  return mapping;
}

void Ledger::drop_physical_reference(std::uint64_t number, Entry& freed) {
  Entry* const physical = table_.find(EntryType::physical, number);
  if (physical == nullptr || --physical->references > 0) return;
  count_out(*physical);
  table_.remove(EntryType::physical, number, freed);
  discharge(freed.device, freed.charged);
}

bool Ledger::unmap_one(std::uint64_t address, std::uint64_t bytes, Entry& mapping, Entry& freed) {
  freed = Entry{};
  const Locked locked(lock_);
  std::uint64_t first = address;
  if (table_.find(EntryType::mapping, address) == nullptr) {
    first = 0;
    table_.for_each([&](const Entry& entry) {
      if (entry.type == EntryType::mapping && entry.address - address < bytes &&
          (first == 0 || entry.address < first))
        first = entry.address;
    });
  }
  if (!table_.remove(EntryType::mapping, first, mapping)) return false;
  count_out(mapping);
  drop_physical_reference(mapping.owner, freed);
  return true;
}

}  // namespace headroom::ledger
