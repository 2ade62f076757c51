#include "ledger/account.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "ledger/high_descriptor.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace headroom::ledger {

// In a file: what has another size or magic is of another version and not used.
struct AccountPage {
  static constexpr std::uint64_t kMagic = 0x3454434341524448;  // "HDRACCT4"
  std::uint64_t magic;
  std::uint64_t page_bytes;
  pthread_mutex_t mutex;
  std::uint32_t slots_used;  // behind these there never was a member
  std::uint32_t out_of_reach;
  std::uint8_t uuids[kMostDevices][16];  // zero: not told yet
  std::uint64_t limits[kMostDevices];
  std::uint64_t peaks[kMostDevices];  // of the sum
  std::uint64_t refused[kMostDevices], refused_bytes[kMostDevices];
  struct Slot {
    ProcessIdentity owner;
    std::uint64_t is_locked;  // whoever has it holds the lock on its byte, so that alone tells
    std::uint64_t charged[kMostDevices];
  } slots[kMostMembers];
};

namespace {

struct ProcessStat {
  std::uint64_t start_ticks = 0;  // 0: not known
  bool has_ended = false;         // a zombie: it has given its memory back, and waits for its parent
};

// Of the text behind the last ')' (a program's name may hold anything) the 1st word, the 18th and the 20th.
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
  std::uint64_t threads = 0, ticks = 0;
  for (int field = 2; at != nullptr && field < 22; ++field) {
    at = std::strchr(at + 1, ' ');
    if (at == nullptr) return {};
    if (field + 1 == 3) state = at[1];
    if (field + 1 != 20 && field + 1 != 22) continue;
    std::uint64_t number = 0;
    for (const char* digit = at + 1; *digit >= '0' && *digit <= '9'; ++digit)
      number = number * 10 + static_cast<std::uint64_t>(*digit - '0');
    (field + 1 == 20 ? threads : ticks) = number;
  }
  // A first thread that has ended while others run is a zombie, too.
  return {ticks, state == 'X' || (state == 'Z' && threads <= 1)};
}

std::uint64_t own_pid_namespace() {
  struct stat info {};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

bool same(const ProcessIdentity& a, const ProcessIdentity& b) {
  return a.pid == b.pid && a.start_ticks == b.start_ticks && a.pid_namespace == b.pid_namespace;
}

void set_up(AccountPage& page, const Limits& limits) {
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&page.mutex, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
  std::memcpy(page.limits, limits.bytes, sizeof page.limits);
  page.page_bytes = sizeof page;
  page.magic = AccountPage::kMagic;
}

// Straight from the kernel: in the preload library mmap and munmap are hooked. The last argument lies on the
// stack, where an int would leave half of the offset as it was.
AccountPage* map_page(int flags, int fd) {
  const long memory =
      ::syscall(SYS_mmap, nullptr, sizeof(AccountPage), PROT_READ | PROT_WRITE, flags, fd, long{0});
  return memory == -1 ? nullptr : reinterpret_cast<AccountPage*>(memory);
}

void unmap_page(AccountPage* page) {
#if defined(__SANITIZE_THREAD__)
  // Which sees no system call: the order of this lock would be held against the next one at its address.
  __tsan_mutex_destroy(&page->mutex, 0);
#endif
  ::syscall(SYS_munmap, page, sizeof *page);
}

// For F_OFD_SETLK and F_OFD_GETLK (Linux 3.15).
struct flock byte_of(unsigned slot, short type) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(slot);
  range.l_len = 1;
  return range;
}

std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool file_is_sound(int fd, struct stat& info) {
  if (::fstat(fd, &info) != 0) return false;
  if (S_ISREG(info.st_mode) && info.st_size == static_cast<off_t>(sizeof(AccountPage)) &&
      (info.st_uid == ::geteuid() || ::geteuid() == 0))
    return true;
  errno = EINVAL;
  return false;
}

}  // namespace

ProcessIdentity this_process() {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return {pid, stat_of(pid).start_ticks, own_pid_namespace()};
}

