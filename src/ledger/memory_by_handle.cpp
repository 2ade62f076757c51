// Memory by handle: what is charged is the physical memory, whose number is the ledger's own, because drivers
// use the values of handles again while the memory behind them is still mapped.
//
// A handle is there until the driver has released it, so until then it can be held. Another thread may be
// given its value before that is told here: then its last release is over. `pending` of a handle's entry is
// how many calls are releasing it.
#include "ledger/ledger.h"
#include "ledger/ledger_lock.h"

namespace headroom::ledger {

namespace {

// A handle's memory that others can have: made elsewhere, or exported.
bool can_be_imported(const Entry& physical) {
  return physical.kind == DeviceMemoryKind::imported || (physical.references & kHeldByOthers) != 0;
}

}  // namespace

std::uint64_t Ledger::commit_physical(std::uint64_t handle, unsigned device, DeviceMemoryKind kind,
                                      std::uint64_t bytes, Entry& freed) {
  freed = Entry{};
  Entry physical;
  {
    const Locked locked(*this);
    physical.space = Space::physical;
    physical.address = ++last_physical_;
    physical.bytes = bytes;
    physical.device = static_cast<std::uint16_t>(device);
    physical.kind = kind;
    physical.charged = is_charged(device, kind) ? bytes : 0;
    Entry entry = physical, before;
    entry.space = Space::handle;
    entry.address = handle;
    entry.link = physical.address;
    entry.charged = 0;
    if (table_.take(Space::handle, handle, before)) drop_physical_reference(before.link, freed);
    table_.insert(physical);
    table_.insert(entry);
    count_in(physical);
    if (physical.charged > 0) account_.note_peaks(device);
  }
  give_back(freed);
  return physical.address;
}

std::uint64_t Ledger::hold(std::uint64_t handle) {
  const Locked locked(*this);
  const Entry* const known = table_.find(Space::handle, handle);
  Entry* const physical = known != nullptr ? table_.find(Space::physical, known->link) : nullptr;
  if (physical == nullptr) return 0;
  ++physical->references;
  return physical->address;
}

std::uint64_t Ledger::hold_mapped(std::uint64_t address) {
  const Locked locked(*this);
  std::size_t place = 0;
  const Entry* mapping = table_.find(Space::mapping, address);
  if (mapping == nullptr)
    mapping = table_.find_from(place, [&](const Entry& entry) {
      return entry.space == Space::mapping && address - entry.address < entry.bytes;
    });
  Entry* const physical = mapping != nullptr ? table_.find(Space::physical, mapping->link) : nullptr;
  if (physical == nullptr) return 0;
  ++physical->references;
  ++physical->link;
  return physical->address;
}

// The driver may give a handle that another thread is about to give up, and others use it already.
void Ledger::end_asking(std::uint64_t number, Entry& freed) {
  Entry* const physical = table_.find(Space::physical, number);
  if (physical == nullptr || --physical->link > 0) return;
  std::size_t place = 0;
  Entry gone;
  while (table_.find_from(place, [&](const Entry& one) {
    return one.space == Space::handle && one.link == number && one.references == 0;
  }) != nullptr) {
    table_.take_at(place, gone);
    drop_physical_reference(number, freed);
  }
}

void Ledger::let_go_mapped(std::uint64_t physical, Entry& freed) {
  freed = Entry{};
  if (physical == 0) return;
  {
    const Locked locked(*this);
    end_asking(physical, freed);
    drop_physical_reference(physical, freed);
  }
  give_back(freed);
}

void Ledger::let_go(std::uint64_t physical, Entry& freed) {
  freed = Entry{};
  if (physical == 0) return;
  {
    const Locked locked(*this);
    drop_physical_reference(physical, freed);
  }
  give_back(freed);
}

void Ledger::retain_handle(std::uint64_t handle, std::uint64_t physical, Entry& freed) {
  freed = Entry{};
  {
    const Locked locked(*this);
    Entry* const known = table_.find(Space::handle, handle);
    // Even of other memory: then another thread mapped that at the address since it was asked about.
    const bool is_live = known != nullptr && known->references > known->pending;
    const bool is_known = known != nullptr && (physical == 0 || known->link == physical || is_live);
    const Entry* const memory = table_.find(Space::physical, physical);
    if (is_known)
      ++known->references;
    else if (memory != nullptr)
      put_handle(handle, *memory, freed);
    if (physical != 0 && memory != nullptr) end_asking(physical, freed);
    if (physical != 0 && is_known) drop_physical_reference(physical, freed);  // the handle has one already
  }
  give_back(freed);
}

// It takes over a reference that is held. What the handle was before has been released.
void Ledger::put_handle(std::uint64_t handle, const Entry& physical, Entry& freed) {
  Entry entry = physical;
  entry.space = Space::handle;
  entry.address = handle;
  entry.link = physical.address;
  entry.context = entry.pending = entry.charged = 0;
  entry.references = 1;
  Entry before;
  if (table_.take(Space::handle, handle, before)) drop_physical_reference(before.link, freed);
  table_.insert(entry);
}

bool Ledger::reuse_handle(std::uint64_t handle) {
  const Locked locked(*this);
  Entry* const known = table_.find(Space::handle, handle);
  const Entry* const physical = known != nullptr ? table_.find(Space::physical, known->link) : nullptr;
  if (physical == nullptr || !can_be_imported(*physical)) return false;
  ++known->references;
  return true;
}

void Ledger::export_physical(std::uint64_t physical) {
  const Locked locked(*this);
  if (Entry* const entry = table_.find(Space::physical, physical)) entry->references |= kHeldByOthers;
}

Ledger::HandleRelease Ledger::begin_release_handle(std::uint64_t handle) {
  const Locked locked(*this);
  Entry* const entry = table_.find(Space::handle, handle);
  if (entry == nullptr) return {};
  ++entry->pending;
  return {handle, entry->link};
}

// Null: it is another's by now, who has ended what was left of this one.
Entry* Ledger::end_release_handle(const HandleRelease& release) {
  Entry* const entry = release.handle != 0 ? table_.find(Space::handle, release.handle) : nullptr;
  if (entry == nullptr || entry->link != release.physical) return nullptr;
  if (entry->pending > 0) --entry->pending;
  return entry;
}

void Ledger::undo_release_handle(const HandleRelease& release) {
  const Locked locked(*this);
  end_release_handle(release);
}

void Ledger::finish_release_handle(const HandleRelease& release, Entry& freed) {
  freed = Entry{};
  {
    const Locked locked(*this);
    Entry* const entry = end_release_handle(release);
    if (entry == nullptr || entry->references == 0 || --entry->references > 0) return;
    // While somebody asks for a handle of it by its address, he may be given this one.
    const Entry* const physical = table_.find(Space::physical, release.physical);
    if (physical != nullptr && physical->link > 0) return;
    Entry gone;
    table_.take(Space::handle, release.handle, gone);
    drop_physical_reference(release.physical, freed);
  }
  give_back(freed);
}

Entry Ledger::map(std::uint64_t address, std::uint64_t bytes, std::uint64_t physical, Entry& replaced,
                  Entry& freed) {
  replaced = freed = Entry{};
  Entry mapping;
  mapping.space = Space::mapping;
  mapping.address = address;
  mapping.bytes = bytes;
  mapping.link = physical;
  mapping.kind = DeviceMemoryKind::mapping;
  {
    const Locked locked(*this);
    mapping.pending = ++last_mapping_;
    if (const Entry* const memory = table_.find(Space::physical, physical)) mapping.device = memory->device;
    if (table_.take(Space::mapping, address, replaced)) {
      count_out(replaced);
      drop_physical_reference(replaced.link, freed);
    }
    if (table_.insert(mapping)) count_in(mapping);
  }
  give_back(freed);
  return mapping;
}

void Ledger::map_part(std::uint64_t array, std::uint64_t part, std::uint64_t physical, bool in_order,
                      std::uint64_t stream_context, Entry& freed) {
  freed = Entry{};
  {
    const Locked locked(*this);
    Entry before;
    const bool had_one = table_.take(Space::part, part, before);
    if (physical != 0) {
      Entry entry;
      entry.space = Space::part;
      entry.address = part;
      entry.context = array;
      entry.link = physical;
      entry.kind = DeviceMemoryKind::mapping;
      table_.insert(entry);
      has_parts_ = true;
    }
    Entry* const memory = had_one ? table_.find(Space::physical, before.link) : nullptr;
    if (memory != nullptr && in_order) {
      if (memory->context == 0) ++unmapped_in_order_;
      note_context_of_stream(*memory, stream_context);
      memory->pending = 0;  // a wait that has begun is not for this
    }
    if (memory != nullptr) drop_physical_reference(before.link, freed);
  }
  give_back(freed);
}

bool Ledger::unmap_next_part(std::uint64_t array, Pass& pass, Entry& freed) {
  freed = Entry{};
  if (!has_parts_) return false;
  {
    const Locked locked(*this);
    const auto is_of_array = [&](const Entry& entry) {
      return entry.space == Space::part && entry.context == array;
    };
    if (!find_next(pass, is_of_array)) return false;
    Entry part;
    table_.take_at(pass.place, part);
    drop_physical_reference(part.link, freed);
  }
  give_back(freed);
  return true;
}

// What a stream has not come to yet is charged until that was waited for (waits.cpp).
void Ledger::drop_physical_reference(std::uint64_t number, Entry& freed) {
  Entry* const physical = table_.find(Space::physical, number);
  if (physical == nullptr || --physical->references > 0) return;
  count_out(*physical);
  freed = *physical;
  Entry gone;
  if (physical->context == 0) {
    table_.take(Space::physical, number, gone);
    return;
  }
  --unmapped_in_order_;
  ++leaving_in_order_;
  freed.charged = 0;
}

void Ledger::give_back(const Entry& freed) {
  if (freed.charged > 0) account_.discharge(freed.device, freed.charged);
}

std::uint64_t Ledger::last_mapping() {
  const Locked locked(*this);
  return last_mapping_;
}

bool Ledger::unmap_one(std::uint64_t address, std::uint64_t bytes, std::uint64_t last, Entry& mapping,
                       Entry& freed) {
  freed = Entry{};
  {
    const Locked locked(*this);
    // Mostly there is one at the address.
    std::uint64_t first = address;
    const Entry* const there = table_.find(Space::mapping, address);
    if (there == nullptr || there->pending > last) {
      first = 0;
      table_.for_each([&](const Entry& entry) {
        if (entry.space == Space::mapping && entry.address - address < bytes && entry.pending <= last &&
            (first == 0 || entry.address < first))
          first = entry.address;
      });
    }
    if (!table_.take(Space::mapping, first, mapping)) return false;
    count_out(mapping);
    drop_physical_reference(mapping.link, freed);
  }
  give_back(freed);
  return true;
}

}  // namespace headroom::ledger
