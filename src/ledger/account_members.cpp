// Who has a slot of an account, and who holds it still.
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "ledger/account_page.h"
#include "ledger/high_descriptor.h"

namespace headroom::ledger {

namespace {

// open, read, close and fcntl are where a thread may be cancelled, which would leave the locks that it has
// here to nobody.
class NotCancelled {
 public:
  NotCancelled() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NotCancelled() { ::pthread_setcancelstate(before_, nullptr); }
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// For F_OFD_SETLK and F_OFD_GETLK (Linux 3.15).
struct flock byte_of(unsigned slot, short type) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(slot);
  range.l_len = 1;
  return range;
}

// A process that dies in the midst of either leaves a slot without an owner, which counts for nothing.
void clear_slot(AccountPage::Slot& slot) {
  std::atomic_ref(slot.owner.pid).store(0, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  slot = {};
}
void take(AccountPage::Slot& slot, const ProcessIdentity& self, bool has_byte_lock) {
  clear_slot(slot);
  slot.has_byte_lock = has_byte_lock ? 1 : 0;
  slot.owner = self;
  slot.owner.pid = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::atomic_ref(slot.owner.pid).store(self.pid, std::memory_order_release);
}

}  // namespace

// Under the lock, as all that follows to join(). False where the program closed the descriptor or has another
// file at its number.
bool Account::ensure_description() {
  const auto is_ours = [&](int fd) {
    struct stat info {};
    return fd >= 0 && ::fstat(fd, &info) == 0 && info.st_dev == file_system_ && info.st_ino == file_number_;
  };
  if (!is_ours(description_)) return false;
  if (!is_description_of_parent_) return true;
  // The parent's stays open: its lock is what says that this process has the parent's memory, too.
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", description_);
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  // The page is mapped by the parent's; this one is kept open by a mapping of its own, which nobody uses.
  const long held = is_ours(fd) ? ::syscall(SYS_mmap, nullptr, 1, PROT_NONE, MAP_SHARED, fd, long{0}) : -1;
  if (held == -1) {
    ::close(fd);
    return false;
  }
  keep_open_mapping_ = reinterpret_cast<void*>(held);
  description_ = move_to_high_number(fd);
  is_description_of_parent_ = false;
  return true;
}

// By a process that has a description of its own.
bool Account::is_slot_dead(unsigned slot) {
  const AccountPage::Slot& asked = page_->slots[slot];
  if (asked.has_byte_lock == 0) return !may_be_alive(asked.owner);
  struct flock range = byte_of(slot, F_WRLCK);
  if (::fcntl(description_, F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK) return false;
  // A process that ends may give up the lock before the driver's files are closed and its memory is back.
  return !is_exiting(asked.owner);
}

void Account::clear_dead_slots(unsigned device) {
  if (!shared_) return;
  const NotCancelled not_cancelled;
  bool has_looked = false;
  for (unsigned i = 0; i < page_->slots_used; ++i) {
    const AccountPage::Slot& slot = page_->slots[i];
    if (i == slot_.load(std::memory_order_relaxed) || slot.owner.pid == 0 ||
        (device < kMaxDevices && slot.charged[device] == 0))
      continue;
    // Who cannot ask expels nobody: the limit must hold.
    if (!has_looked && !ensure_description()) return;
    has_looked = true;
    if (is_slot_dead(i)) clear_slot(page_->slots[i]);
  }
}

// False: somebody holds the slot. Where nothing can be locked (an old kernel, no descriptor left) a process
// has its slot as long as it lives, in whatever program.
bool Account::claim_slot(unsigned slot, const ProcessIdentity& self) {
  bool has_byte_lock = false;
  if (shared_ && ensure_description()) {
    struct flock range = byte_of(slot, F_WRLCK);
    has_byte_lock = ::fcntl(description_, F_OFD_SETLK, &range) == 0;
    if (!has_byte_lock && (errno == EAGAIN || errno == EACCES)) return false;
  }
  take(page_->slots[slot], self, has_byte_lock);
  page_->slots_used = std::max(page_->slots_used, slot + 1);
  slot_ = slot;
  return true;
}

// A process that became another program by execve takes over its own slot, if it has one still, unless
// children of the earlier program hold it: what that held on a device is gone with it.
bool Account::join() {
  const NotCancelled not_cancelled;
  clear_dead_slots();
  const ProcessIdentity self = this_process();
  for (unsigned i = 0; i < page_->slots_used; ++i)
    if (page_->slots[i].owner == self && claim_slot(i, self)) return true;
  for (unsigned i = 0; i < kMaxMembers; ++i) {
    const bool is_free = i == page_->slots_used || page_->slots[i].owner.pid == 0;
    if (is_free && claim_slot(i, self)) return true;
  }
  return false;
}

void Account::leave() {
  for (Account* const one : accounts()) {
    if (one->slot_ == kNoSlot) continue;
    one->lock();
    clear_slot(one->page_->slots[one->slot_]);
    if (struct flock range = byte_of(one->slot_, F_UNLCK); one->ensure_description())
      ::fcntl(one->description_, F_OFD_SETLK, &range);
    one->slot_ = kNoSlot;
    one->unlock();
  }
}

void Account::reset_after_fork() {
  for (Account* const one : accounts())
    if (one != this) one->reset_after_fork();
  slot_ = kNoSlot;
  is_description_of_parent_ = true;
  for (std::uint64_t& peak : peaks_) peak = 0;
  for (auto& number : device_xor_) number = 0;
  if (page_ == nullptr || shared_) return;
  // A copy of the parent's own, perhaps with its lock held.
  Limits limits;
  std::memcpy(limits.bytes, page_->limits, sizeof limits.bytes);
  std::memset(static_cast<void*>(page_), 0, sizeof *page_);
  initialize(*page_, limits);
}

unsigned Account::members() {
  if (page_ == nullptr) return 0;
  lock();
  clear_dead_slots();
  unsigned count = 0;
  for (unsigned i = 0; i < page_->slots_used; ++i) count += page_->slots[i].owner.pid != 0 ? 1 : 0;
  unlock();
  return count;
}

unsigned Account::uncheckable_members() {
  if (page_ == nullptr) return 0;
  const std::uint64_t here = own_pid_namespace();
  lock();
  unsigned count = 0;
  for (unsigned i = 0; i < page_->slots_used; ++i) {
    const AccountPage::Slot& slot = page_->slots[i];
    count += slot.owner.pid != 0 && slot.has_byte_lock == 0 && slot.owner.pid_namespace != here ? 1 : 0;
  }
  unlock();
  return count;
}

}  // namespace headroom::ledger
