// Memory by handle: what is charged is the physical memory, whose number is the ledger's own, because drivers
// use the values of handles again while the memory behind them is still mapped.
#include "ledger/ledger.h"
#include "ledger/ledger_lock.h"

namespace headroom::ledger {

std::uint64_t Ledger::commit_physical(std::uint64_t handle, unsigned device, DeviceMemoryKind kind,
                                      std::uint64_t bytes) {
  const Locked locked(*this);
  Entry physical;
  physical.space = Space::physical;
  physical.address = ++last_physical_;
  physical.bytes = bytes;
  physical.device = static_cast<std::uint16_t>(device);
  physical.kind = kind;
  physical.charged = is_charged(device, kind) ? bytes : 0;
  Entry entry = physical;
  entry.space = Space::handle;
  entry.address = handle;
  entry.link = physical.address;
  entry.charged = 0;
  table_.insert(physical);
  table_.insert(entry);
  count_in(physical);
  if (physical.charged > 0) account_.note_peaks(device);
  return physical.address;
}

void Ledger::retain_handle(std::uint64_t handle, std::uint64_t mapped_address) {
  const Locked locked(*this);
  if (Entry* const known = table_.find(Space::handle, handle)) {
    ++known->references;
    return;
  }
  std::size_t place = 0;
  const Entry* mapping = table_.find(Space::mapping, mapped_address);
  if (mapping == nullptr)
    mapping = table_.find_from(place, [&](const Entry& entry) {
      return entry.space == Space::mapping && mapped_address - entry.address < entry.bytes;
    });
  const std::uint64_t number = mapping != nullptr ? mapping->link : 0;
  Entry* const physical = table_.find(Space::physical, number);
  if (physical == nullptr) return;
  ++physical->references;
  Entry entry = *physical;
  entry.space = Space::handle;
  entry.address = handle;
  entry.link = number;
  entry.charged = 0;
  entry.references = 1;
  table_.insert(entry);
}

bool Ledger::reuse_handle(std::uint64_t handle) {
  const Locked locked(*this);
  Entry* const known = table_.find(Space::handle, handle);
  if (known != nullptr) ++known->references;
  return known != nullptr;
}

void Ledger::export_handle(std::uint64_t handle) {
  const Locked locked(*this);
  const Entry* const known = table_.find(Space::handle, handle);
  Entry* const physical = known != nullptr ? table_.find(Space::physical, known->link) : nullptr;
  if (physical != nullptr) ++physical->references;
}

Ledger::HandleRelease Ledger::begin_release_handle(std::uint64_t handle) {
  const Locked locked(*this);
  HandleRelease release;
  Entry* const entry = table_.find(Space::handle, handle);
  if (entry == nullptr) return release;
  release.is_known = true;
  release.handle = *entry;
  if (--entry->references > 0) return release;
  Entry gone;
  table_.take(Space::handle, handle, gone);
  Entry* const physical = table_.find(Space::physical, release.handle.link);
  if (physical == nullptr) return release;
  release.physical = *physical;
  release.is_last = --physical->references == 0;
  if (release.is_last) table_.take(Space::physical, release.handle.link, gone);
  return release;
}

void Ledger::undo_release_handle(const HandleRelease& release) {
  if (!release.is_known) return;
  const Locked locked(*this);
  if (Entry* const entry = table_.find(Space::handle, release.handle.address)) {
    ++entry->references;
    return;
  }
  table_.insert(release.handle);
  if (release.is_last) {
    table_.insert(release.physical);
  } else if (Entry* const physical = table_.find(Space::physical, release.handle.link)) {
    ++physical->references;
  }
}

void Ledger::finish_release_handle(const HandleRelease& release) {
  if (!release.is_last) return;
  {
    const Locked locked(*this);
    count_out(release.physical);
  }
  account_.discharge(release.physical.device, release.physical.charged);
}

Entry Ledger::map(std::uint64_t address, std::uint64_t bytes, std::uint64_t handle) {
  const Locked locked(*this);
  Entry mapping;
  mapping.space = Space::mapping;
  mapping.address = address;
  mapping.bytes = bytes;
  mapping.kind = DeviceMemoryKind::mapping;
  if (const Entry* const entry = table_.find(Space::handle, handle)) mapping.link = entry->link;
  if (Entry* const physical = table_.find(Space::physical, mapping.link)) {
    ++physical->references;
    mapping.device = physical->device;
  }
  if (table_.insert(mapping)) count_in(mapping);
  return mapping;
}

bool Ledger::map_part(std::uint64_t array, std::uint64_t part, std::uint64_t handle, Entry& freed) {
  bool is_freed = false;
  {
    const Locked locked(*this);
    Entry before;
    const bool had_one = table_.take(Space::part, part, before);
    const Entry* const known = table_.find(Space::handle, handle);
    if (Entry* const physical = known != nullptr ? table_.find(Space::physical, known->link) : nullptr) {
      ++physical->references;
      Entry entry;
      entry.space = Space::part;
      entry.address = part;
      entry.context = array;
      entry.link = physical->address;
      entry.kind = DeviceMemoryKind::mapping;
      table_.insert(entry);
      has_parts_ = true;
    }
    is_freed = had_one && drop_physical_reference(before.link, freed);
  }
  if (is_freed) account_.discharge(freed.device, freed.charged);
  return is_freed;
}

bool Ledger::unmap_next_part(std::uint64_t array, std::size_t& place, Entry& freed) {
  freed = Entry{};
  if (!has_parts_) return false;
  bool is_freed = false;
  {
    const Locked locked(*this);
    Entry part;
    if (table_.find_from(place, [&](const Entry& entry) {
          return entry.space == Space::part && entry.context == array;
        }) == nullptr)
      return false;
    table_.take_at(place, part);
    is_freed = drop_physical_reference(part.link, freed);
  }
  if (is_freed) account_.discharge(freed.device, freed.charged);
  return true;
}

bool Ledger::drop_physical_reference(std::uint64_t number, Entry& freed) {
  Entry* const physical = table_.find(Space::physical, number);
  if (physical == nullptr || --physical->references > 0) return false;
  count_out(*physical);
  return table_.take(Space::physical, number, freed);
}

bool Ledger::unmap_one(std::uint64_t address, std::uint64_t bytes, Entry& mapping, Entry& freed) {
  freed = Entry{};
  bool is_freed = false;
  {
    const Locked locked(*this);
    // Mostly there is one at the address.
    if (!table_.take(Space::mapping, address, mapping)) {
      std::uint64_t first = 0;
      table_.for_each([&](const Entry& entry) {
        if (entry.space == Space::mapping && entry.address - address < bytes &&
            (first == 0 || entry.address < first))
          first = entry.address;
      });
      if (!table_.take(Space::mapping, first, mapping)) return false;
    }
    count_out(mapping);
    is_freed = drop_physical_reference(mapping.link, freed);
  }
  if (is_freed) account_.discharge(freed.device, freed.charged);
  return true;
}

}  // namespace headroom::ledger
