// The account of a GPU memory limit: how many bytes of each device are charged, and how many may be.
//
// An account is one page of memory. It is private to a process, or a file that several processes map to share
// a limit. Accounts nest: a request must fit into every enclosing account and is charged to all of them.
//
// Each process owns a slot with its own charge; the account's total is the sum of the slots. A process can
// die at any moment, so no total is ever stored. A robust mutex guards the page: it survives the death of its
// holder. A process clears the slots of dead processes when it joins, reads the total, sets a new peak, or
// would be refused.
//
// How a slot's owner is known to be alive: the process holds an open-file-description lock on the byte with
// its slot's number. The kernel drops that lock when the last descriptor closes: at exec, but not at fork.
// That matches the driver, which keeps a dead parent's memory as long as a forked child has its device files
// open. Nothing has to run at fork or exit. The page is mapped from that description, so it stays open even
// if the program closes all its descriptors.
//
// This code runs inside other programs: it never allocates and never throws. Cost of a charge: 50 ns + 2 ns
// per process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace headroom::ledger {

inline constexpr unsigned kMaxDevices = 64;
inline constexpr unsigned kMaxMembers = 1024;
inline constexpr unsigned kMaxAccounts = 8;  // nested in each other
inline constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

// The limit of each device in bytes, or kNoLimit.
struct Limits {
  std::uint64_t bytes[kMaxDevices] = {};
  constexpr Limits() {
    for (std::uint64_t& limit : bytes) limit = kNoLimit;
  }
  bool any() const {
    for (const std::uint64_t limit : bytes)
      if (limit != kNoLimit) return true;
    return false;
  }
};

struct AccountPage;
struct ProcessIdentity;

class Account {
 public:
  constexpr Account() = default;
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;
  ~Account() { close(); }

  // Opens an account of this process alone. Returns false if no memory is available.
  bool open_private(const Limits& limits);
  // The same in `memory`: kPageBytes zeroed bytes from the kernel, which the account unmaps when it closes.
  // For callers that must not fail.
  static constexpr std::size_t kPageBytes = std::size_t{1} << 20;
  void open_private_in(void* memory, const Limits& limits);
  // Opens an account that create_shared() made. Returns false, with errno, if the file is not usable.
  bool open_shared(const char* path);
  // Creates the file of a shared account. The file gets its name when it is complete. Returns false, with
  // errno (EEXIST if it exists).
  static bool create_shared(const char* path, const Limits& limits);
  void close();
  // Makes `outer` an enclosing account: every later charge counts in both, and limit(), would_fit() and the
  // like consider both. Both must be open with nothing charged; `outer` must outlive this account and serve
  // no other. Accounts of the same file are nested only once.
  void nest_in(Account& outer);

  // Sets the UUID of the device that this process numbers `device`, before anything is charged to it.
  // Processes may number the same devices differently (CUDA_VISIBLE_DEVICES), so the account matches devices
  // by UUID. A new UUID gets this process's number if that is free, or the next free number. A device without
  // a UUID has the same number in every process.
  void identify(unsigned device, const std::uint8_t (&uuid)[16]);

  bool is_open() const { return page_ != nullptr; }
  bool is_shared() const { return shared_; }
  std::uint64_t limit(unsigned device) const;  // the smallest of the nested accounts

