// Opens, creates and closes an account's page, nests accounts, and matches devices between processes.
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "ledger/account_page.h"
#include "ledger/high_descriptor.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace headroom::ledger {

void initialize(AccountPage& page, const Limits& limits) {
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

namespace {

// Calls the kernel directly, because mmap and munmap are hooked in the preload library. The offset is passed
// on the stack, so it must be a long: an int would leave its upper half undefined.
AccountPage* map_page(int flags, int fd) {
  const long memory =
      ::syscall(SYS_mmap, nullptr, sizeof(AccountPage), PROT_READ | PROT_WRITE, flags, fd, long{0});
  return memory == -1 ? nullptr : reinterpret_cast<AccountPage*>(memory);
}

void unmap_page(AccountPage* page) {
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not see the system call. Without this it would apply this lock's order to the next
  // lock at the same address.
  __tsan_mutex_destroy(&page->mutex, 0);
#endif
  ::syscall(SYS_munmap, page, sizeof *page);
}

bool is_usable_file(int fd, struct stat& info) {
  if (::fstat(fd, &info) != 0) return false;
  if (S_ISREG(info.st_mode) && info.st_size == static_cast<off_t>(sizeof(AccountPage)) &&
      (info.st_uid == ::geteuid() || ::geteuid() == 0))
    return true;
  errno = EINVAL;
  return false;
}

}  // namespace

bool Account::open_private(const Limits& limits) {
  close();
  void* const memory = map_page(MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (memory != nullptr) open_private_in(memory, limits);
  return memory != nullptr;
}

static_assert(sizeof(AccountPage) <= Account::kPageBytes);

void Account::open_private_in(void* memory, const Limits& limits) {
  close();
  page_ = static_cast<AccountPage*>(memory);
  initialize(*page_, limits);
  accounts_[0] = this;
  account_count_ = 1;
}

bool Account::open_shared(const char* path) {
  close();
  const int fd = ::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat info {};
  if (is_usable_file(fd, info)) page_ = map_page(MAP_SHARED, fd);
  if (page_ == nullptr) {
    const int error = errno;
    ::close(fd);
    errno = error;
    return false;
  }
  description_ = move_to_high_number(fd);
  shared_ = true;
  file_system_ = info.st_dev;
  file_number_ = info.st_ino;
  accounts_[0] = this;
  account_count_ = 1;
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
  // Allocates the space first: on a full file system a write through the mapping would end the process
  // (SIGBUS).
  int error = ::posix_fallocate(fd, 0, sizeof(AccountPage));
  AccountPage* page = error == 0 ? map_page(MAP_SHARED, fd) : nullptr;
  if (error == 0 && page == nullptr) error = errno;
  if (page != nullptr) {
    initialize(*page, limits);
    unmap_page(page);
    if (::link(temporary, path) != 0) error = errno;  // unlike rename(), this never replaces a file
  }
  ::close(fd);
  ::unlink(temporary);
  errno = error;
  return error == 0;
}

void Account::close() {
  if (page_ != nullptr) unmap_page(page_);
  page_ = nullptr;
  if (keep_open_mapping_ != nullptr) ::syscall(SYS_munmap, keep_open_mapping_, 1);
  keep_open_mapping_ = nullptr;
  if (description_ >= 0) ::close(description_);
  description_ = -1;
  is_description_of_parent_ = false;
  slot_ = kNoSlot;
  shared_ = false;
  file_system_ = file_number_ = 0;
  account_count_ = 0;
  for (auto& number : device_xor_) number = 0;
}

void Account::identify(unsigned device, const std::uint8_t (&uuid)[16]) {
  if (device >= kMaxDevices) return;
  for (Account* const one : accounts()) one->identify_in_this_account(device, uuid);
}

void Account::identify_in_this_account(unsigned device, const std::uint8_t (&uuid)[16]) {
  static constexpr std::uint8_t kUnknown[16] = {};
  const auto find = [&](const std::uint8_t(&wanted)[16], unsigned otherwise) {
    for (unsigned i = 0; i < kMaxDevices; ++i)
      if (std::memcmp(page_->uuids[i], wanted, sizeof wanted) == 0) return i;
    return otherwise;
  };
  if (std::memcmp(uuid, kUnknown, sizeof uuid) == 0) return;
  lock();
  unsigned number = find(uuid, kMaxDevices);
  if (number == kMaxDevices) {
    const bool is_free = std::memcmp(page_->uuids[device], kUnknown, sizeof uuid) == 0;
    number = is_free ? device : find(kUnknown, device);
    if (std::memcmp(page_->uuids[number], kUnknown, sizeof uuid) == 0)
      std::memcpy(page_->uuids[number], uuid, sizeof uuid);
  }
  unlock();
  device_xor_[device] = static_cast<std::uint8_t>(device ^ number);
}

bool Account::is_same_file(const Account& other) const {
  return file_number_ != 0 && file_number_ == other.file_number_ && file_system_ == other.file_system_;
}

bool Account::is_locked_before(const Account& other) const {
  return file_system_ != other.file_system_ ? file_system_ < other.file_system_
                                            : file_number_ < other.file_number_;
}

void Account::nest_in(Account& outer) {
  for (const Account* const one : accounts())
    if (one->is_same_file(outer)) return;
  if (page_ == nullptr || outer.page_ == nullptr || account_count_ == kMaxAccounts) return;
  unsigned at = account_count_++;
  for (; at > 0 && outer.is_locked_before(*accounts_[at - 1]); --at) accounts_[at] = accounts_[at - 1];
  accounts_[at] = &outer;
}

}  // namespace headroom::ledger
