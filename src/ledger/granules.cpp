// Granules: the units in which the device allocates memory by pointer and arrays.
//
// On an H100 and an H200 (driver 580) a granule has 2 MiB. An allocation of more than 1 MiB has whole
// granules to itself: 1,023 allocations of 1 MiB and a byte took 2 GiB. Smaller ones, in multiples of 512
// bytes, share a granule. The driver frees a granule only when the last allocation in it is freed. In a test
// with 2,048 allocations of 32 KiB, 63 of every 64 were freed, and all 64 MiB were still in use. So the
// ledger charges each granule that holds an allocation. The address of an allocation determines its granule.
//
// Contexts share no granules: of 20 small allocations made in two contexts in turn, each context's lay in a
// granule of its own.
//
// Arrays have handles, not addresses: a small array is charged the bytes that the driver says it needs.
#include "ledger/ledger.h"
#include "ledger/ledger_internal.h"

namespace headroom::ledger {
namespace {

// The driver places small allocations in multiples of this size.
std::uint64_t round_up_to_piece(std::uint64_t bytes) {
  constexpr std::uint64_t kPiece = 512;
  return (bytes + kPiece - 1) / kPiece * kPiece;
}

}  // namespace

void Ledger::set_granule(unsigned device, std::uint64_t bytes) {
  if (device < kMaxDevices && (bytes & (bytes - 1)) == 0) devices_[device].granule.store(bytes);
}

std::uint64_t Ledger::granule(unsigned device) const {
  return device < kMaxDevices ? devices_[device].granule.load(std::memory_order_relaxed) : 0;
}

std::uint64_t Ledger::charge_of(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) const {
  const bool has_granules = kind == DeviceMemoryKind::device || kind == DeviceMemoryKind::array;
  const std::uint64_t step = has_granules ? granule(device) : 0;
  std::uint64_t whole = bytes;
  if (step == 0 || bytes <= step / 2 || __builtin_add_overflow(bytes, -bytes & (step - 1), &whole))
    return bytes;
  return whole;
}

bool Ledger::shares_granule(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) const {
  return kind == DeviceMemoryKind::device && granule(device) != 0 && bytes <= granule(device) / 2;
}

std::uint64_t Ledger::remove_from_granule(const Entry& entry) {
  const bool may_share = (entry.type == EntryType::pointer || entry.type == EntryType::pending_free) &&
                         entry.kind == DeviceMemoryKind::device;
  Entry* const shared =
      may_share && entry.owner != 0 ? table_.find(EntryType::granule, entry.owner) : nullptr;
  const std::uint32_t held = entry.references & kExported;
  const std::uint64_t own = held != 0 ? 0 : entry.charged;
  Entry gone;
  if (shared == nullptr) return own;
  shared->of.granule.used_bytes -= round_up_to_piece(entry.bytes);
  if (entry.type == EntryType::pending_free) --shared->of.granule.pending_frees;
  shared->references = (shared->references - 1) | held;
  if ((shared->references & ~kExported) > 0 || !table_.remove(EntryType::granule, entry.owner, gone))
    return own;
  // An exported allocation keeps the granule in use, so it stays charged. Its entry is removed, because the
  // driver may reuse the address.
  return (gone.references & kExported) != 0 ? own : own + gone.charged;
}

// Skips a granule whose allocations are all pending frees: the driver may have freed it already.
std::uint64_t Ledger::reserve_in_granule(unsigned device, std::uint64_t context, std::uint64_t bytes) {
  const Locked locked(lock_);
  const auto has_space = [&](const Entry& entry) {
    return entry.type == EntryType::granule && entry.device == device &&
           entry.of.granule.context == context &&
           (entry.references & ~kExported) > entry.of.granule.pending_frees &&
           entry.of.granule.used_bytes + round_up_to_piece(bytes) <= entry.charged;
  };
  Entry* found =
      device < kMaxDevices ? table_.find(EntryType::granule, devices_[device].last_granule) : nullptr;
  std::size_t place = 0;
  if (found == nullptr || !has_space(*found)) found = table_.find_from(place, has_space);
  if (found == nullptr) return 0;
  ++found->references;
  found->of.granule.used_bytes += round_up_to_piece(bytes);
  return found->address;
}

void Ledger::cancel_in_granule(std::uint64_t granule, std::uint64_t bytes) {
  if (granule == 0) return;
  Entry held{.bytes = bytes, .owner = granule};
  const Locked locked(lock_);
  if (const Entry* const shared = table_.find(EntryType::granule, granule)) held.device = shared->device;
  discharge(held.device, remove_from_granule(held));
}

bool Ledger::commit_in_granule(Entry entry, bool is_prepaid) {
  const std::uint64_t bytes = granule(entry.device);
  constexpr unsigned kAboveNumbers = 57;
  const Entry fresh{.address = (entry.address / bytes + 1) | std::uint64_t{entry.device} << kAboveNumbers,
                    .charged = bytes,
                    .of = {.granule = {.context = entry.context, .used_bytes = 0, .pending_frees = 0}},
                    .references = 0,
                    .device = entry.device,
                    .type = EntryType::granule};
  entry.charged = 0;
  for (bool is_put = false; !is_put;) {
    {
      const Locked locked(lock_);
      Entry* shared = table_.find(EntryType::granule, fresh.address);
      if (shared == nullptr && is_prepaid) {
        is_prepaid = false;
        shared = find_or_insert(fresh);
        // No memory for the entry: charge as if the allocation had the granule to itself.
        if (shared == nullptr) entry.charged = bytes;
      }
      if (shared != nullptr) {
        ++shared->references;
        shared->of.granule.used_bytes += round_up_to_piece(entry.bytes);
        entry.owner = fresh.address;
        if (entry.device < kMaxDevices) devices_[entry.device].last_granule = fresh.address;
      }
      is_put = shared != nullptr || entry.charged != 0;
      if (is_put) insert_or_replace(entry);
    }
    if (is_put) break;
    if (!account_.charge(entry.device, bytes)) return false;
    is_prepaid = true;
  }
  if (is_prepaid)
    account_.discharge(entry.device, bytes);  // it lies in a known granule
  else
    account_.note_peaks(entry.device);
  return true;
}

}  // namespace headroom::ledger
