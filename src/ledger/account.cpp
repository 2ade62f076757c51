// Charges, limits and peaks of an account. account.h explains the concept.
#include "ledger/account.h"

#include <errno.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "ledger/account_page.h"

namespace headroom::ledger {

namespace {

std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

// Returns what `get` finds under the account's number of the device; 0 if there is no such device.
template <class Get>
std::uint64_t Account::read(unsigned device, const Get& get) {
  if (page_ == nullptr || device >= kMaxDevices) return 0;
  lock();
  const std::uint64_t value = get(account_device(device));
  unlock();
  return value;
}

std::uint64_t Account::limit(unsigned device) const {
  std::uint64_t smallest = kNoLimit;
  if (device >= kMaxDevices) return smallest;
  for (const Account* const one : accounts())
    smallest = std::min(smallest, one->page_->limits[one->account_device(device)]);
  return smallest;
}

void Account::lock() {
  // If the lock's holder died, the page is still consistent. One store changes a charge. A slot that is being
  // claimed or cleared has no owner, so it does not count.
  if (::pthread_mutex_lock(&page_->mutex) == EOWNERDEAD) ::pthread_mutex_consistent(&page_->mutex);
}

void Account::unlock() { ::pthread_mutex_unlock(&page_->mutex); }

std::uint64_t Account::sum(unsigned device) const {
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < page_->slots_used; ++i)
    if (page_->slots[i].owner.pid != 0) bytes += page_->slots[i].charged[device];
  return bytes;
}

// Caller holds the lock. A program may request any number of bytes, so this compares without adding: no
// overflow.
bool Account::fits(unsigned device, std::uint64_t bytes) const {
  constexpr std::uint64_t kMaxRequest = std::uint64_t{1} << 60;  // so that sums of requests do not overflow
  const std::uint64_t limit = page_->limits[device];
  if (limit == kNoLimit) return bytes <= kMaxRequest;
  const std::uint64_t charged = sum(device);
  return charged <= limit && bytes <= limit - charged;
}

// Holds all locks at once, so that no process sees a charge that one account granted and another refused.
bool Account::add(unsigned device, std::uint64_t bytes, Grant grant) {
  if (page_ == nullptr || device >= kMaxDevices) return true;
  for (Account* const one : accounts()) one->lock();
  bool granted = true;
  for (Account* const one : accounts()) {
    const unsigned number = one->account_device(device);
    granted = granted && (one->slot_ != kNoSlot || one->join());
    if (!granted || grant == Grant::forced || one->fits(number, bytes)) continue;
    one->clear_dead_slots();
    granted = one->fits(number, bytes);
  }
  for (Account* const one : accounts()) {
    if (granted) {
      one->page_->slots[one->slot_].charged[one->account_device(device)] += bytes;
      if (grant != Grant::reservation) one->note_own_peaks(one->account_device(device));
    }
    one->unlock();
  }
  return granted;
}

void Account::note_peaks(unsigned device) {
  if (device >= kMaxDevices) return;
  for_each_locked([&](Account& one) {
    if (one.slot_ != kNoSlot) one.note_own_peaks(one.account_device(device));
  });
}

// Caller holds the lock.
void Account::note_own_peaks(unsigned device) {
  const std::uint64_t own = page_->slots[slot_].charged[device], all = sum(device);
  if (own > peaks_[device]) peaks_[device] = own;
  if (all <= page_->peaks[device]) return;
  if (all == own || !is_dead_check_due()) {
    page_->peaks[device] = all;
    return;
  }
  clear_dead_slots(device);
  page_->peaks[device] = std::max(page_->peaks[device], sum(device));
}

// Limits the checks for dead processes to one per millisecond. A check costs 1 to 2 us for each other
// process, and a starting program sets a new peak with every call.
bool Account::is_dead_check_due() {
  constexpr std::int64_t kIntervalNs = 1'000'000;
  const std::int64_t now = monotonic_ns();
  if (now - last_dead_check_ns_ < kIntervalNs) return false;
  last_dead_check_ns_ = now;
  return true;
}

bool Account::has_kept_limit(unsigned device) {
  if (page_ == nullptr || device >= kMaxDevices) return true;
  return peak(device) <= page_->limits[account_device(device)];
}

std::uint64_t Account::peak_of_this_process(unsigned device) {
  return read(device, [&](unsigned number) { return peaks_[number]; });
}

void Account::reset_peak_of_this_process(unsigned device) {
  if (page_ == nullptr || device >= kMaxDevices) return;
  lock();
  peaks_[account_device(device)] = own_charge(device);
  unlock();
}

std::uint64_t Account::peak(unsigned device) {
  return read(device, [&](unsigned number) { return page_->peaks[number]; });
}

void Account::reset_peaks() {
  if (page_ == nullptr) return;
  lock();
  clear_dead_slots();
  for (unsigned device = 0; device < kMaxDevices; ++device) page_->peaks[device] = sum(device);
  unlock();
}

void Account::note_refusal(unsigned device, std::uint64_t bytes, std::uint64_t needed) {
  if (page_ == nullptr || device >= kMaxDevices) return;
  bool is_noted = false;
  for_each_locked([&](Account& one) {
    const unsigned number = one.account_device(device);
    if (one.fits(number, needed) && (is_noted || &one != accounts().back())) return;
    ++one.page_->refused[number];
    one.page_->refused_bytes[number] += bytes;
    is_noted = true;
  });
}

std::uint64_t Account::refused(unsigned device) {
  return read(device, [&](unsigned number) { return page_->refused[number]; });
}

std::uint64_t Account::refused_bytes(unsigned device) {
  return read(device, [&](unsigned number) { return page_->refused_bytes[number]; });
}

bool Account::would_fit(unsigned device, std::uint64_t bytes) {
  if (limit(device) == kNoLimit) return true;
  bool fits_all = true;
  for_each_locked(
      [&](const Account& one) { fits_all = fits_all && one.fits(one.account_device(device), bytes); });
  return fits_all;
}

Account* Account::tightest_account(unsigned device, LimitUsage& usage) {
  Account* found = nullptr;
  if (device >= kMaxDevices) return found;
  for (Account* const one : accounts()) {
    const LimitUsage its{one->page_->limits[one->account_device(device)], one->charged(device)};
    if (found != nullptr && its.left() >= usage.left()) continue;
    usage = its;
    found = one;
  }
  return found;
}

Account::LimitUsage Account::tightest_limit(unsigned device) {
  LimitUsage tightest;
  tightest_account(device, tightest);
  return tightest;
}

std::size_t Account::largest_charges(unsigned device, std::span<ProcessCharge> largest) {
  LimitUsage usage;
  Account* const of = tightest_account(device, usage);
  if (of == nullptr) return 0;
  const unsigned number = of->account_device(device);
  const std::uint64_t here = own_pid_namespace();
  std::size_t count = 0;
  of->lock();
  for (unsigned i = 0; i < of->page_->slots_used; ++i) {
    const AccountPage::Slot& slot = of->page_->slots[i];
    if (slot.owner.pid == 0 || slot.charged[number] == 0) continue;
    ProcessCharge charge{static_cast<std::int32_t>(slot.owner.pid), slot.owner.pid_namespace == here,
                         slot.charged[number]};
    for (std::size_t k = 0; k < count; ++k)
      if (largest[k].bytes < charge.bytes) std::swap(largest[k], charge);
    if (count < largest.size()) largest[count++] = charge;
  }
  of->unlock();
  return count;
}

bool Account::ensure_joined() {
  bool entered = true;
  for_each_locked([&](Account& one) { entered = entered && (one.slot_ != kNoSlot || one.join()); });
  return entered;
}

bool Account::charge(unsigned device, std::uint64_t bytes) { return add(device, bytes, Grant::within_limit); }

bool Account::reserve(unsigned device, std::uint64_t bytes) { return add(device, bytes, Grant::reservation); }

void Account::force_charge(unsigned device, std::uint64_t bytes) { add(device, bytes, Grant::forced); }

void Account::discharge(unsigned device, std::uint64_t bytes) {
  if (device >= kMaxDevices) return;
  for_each_locked([&](Account& one) {
    if (one.slot_ == kNoSlot) return;
    std::uint64_t& charged = one.page_->slots[one.slot_].charged[one.account_device(device)];
    charged -= std::min(bytes, charged);
  });
}

std::uint64_t Account::charged(unsigned device) {
  return read(device, [&](unsigned number) {
    clear_dead_slots();
    return sum(number);
  });
}

std::uint64_t Account::charged_to_this_process(unsigned device) {
  return read(device, [&](unsigned) { return own_charge(device); });
}

std::uint64_t Account::own_charge(unsigned device) const {
  return slot_ == kNoSlot ? 0 : page_->slots[slot_].charged[account_device(device)];
}

void Account::note_unhooked_driver() {
  for_each_locked([](Account& one) { ++one.page_->unhooked_drivers; });
}

std::uint32_t Account::unhooked_drivers() {
  return static_cast<std::uint32_t>(read(0, [&](unsigned) { return page_->unhooked_drivers; }));
}

}  // namespace headroom::ledger
