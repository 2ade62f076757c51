// Memory by handle (cuMemCreate). The physical memory is charged. It has a number from the ledger, because
// drivers reuse the value of a released handle while its memory is still mapped.
//
// A handle is valid until the driver has released it, so until then other calls can add references. The
// driver may give its value to another thread before this thread records the release: then the recorded
// handle is known to be gone.
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
  ++physical->of.physical.lookups;
  return physical->address;
}

// The driver may return a handle that another thread is releasing, and others may use it already. So such
// handles without references are kept until the last lookup by address has ended.
void Ledger::end_retain(std::uint64_t number, Entry& freed) {
  Entry* const physical = table_.find(EntryType::physical, number);
  if (physical == nullptr || --physical->of.physical.lookups > 0) return;
  const std::size_t unreferenced = table_.remove_if([&](const Entry& one) {
    return one.type == EntryType::handle && one.owner == number && one.references == 0;
  });
  for (std::size_t i = 0; i < unreferenced; ++i) drop_physical_reference(number, freed);
}

Entry Ledger::release_mapped_physical(std::uint64_t physical) {
  const Locked locked(lock_);
  Entry freed;
  end_retain(physical, freed);
  drop_physical_reference(physical, freed);
  return freed;
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
  // A live handle is valid even if it has other memory: then another thread mapped that at the address
  // after retain_mapped_physical().
  const bool is_live = known != nullptr && known->references > known->of.handle.releases;
  const bool is_known = known != nullptr && (physical == 0 || known->owner == physical || is_live);
  const Entry* const memory = table_.find(EntryType::physical, physical);
  if (is_known)
    ++known->references;
  else if (memory != nullptr)
    put_handle(handle, *memory, freed);
  if (physical != 0 && memory != nullptr) end_retain(physical, freed);
  if (physical != 0 && is_known)
    drop_physical_reference(physical, freed);  // the handle already has a reference
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
  Entry* const entry = table_.find(EntryType::handle, handle);
  if (entry == nullptr) return {};
  ++entry->of.handle.releases;
  return {handle, entry->owner};
}

// Returns null if the value now belongs to another handle; recording that one has ended this one.
Entry* Ledger::end_release_handle(const HandleRelease& release) {
  Entry* const entry = release.handle != 0 ? table_.find(EntryType::handle, release.handle) : nullptr;
  if (entry == nullptr || entry->owner != release.physical) return nullptr;
  if (entry->of.handle.releases > 0) --entry->of.handle.releases;
  return entry;
}

void Ledger::undo_release_handle(const HandleRelease& release) {
  const Locked locked(lock_);
  end_release_handle(release);
}

Entry Ledger::finish_release_handle(const HandleRelease& release) {
  const Locked locked(lock_);
  Entry* const entry = end_release_handle(release);
  if (entry == nullptr || entry->references == 0 || --entry->references > 0) return {};
  // A lookup of a handle by address is running, and the driver may return this one.
  const Entry* const physical = table_.find(EntryType::physical, release.physical);
  if (physical != nullptr && physical->of.physical.lookups > 0) return {};
  table_.remove(EntryType::handle, release.handle);
  Entry freed;
  drop_physical_reference(release.physical, freed);
  return freed;
}

Entry Ledger::map(std::uint64_t address, std::uint64_t bytes, std::uint64_t physical, Entry& replaced,
                  Entry& freed) {
  replaced = freed = Entry{};
  const Locked locked(lock_);
  Entry mapping{.address = address,
                .bytes = bytes,
                .owner = physical,
                .of = {.mapping = {.serial = ++last_mapping_}},
                .type = EntryType::mapping,
                .kind = DeviceMemoryKind::mapping};
  if (const Entry* const memory = table_.find(EntryType::physical, physical)) mapping.device = memory->device;
  if (table_.remove(EntryType::mapping, address, replaced)) {
    count_out(replaced);
    drop_physical_reference(replaced.owner, freed);
  }
  if (table_.insert(mapping)) count_in(mapping);
  return mapping;
}

Entry Ledger::map_part(std::uint64_t array, std::uint64_t part, std::uint64_t physical,
                       bool is_stream_ordered, std::uint64_t stream_context) {
  const Locked locked(lock_);
  Entry before, freed;
  const bool had_one = table_.remove(EntryType::array_part, part, before);
  if (physical != 0) {
    table_.insert({.address = part,
                   .owner = physical,
                   .of = {.array_part = {.array = array}},
                   .type = EntryType::array_part,
                   .kind = DeviceMemoryKind::mapping});
    has_array_parts_ = true;
  }
  Entry* const memory = had_one ? table_.find(EntryType::physical, before.owner) : nullptr;
  if (memory != nullptr && is_stream_ordered) {
    if (memory->context == 0) ++pending_unmaps_;
    note_stream_context(*memory, stream_context);
    memory->of.physical.unmap_wait = 0;  // a wait that began earlier does not complete this unmap
  }
  if (memory != nullptr) drop_physical_reference(before.owner, freed);
  return freed;
}

bool Ledger::unmap_next_part(std::uint64_t array, Pass& pass, Entry& freed) {
  freed = Entry{};
  if (!has_array_parts_) return false;
  const Locked locked(lock_);
  const auto is_of_array = [&](const Entry& entry) {
    return entry.type == EntryType::array_part && entry.of.array_part.array == array;
  };
  if (!find_next(pass, is_of_array)) return false;
  Entry part;
  table_.remove_at(pass.place, part);
  drop_physical_reference(part.owner, freed);
  return true;
}

// Memory with a pending unmap stays charged until a wait completes that (pools.cpp).
void Ledger::drop_physical_reference(std::uint64_t number, Entry& freed) {
  Entry* const physical = table_.find(EntryType::physical, number);
  if (physical == nullptr || --physical->references > 0) return;
  count_out(*physical);
  freed = *physical;
  if (physical->context == 0) {
    table_.remove(EntryType::physical, number);
    return discharge(freed.device, freed.charged);
  }
  --pending_unmaps_;
  ++pending_frees_;
  freed.charged = 0;
}

std::uint64_t Ledger::last_mapping() {
  const Locked locked(lock_);
  return last_mapping_;
}

bool Ledger::unmap_one(std::uint64_t address, std::uint64_t bytes, std::uint64_t last, Entry& mapping,
                       Entry& freed) {
  freed = Entry{};
  const Locked locked(lock_);
  // Fast path: a mapping begins at the address.
  std::uint64_t first = address;
  const Entry* const there = table_.find(EntryType::mapping, address);
  if (there == nullptr || there->of.mapping.serial > last) {
    first = 0;
    table_.for_each([&](const Entry& entry) {
      if (entry.type == EntryType::mapping && entry.address - address < bytes &&
          entry.of.mapping.serial <= last && (first == 0 || entry.address < first))
        first = entry.address;
    });
  }
  if (!table_.remove(EntryType::mapping, first, mapping)) return false;
  count_out(mapping);
  drop_physical_reference(mapping.owner, freed);
  return true;
}

}  // namespace headroom::ledger
