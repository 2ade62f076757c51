// Slots of an account: how a process claims one, and how others notice that it died. account.h explains the
// concept.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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

// open, read, close and fcntl are cancellation points. A thread that is cancelled in one would never release
// the locks that it holds here.
class CancellationGuard {
 public:
  CancellationGuard() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationGuard() { ::pthread_setcancelstate(before_, nullptr); }
  CancellationGuard(const CancellationGuard&) = delete;
  CancellationGuard& operator=(const CancellationGuard&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// The argument of F_OFD_SETLK and F_OFD_GETLK (Linux 3.15).
struct flock byte_of(unsigned slot, short type) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(slot);
  range.l_len = 1;
  return range;
}

// These two clear the owner's PID first and set it last. So a process that dies halfway leaves a slot without
// an owner, which does not count.
void clear_slot(AccountPage::Slot& slot) {
  std::atomic_ref(slot.owner.pid).store(0, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  slot = {};
}
void set_owner(AccountPage::Slot& slot, const ProcessIdentity& self, bool has_byte_lock) {
  clear_slot(slot);
  slot.has_byte_lock = has_byte_lock ? 1 : 0;
  slot.owner = self;
  slot.owner.pid = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::atomic_ref(slot.owner.pid).store(self.pid, std::memory_order_release);
}

}  // namespace

// Makes sure that this process has its own open file description; opens one in a forked child. Returns false
// if the program closed the descriptor or reused its number. Callers of this and the functions up to join()
// hold the lock.
bool Account::ensure_description() {
  const auto is_ours = [&](int fd) {
    struct stat info {};
    return fd >= 0 && ::fstat(fd, &info) == 0 && info.st_dev == file_system_ && info.st_ino == file_number_;
  };
  if (!is_ours(description_)) return false;
  if (!is_description_of_parent_) return true;
  // The parent's description stays open: its lock shows that this process keeps the parent's memory alive.
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", description_);
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  // The page is mapped from the parent's description. An unused mapping keeps this one open, even if the
  // program closes the descriptor.
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

// Requires ensure_description(): a lock of the own description would look unlocked.
bool Account::is_slot_dead(unsigned slot) {
  const AccountPage::Slot& asked = page_->slots[slot];
  if (asked.has_byte_lock == 0) return !may_be_alive(asked.owner);
  struct flock range = byte_of(slot, F_WRLCK);
  if (::fcntl(description_, F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK) return false;
  // An exiting process may lose the lock before it has closed the driver's files and the driver has freed its
  // memory.
  return !is_exiting(asked.owner);
}

void Account::clear_dead_slots(unsigned device) {
  if (!shared_) return;
  const CancellationGuard guard;
  bool has_checked = false;
  for (unsigned i = 0; i < page_->slots_used; ++i) {
    const AccountPage::Slot& slot = page_->slots[i];
    if (i == slot_.load(std::memory_order_relaxed) || slot.owner.pid == 0 ||
        (device < kMaxDevices && slot.charged[device] == 0))
      continue;
    // Without a description no lock can be tested, so no slot is cleared: the limit must hold.
    if (!has_checked && !ensure_description()) return;
    has_checked = true;
    if (is_slot_dead(i)) clear_slot(page_->slots[i]);
  }
}

// Returns false if another description has locked the slot's byte. If locking is impossible (old kernel, no
// descriptor), the process keeps the slot until it dies, even across exec.
bool Account::claim_slot(unsigned slot, const ProcessIdentity& self) {
  bool has_byte_lock = false;
  if (shared_ && ensure_description()) {
    struct flock range = byte_of(slot, F_WRLCK);
    has_byte_lock = ::fcntl(description_, F_OFD_SETLK, &range) == 0;
    if (!has_byte_lock && (errno == EAGAIN || errno == EACCES)) return false;
  }
  set_owner(page_->slots[slot], self, has_byte_lock);
  page_->slots_used = std::max(page_->slots_used, slot + 1);
  slot_ = slot;
  return true;
}

// After execve a process claims its former slot again, and thereby clears it: exec freed the old program's
// device memory. It cannot claim the slot if a child of the old program still locks it.
bool Account::join() {
  const CancellationGuard guard;
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
  // This private page is a copy of the parent's, and another thread of the parent may have held its lock.
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

namespace {

struct ProcessStat {
  std::uint64_t start_ticks = 0;  // 0: unknown
  bool is_exiting = false;
  bool has_ended = false;  // a zombie: its memory is freed, and it waits for its parent
};

// Reads fields 3 (state), 9 (flags), 20 (threads) and 22 (start time) of /proc/PID/stat. Parsing starts after
// the last ')', because the program's name (field 2) may contain any character.
ProcessStat stat_of(std::uint32_t pid) {
  char path[32], text[1024];
  std::snprintf(path, sizeof path, "/proc/%u/stat", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t length = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (length <= 0) return {};
  text[length] = 0;
  const char* at = std::strrchr(text, ')');
  char state = 0;
  std::uint64_t flags = 0, threads = 0, ticks = 0;
  for (int field = 2; at != nullptr && field < 22; ++field) {
    at = std::strchr(at + 1, ' ');
    if (at == nullptr) return {};
    if (field + 1 == 3) state = at[1];
    if (field + 1 != 9 && field + 1 != 20 && field + 1 != 22) continue;
    std::uint64_t number = 0;
    for (const char* digit = at + 1; *digit >= '0' && *digit <= '9'; ++digit)
      number = number * 10 + static_cast<std::uint64_t>(*digit - '0');
    (field + 1 == 9 ? flags : field + 1 == 20 ? threads : ticks) = number;
  }
  constexpr std::uint64_t kExiting = 4;  // the kernel's PF_EXITING
  // A main thread that ended before the others is also shown as a zombie.
  const bool has_ended = state == 'X' || (state == 'Z' && threads <= 1);
  return {ticks, !has_ended && (flags & kExiting) != 0, has_ended};
}

}  // namespace

std::uint64_t own_pid_namespace() {
  struct stat info {};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

ProcessIdentity this_process() {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return {pid, stat_of(pid).start_ticks, own_pid_namespace()};
}

bool is_exiting(const ProcessIdentity& process) {
  if (process.pid == 0 || process.pid_namespace != own_pid_namespace()) return false;
  const ProcessStat now = stat_of(process.pid);
  return now.is_exiting && now.start_ticks == process.start_ticks;
}

bool may_be_alive(const ProcessIdentity& process) {
  if (process.pid == 0) return false;
  if (process.pid_namespace != own_pid_namespace()) return true;
  if (::kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return false;
  const ProcessStat now = stat_of(process.pid);
  if (now.has_ended) return false;
  return now.start_ticks == 0 || process.start_ticks == 0 || now.start_ticks == process.start_ticks;
}

}  // namespace headroom::ledger