bool may_be_alive(const ProcessIdentity& process) {
  if (process.pid == 0) return false;
  if (process.pid_namespace != own_pid_namespace()) return true;
  if (::kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return false;
  const ProcessStat now = stat_of(process.pid);
  if (now.has_ended) return false;
  return now.start_ticks == 0 || process.start_ticks == 0 || now.start_ticks == process.start_ticks;
}

bool Account::open_private(const Limits& limits) {
  close();
  page_ = map_page(MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (page_ == nullptr) return false;
  set_up(*page_, limits);
  all_[0] = this;
  count_ = 1;
  return true;
}

bool Account::open_shared(const char* path) {
  close();
  const int fd = ::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat info {};
  if (file_is_sound(fd, info)) page_ = map_page(MAP_SHARED, fd);
  if (page_ == nullptr) {
    const int error = errno;
    ::close(fd);
    errno = error;
    return false;
  }
  description_ = move_up(fd);
  shared_ = true;
  file_system_ = info.st_dev;
  file_number_ = info.st_ino;
  all_[0] = this;
  count_ = 1;
  if (page_->magic == AccountPage::kMagic && page_->page_bytes == sizeof(AccountPage)) return true;
  close();
  errno = EINVAL;
  return false;
}

bool Account::create_shared(const char* path, const Limits& limits) {
  char temporary[4096];
  if (std::snprintf(temporary, sizeof temporary, "%s.%d.new", path, ::getpid()) >=
      static_cast<int>(sizeof temporary)) {
    errno = ENAMETOOLONG;
    return false;
  }
  const int fd = ::open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  // Space first: a page that a full file system cannot give would kill its writer.
  int error = ::posix_fallocate(fd, 0, sizeof(AccountPage));
  AccountPage* page = error == 0 ? map_page(MAP_SHARED, fd) : nullptr;
  if (error == 0 && page == nullptr) error = errno;
  if (page != nullptr) {
    set_up(*page, limits);
    unmap_page(page);
    if (::link(temporary, path) != 0) error = errno;  // unlike rename, it never replaces
  }
  ::close(fd);
  ::unlink(temporary);
  errno = error;
  return error == 0;
}

void Account::close() {
  if (page_ != nullptr) unmap_page(page_);
  page_ = nullptr;
  if (description_ >= 0) ::close(description_);
  description_ = -1;
  is_parents_description_ = false;
  slot_ = kNoSlot;
  shared_ = false;
  file_system_ = file_number_ = 0;
  count_ = 0;
  for (auto& number : numbers_) number = 0;
}

void Account::identify(unsigned device, const std::uint8_t (&uuid)[16]) {
  if (device >= kMostDevices) return;
  for (Account* const one : all()) one->identify_here(device, uuid);
}

void Account::identify_here(unsigned device, const std::uint8_t (&uuid)[16]) {
  static constexpr std::uint8_t kUntold[16] = {};
  const auto find = [&](const std::uint8_t(&wanted)[16], unsigned otherwise) {
    for (unsigned i = 0; i < kMostDevices; ++i)
      if (std::memcmp(page_->uuids[i], wanted, sizeof wanted) == 0) return i;
    return otherwise;
  };
  if (std::memcmp(uuid, kUntold, sizeof uuid) == 0) return;
  lock();
  unsigned number = find(uuid, kMostDevices);
  if (number == kMostDevices) {
    const bool is_free = std::memcmp(page_->uuids[device], kUntold, sizeof uuid) == 0;
    number = is_free ? device : find(kUntold, device);
    if (std::memcmp(page_->uuids[number], kUntold, sizeof uuid) == 0)
      std::memcpy(page_->uuids[number], uuid, sizeof uuid);
  }
  unlock();
  numbers_[device] = static_cast<std::uint8_t>(device ^ number);
}

bool Account::is_same_file(const Account& other) const {
  return file_number_ != 0 && file_number_ == other.file_number_ && file_system_ == other.file_system_;
}

bool Account::is_locked_before(const Account& other) const {
  return file_system_ != other.file_system_ ? file_system_ < other.file_system_
                                            : file_number_ < other.file_number_;
}

void Account::lie_within(Account& outer) {
  for (const Account* const one : all())
    if (one->is_same_file(outer)) return;
  if (page_ == nullptr || outer.page_ == nullptr || count_ == kMostAccounts) return;
  unsigned at = count_++;
  for (; at > 0 && outer.is_locked_before(*all_[at - 1]); --at) all_[at] = all_[at - 1];
  all_[at] = &outer;
}

void Account::leave() {
  for (Account* const one : all()) {
    if (one->slot_ == kNoSlot) continue;
    one->lock();
    one->page_->slots[one->slot_] = {};
    if (struct flock range = byte_of(one->slot_, F_UNLCK); one->has_description())
      ::fcntl(one->description_, F_OFD_SETLK, &range);
    one->slot_ = kNoSlot;
    one->unlock();
  }
}

void Account::leave_to_parent() {
  for (Account* const one : all())
    if (one != this) one->leave_to_parent();
  slot_ = kNoSlot;
  is_parents_description_ = true;
  for (std::uint64_t& peak : peaks_) peak = 0;
  for (auto& number : numbers_) number = 0;
  if (page_ == nullptr || shared_) return;
  // A copy of the parent's own, perhaps with its lock held.
  Limits limits;
  std::memcpy(limits.bytes, page_->limits, sizeof limits.bytes);
  std::memset(static_cast<void*>(page_), 0, sizeof *page_);
  set_up(*page_, limits);
}

std::uint64_t Account::limit(unsigned device) const {
  std::uint64_t smallest = kNoLimit;
  if (device >= kMostDevices) return smallest;
  for (const Account* const one : all())
    smallest = std::min(smallest, one->page_->limits[one->number_of(device)]);
  return smallest;
}

void Account::lock() {
  // Slots are changed by one store each, so what a dead holder left is sound.
  if (::pthread_mutex_lock(&page_->mutex) == EOWNERDEAD) ::pthread_mutex_consistent(&page_->mutex);
}

void Account::unlock() { ::pthread_mutex_unlock(&page_->mutex); }

std::uint64_t Account::sum(unsigned device) const {
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < page_->slots_used; ++i) bytes += page_->slots[i].charged[device];
  return bytes;
}

// Under the lock, as all that follows. False where the program closed the descriptor or has another file at
// its number.
bool Account::has_description() {
  const auto is_ours = [&](int fd) {
    struct stat info {};
    return fd >= 0 && ::fstat(fd, &info) == 0 && info.st_dev == file_system_ && info.st_ino == file_number_;
  };
  if (!is_ours(description_)) return false;
  if (!is_parents_description_) return true;
  // The parent's stays open: its lock is what says that this process has the parent's memory, too.
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", description_);
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  // The page is mapped by the parent's; this one is kept open by a mapping of its own, which nobody uses.
  if (!is_ours(fd) || ::syscall(SYS_mmap, nullptr, 1, PROT_NONE, MAP_SHARED, fd, long{0}) == -1) {
    ::close(fd);
    return false;
  }
  description_ = move_up(fd);
  is_parents_description_ = false;
  return true;
}

// By a process that has a description of its own.
bool Account::is_gone(unsigned slot) {
  const AccountPage::Slot& asked = page_->slots[slot];
  if (asked.is_locked == 0) return !may_be_alive(asked.owner);
  struct flock range = byte_of(slot, F_WRLCK);
  return ::fcntl(description_, F_OFD_GETLK, &range) == 0 && range.l_type == F_UNLCK;
}

void Account::expel_the_dead(unsigned device) {
  if (!shared_) return;
  bool has_looked = false;
  for (unsigned i = 0; i < page_->slots_used; ++i) {
    const AccountPage::Slot& slot = page_->slots[i];
    if (i == slot_.load(std::memory_order_relaxed) || slot.owner.pid == 0 ||
        (device < kMostDevices && slot.charged[device] == 0))
      continue;
    // Who cannot ask expels nobody: the limit must hold.
    if (!has_looked && !has_description()) return;
    has_looked = true;
    if (is_gone(i)) page_->slots[i] = {};
  }
}

// False: somebody holds the slot. Where nothing can be locked (an old kernel, no descriptor left) a process
// has its slot as long as it lives, in whatever program.
bool Account::take_slot(unsigned slot, const ProcessIdentity& self) {
  bool is_locked = false;
  if (shared_ && has_description()) {
    struct flock range = byte_of(slot, F_WRLCK);
    is_locked = ::fcntl(description_, F_OFD_SETLK, &range) == 0;
    if (!is_locked && (errno == EAGAIN || errno == EACCES)) return false;
  }
  page_->slots[slot] = {};
  page_->slots[slot].owner = self;
  page_->slots[slot].is_locked = is_locked ? 1 : 0;
  page_->slots_used = std::max(page_->slots_used, slot + 1);
  slot_ = slot;
  return true;
}

// A process that became another program by execve takes over its own slot, if it has one still, unless
// children of the earlier program hold it: what that held on a device is gone with it.
bool Account::join() {
  expel_the_dead();
  const ProcessIdentity self = this_process();
  for (unsigned i = 0; i < page_->slots_used; ++i)
    if (same(page_->slots[i].owner, self) && take_slot(i, self)) return true;
  for (unsigned i = 0; i < kMostMembers; ++i) {
    const bool is_free = i == page_->slots_used || page_->slots[i].owner.pid == 0;
    if (is_free && take_slot(i, self)) return true;
  }
  return false;
}

// Under the lock. `bytes` may be anything that a program asks for, so nothing is added to it.
bool Account::fits(unsigned device, std::uint64_t bytes) const {
  const std::uint64_t limit = page_->limits[device];
  if (limit == kNoLimit) return true;
  const std::uint64_t charged = sum(device);
  return charged <= limit && bytes <= limit - charged;
}

// All locks are held at once, so that what one account grants and another refuses is never seen as charged.
bool Account::add(unsigned device, std::uint64_t bytes, bool within_limit) {
  if (page_ == nullptr || device >= kMostDevices) return true;
  for (Account* const one : all()) one->lock();
  bool granted = true;
  for (Account* const one : all()) {
    const unsigned number = one->number_of(device);
    granted = granted && (one->slot_ != kNoSlot || one->join());
    if (!granted || !within_limit || one->fits(number, bytes)) continue;
    one->expel_the_dead();
    granted = one->fits(number, bytes);
  }
  for (Account* const one : all()) {
    if (granted) {
      one->page_->slots[one->slot_].charged[one->number_of(device)] += bytes;
      one->note_peaks(one->number_of(device));
    }
    one->unlock();
  }
  return granted;
}

void Account::note_peaks(unsigned device) {
  const std::uint64_t own = page_->slots[slot_].charged[device], all = sum(device);
  if (own > peaks_[device]) peaks_[device] = own;
  if (all <= page_->peaks[device]) return;
  if (all == own || !is_time_to_look()) {
    page_->peaks[device] = all;
    return;
  }
  expel_the_dead(device);
  page_->peaks[device] = std::max(page_->peaks[device], sum(device));
}

// A look takes 1 to 2 us for each process beside this one, and programs start with a new peak at every call.
bool Account::is_time_to_look() {
  constexpr std::int64_t kIntervalNs = 1'000'000;
  const std::int64_t now = monotonic_ns();
  if (now - looked_at_ns_ < kIntervalNs) return false;
  looked_at_ns_ = now;
  return true;
}

bool Account::has_kept_limit(unsigned device) {
  if (page_ == nullptr || device >= kMostDevices) return true;
  return peak(device) <= page_->limits[number_of(device)];
}

std::uint64_t Account::peak_of_this_process(unsigned device) {
  if (page_ == nullptr || device >= kMostDevices) return 0;
  lock();
  const std::uint64_t peak = peaks_[number_of(device)];
  unlock();
  return peak;
}

void Account::reset_peak_of_this_process(unsigned device) {
  if (page_ == nullptr || device >= kMostDevices) return;
  lock();
  peaks_[number_of(device)] = own_charge(device);
  unlock();
}

std::uint64_t Account::peak(unsigned device) {
  if (page_ == nullptr || device >= kMostDevices) return 0;
  lock();
  const std::uint64_t peak = page_->peaks[number_of(device)];
  unlock();
  return peak;
}

void Account::reset_peaks() {
  if (page_ == nullptr) return;
  lock();
  expel_the_dead();
  for (unsigned device = 0; device < kMostDevices; ++device) page_->peaks[device] = sum(device);
  unlock();
}

void Account::note_refusal(unsigned device, std::uint64_t bytes, std::uint64_t needed) {
  if (page_ == nullptr || device >= kMostDevices) return;
  bool is_noted = false;
  for (Account* const one : all()) {
    one->lock();
    const unsigned number = one->number_of(device);
    if (!one->fits(number, needed) || (!is_noted && one == all_[count_ - 1])) {
      ++one->page_->refused[number];
      one->page_->refused_bytes[number] += bytes;
      is_noted = true;
    }
    one->unlock();
  }
}

std::uint64_t Account::refused(unsigned device) {
  return page_ == nullptr || device >= kMostDevices ? 0 : page_->refused[number_of(device)];
}

std::uint64_t Account::refused_bytes(unsigned device) {
  return page_ == nullptr || device >= kMostDevices ? 0 : page_->refused_bytes[number_of(device)];
}

bool Account::has_room(unsigned device, std::uint64_t bytes) {
  if (limit(device) == kNoLimit) return true;
  bool has_room = true;
  for (Account* const one : all()) {
    one->lock();
    has_room = has_room && one->fits(one->number_of(device), bytes);
    one->unlock();
  }
  return has_room;
}

Account::Room Account::tightest(unsigned device) {
  Room tightest;
  if (device >= kMostDevices) return tightest;
  for (Account* const one : all()) {
    const Room room{one->page_->limits[one->number_of(device)], one->charged(device)};
    if (one == all_[0] || room.left() < tightest.left()) tightest = room;
  }
  return tightest;
}

bool Account::charge(unsigned device, std::uint64_t bytes) { return add(device, bytes, true); }

void Account::charge_anyway(unsigned device, std::uint64_t bytes) { add(device, bytes, false); }

void Account::discharge(unsigned device, std::uint64_t bytes) {
  if (device >= kMostDevices) return;
  for (Account* const one : all()) {
    one->lock();
    if (one->slot_ != kNoSlot) {
      std::uint64_t& charged = one->page_->slots[one->slot_].charged[one->number_of(device)];
      charged -= std::min(bytes, charged);
    }
    one->unlock();
  }
}

std::uint64_t Account::charged(unsigned device) {
  if (page_ == nullptr || device >= kMostDevices) return 0;
  lock();
  expel_the_dead();
  const std::uint64_t bytes = sum(number_of(device));
  unlock();
  return bytes;
}

std::uint64_t Account::charged_to_this_process(unsigned device) {
  if (page_ == nullptr || device >= kMostDevices) return 0;
  lock();
  const std::uint64_t bytes = own_charge(device);
  unlock();
  return bytes;
}

std::uint64_t Account::own_charge(unsigned device) const {
  return slot_ == kNoSlot ? 0 : page_->slots[slot_].charged[number_of(device)];
}

void Account::note_out_of_reach() {
  for (Account* const one : all()) {
    one->lock();
    ++one->page_->out_of_reach;
    one->unlock();
  }
}

std::uint32_t Account::out_of_reach() const { return page_ == nullptr ? 0 : page_->out_of_reach; }

unsigned Account::members() {
  if (page_ == nullptr) return 0;
  lock();
  expel_the_dead();
  unsigned count = 0;
  for (unsigned i = 0; i < page_->slots_used; ++i) count += page_->slots[i].owner.pid != 0 ? 1 : 0;
  unlock();
  return count;
}

unsigned Account::members_elsewhere() {
  if (page_ == nullptr) return 0;
  const std::uint64_t here = own_pid_namespace();
  lock();
  unsigned count = 0;
  for (unsigned i = 0; i < page_->slots_used; ++i) {
    const AccountPage::Slot& slot = page_->slots[i];
    count += slot.owner.pid != 0 && slot.is_locked == 0 && slot.owner.pid_namespace != here ? 1 : 0;
  }
  unlock();
  return count;
}

}  // namespace headroom::ledger