  // Returns whether charge() would succeed now. Does not check for dead processes, whose charges still count.
  bool would_fit(unsigned device, std::uint64_t bytes);
  struct LimitUsage {
    std::uint64_t limit = kNoLimit, charged = 0;  // charged to all live processes
    std::uint64_t left() const {
      return limit == kNoLimit ? kNoLimit : limit - (charged < limit ? charged : limit);
    }
  };
  // The nested account with the fewest bytes left.
  LimitUsage tightest_limit(unsigned device);
  struct ProcessCharge {
    std::int32_t pid = 0;
    bool is_visible = false;  // `pid` is valid in this process's PID namespace
    std::uint64_t bytes = 0;
  };
  // Fills `largest` with the largest charges in the account of tightest_limit(), this process included,
  // largest first. Returns how many it filled.
  std::size_t largest_charges(unsigned device, std::span<ProcessCharge> largest);
  // Claims a slot if the process has none yet, even if the limit is exceeded. Returns false if all slots are
  // taken. (A charge joins, too.)
  bool ensure_joined();
  // Charges this process, if the total stays within the limit.
  bool charge(unsigned device, std::uint64_t bytes);
  // Charges for a driver call that may still fail. The charge counts for the peak only after note_peaks().
  bool reserve(unsigned device, std::uint64_t bytes);
  void note_peaks(unsigned device);
  // Charges whatever the limit is: for memory that is already allocated.
  void force_charge(unsigned device, std::uint64_t bytes);
  // Reduces this process's charge, but not below 0.
  void discharge(unsigned device, std::uint64_t bytes);
  // The charge of all live processes, in this account alone (without the enclosing ones).
  std::uint64_t charged(unsigned device);
  std::uint64_t charged_to_this_process(unsigned device);
  // The number of live processes that joined.
  unsigned members();
  // The number of members whose death this process cannot notice. They are in another PID namespace (a
  // container), and no lock on their slot's byte was possible (an old kernel, or no free descriptor).
  unsigned uncheckable_members();
  // The highest charge since the last reset. peak() is that of all processes together. It may include the
  // charge of a process that died less than 1 ms ago. Joining clears dead slots, so it never adds that charge
  // to the charge of a process that joined later.
  std::uint64_t peak_of_this_process(unsigned device);
  void reset_peak_of_this_process(unsigned device);
  std::uint64_t peak(unsigned device);
  // Returns whether peak() stayed within this account's limit. It does not if the driver allocated more than
  // expected, because that is charged, too.
  bool has_kept_limit(unsigned device);
  void reset_peaks();
  // Counts a refused request and its bytes, for all processes together. `needed` is what would have been
  // charged (for a pool, whole steps); the refusal counts in each account that `needed` does not fit into.
  void note_refusal(unsigned device, std::uint64_t bytes, std::uint64_t needed);
  std::uint64_t refused(unsigned device);
  std::uint64_t refused_bytes(unsigned device);

  // Drivers that a process loaded in a way that Headroom's hooks do not cover, so their memory is not
  // charged.
  void note_unhooked_driver();
  std::uint32_t unhooked_drivers();

  // Clears this process's slot, and with it the charge.
  void leave();
  // For a child after fork: the child gets a slot of its own at its next charge. The parent's charge stays,
  // even if the parent dies, for as long as the child lives without exec.
  void reset_after_fork();

 private:
  static constexpr unsigned kNoSlot = ~0U;
  bool join();
  void lock();
  void unlock();
  bool claim_slot(unsigned slot, const ProcessIdentity& self);
  bool ensure_description();
  bool is_slot_dead(unsigned slot);
  // With `device`: checks only the slots with a charge on it, which is cheaper.
  void clear_dead_slots(unsigned device = kMaxDevices);
  template <class Get>
  std::uint64_t read(unsigned device, const Get& get);
  std::uint64_t sum(unsigned device) const;
  std::uint64_t own_charge(unsigned device) const;
  enum class Grant { within_limit, forced, reservation };
  bool add(unsigned device, std::uint64_t bytes, Grant grant);
  bool fits(unsigned device, std::uint64_t bytes) const;
  void note_own_peaks(unsigned number);
  bool is_dead_check_due();
  Account* tightest_account(unsigned device, LimitUsage& usage);
  // This account and the enclosing ones.
  std::span<Account* const> accounts() const { return {accounts_, account_count_}; }
  // Calls act(account) for each of them, while it is locked.
  template <class Act>
  void for_each_locked(const Act& act) {
    for (Account* const one : accounts()) {
      one->lock();
      act(*one);
      one->unlock();
    }
  }
  bool is_locked_before(const Account& other) const;
  bool is_same_file(const Account& other) const;
  // Translates this process's device number into the account's device number.
  unsigned account_device(unsigned device) const {
    return device ^ device_xor_[device].load(std::memory_order_relaxed);
  }
  void identify_in_this_account(unsigned device, const std::uint8_t (&uuid)[16]);

  AccountPage* page_ = nullptr;
  bool shared_ = false;
  std::uint64_t file_system_ = 0, file_number_ = 0;  // device and inode of the file; 0: private
  // Sorted by file, which is the same order in every process: locks are taken in this order.
  Account* accounts_[kMaxAccounts] = {};
  unsigned account_count_ = 0;
  // The account's device number, XORed with this process's; 0: both are equal.
  std::atomic<std::uint8_t> device_xor_[kMaxDevices] = {};
  std::atomic<unsigned> slot_{kNoSlot};
  std::uint64_t peaks_[kMaxDevices] = {};  // of this process; guarded by the page's lock
  // Descriptor of the account's file; its open file description holds the lock on the slot's byte. Guarded by
  // the page's lock. After fork a child shares its parent's description until it needs one itself.
  int description_ = -1;
  bool is_description_of_parent_ = false;
  // Keeps a forked child's own description open. (The page itself stays mapped from the parent's
  // description.)
  void* keep_open_mapping_ = nullptr;
  std::int64_t last_dead_check_ns_ = 0;  // the last check for dead processes that a new peak caused
};

}  // namespace headroom::ledger
