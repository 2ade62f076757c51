// How much of each device's memory is charged, and how much may be: the account that makes a limit refuse.
//
// An account is a page of memory: private to a process, or a file that several processes map and so share a
// limit. It may lie within others (a limit within a limit): then a request is granted if all have room for
// it, and charged to all. Each process has a slot that holds what it was charged; the sum over the slots is
// the account. A grant is decided under a lock that survives the death of its holder (a robust mutex), and a
// slot that nobody holds any more is emptied by the next process that joins, would be refused, asks what is
// left, or would set a new peak. So there is no total that a death could leave wrong.
//
// Who holds a slot: the driver keeps memory until nobody has its device files open any more. A child of fork
// has them, too, and keeps its dead parent's memory; exec closes them. The kernel tells the same of a lock of
// an open file description: so each process has a description of the account's file, closed by exec, with a
// lock on the byte of its slot's number, and the slot is held as long as that byte is locked. The file is
// mapped by that description, so it stays open whatever descriptors a program closes. There is nothing to do
// at fork, no list of children that could be full, and no moment at which a death is missed.
//
// Lives in other people's programs: no allocation, no exception. A charge takes about 50 ns and 2 ns for each
// process of the account.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ledger/process_identity.h"

namespace headroom::ledger {

inline constexpr unsigned kMostDevices = 64;
inline constexpr unsigned kMostMembers = 1024;
inline constexpr unsigned kMostAccounts = 8;  // one within the other
inline constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

// Bytes by device; kNoLimit where there is none.
struct Limits {
  std::uint64_t bytes[kMostDevices] = {};
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

class Account {
 public:
  constexpr Account() = default;
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;
  ~Account() { close(); }

  // A process' own. False when there is no memory.
  bool open_private(const Limits& limits);
  // The same in so many zeroed bytes from the kernel, which it then has: for who cannot do without.
  static constexpr std::size_t kPageBytes = std::size_t{1} << 20;
  void open_private_in(void* memory, const Limits& limits);
  // One that was made by create_shared(). False, with errno, when the file cannot be used.
  bool open_shared(const char* path);
  // Makes the file of an account, whole before it has its name; false, with errno (EEXIST).
  static bool create_shared(const char* path, const Limits& limits);
  void close();
  // Both are open, and nothing is charged yet. `outer` outlives this one and is asked by it alone. From then
  // on what is charged here is charged there, and limit(), has_room() and the like speak of all together; a
  // file that is among them already is one account.
  void lie_within(Account& outer);

  // Which device it is that this process counts as `device`, before anything is charged to it. Processes may
  // count them otherwise (CUDA_VISIBLE_DEVICES), so an account knows devices by their UUID: those that its
  // maker told by the maker's numbers, each other by the number of the process that told first, or the next
  // that is free. What is not told has the same number in all.
  void identify(unsigned device, const std::uint8_t (&uuid)[16]);

  bool is_open() const { return page_ != nullptr; }
  bool is_shared() const { return shared_; }
  std::uint64_t limit(unsigned device) const;  // the smallest

  // Whether a charge of so many bytes would be granted now, as far as it is known without asking whether all
  // processes are alive.
  bool has_room(unsigned device, std::uint64_t bytes);
  // Of the account that has least left: its limit, and what is charged to all its processes that are alive.
  struct Room {
    std::uint64_t limit = kNoLimit, charged = 0;
    std::uint64_t left() const {
      return limit == kNoLimit ? kNoLimit : limit - (charged < limit ? charged : limit);
    }
  };
  Room tightest(unsigned device);
  // What processes of that account hold, this one among them: the largest first, as many as `holders` has
  // room for. How many were told.
  struct Holder {
    std::int32_t pid = 0;
    bool is_visible = false;  // by that number from here: it is no other PID namespace's
    std::uint64_t bytes = 0;
  };
  std::size_t holders(unsigned device, std::span<Holder> largest);
  // Joins, if that is still to be done, whatever is charged. False: it is full. (A charge joins, too.)
  bool enter();
  // Charges the calling process, if the sum stays within the limit.
  bool charge(unsigned device, std::uint64_t bytes);
  // The same for what a driver is still to be asked for, and may not have: it is no peak before note_peaks().
  bool reserve(unsigned device, std::uint64_t bytes);
  void note_peaks(unsigned device);
  // The same whatever the limit: for what is there already.
  void charge_anyway(unsigned device, std::uint64_t bytes);
  // Takes back; no more than was charged.
  void discharge(unsigned device, std::uint64_t bytes);
  // Of all processes that are alive; of this account alone.
  std::uint64_t charged(unsigned device);
  std::uint64_t charged_to_this_process(unsigned device);
  // How many processes that are alive have joined.
  unsigned members();
  // Of those the ones of which nobody can tell from here whether they are alive: in another PID namespace (a
  // container), on a kernel without locks of descriptions.
  unsigned members_elsewhere();
  // The most that was charged at once since the last reset: to this process, and to all together (what a dead
  // process held counts until that is looked for: at most a millisecond, and not beside one that joined
  // after).
  std::uint64_t peak_of_this_process(unsigned device);
  void reset_peak_of_this_process(unsigned device);
  std::uint64_t peak(unsigned device);
  // Whether the peak of all stayed within the limit of this account: what the driver took beyond what was
  // foreseen is charged, too.
  bool has_kept_limit(unsigned device);
  void reset_peaks();
  // Requests that were refused to any process of the account, and their bytes. Noted where there is no room
  // for what would have been charged (`needed`: of a pool, whole steps).
  void note_refusal(unsigned device, std::uint64_t bytes, std::uint64_t needed);
  std::uint64_t refused(unsigned device);
  std::uint64_t refused_bytes(unsigned device);

  // Drivers that a process of the account loaded where nothing stands in front of them.
  void note_out_of_reach();
  std::uint32_t out_of_reach();

  // Gives up the process' slot, and with it all that it was charged.
  void leave();
  // In a child after fork: the parent's charge is the parent's, and stays after its death while the child
  // lives in the same program.
  void leave_to_parent();

 private:
  static constexpr unsigned kNoSlot = ~0U;
  bool join();
  void lock();
  void unlock();
  bool take_slot(unsigned slot, const ProcessIdentity& self);
  bool has_description();
  bool is_gone(unsigned slot);
  // `device`: only where something is charged on it, which is cheaper.
  void expel_the_dead(unsigned device = kMostDevices);
  std::uint64_t sum(unsigned device) const;
  std::uint64_t own_charge(unsigned device) const;
  enum class Grant { within_limit, anyway, in_advance };
  bool add(unsigned device, std::uint64_t bytes, Grant grant);
  bool fits(unsigned device, std::uint64_t bytes) const;
  void note_own_peaks(unsigned number);
  bool is_time_to_look();
  Account* with_least_left(unsigned device, Room& room);
  // This one and those that it lies within.
  std::span<Account* const> all() const { return {all_, count_}; }
  bool is_locked_before(const Account& other) const;
  bool is_same_file(const Account& other) const;
  // The account's number for what this process counts as `device`.
  unsigned number_of(unsigned device) const {
    return device ^ numbers_[device].load(std::memory_order_relaxed);
  }
  void identify_here(unsigned device, const std::uint8_t (&uuid)[16]);

  AccountPage* page_ = nullptr;
  bool shared_ = false;
  std::uint64_t file_system_ = 0, file_number_ = 0;  // 0: none
  // In the order in which their locks are taken: that of their files, which is the same in every process.
  Account* all_[kMostAccounts] = {};
  unsigned count_ = 0;
  std::atomic<std::uint8_t> numbers_[kMostDevices] = {};  // 0: the same; the bits that differ
  std::atomic<unsigned> slot_{kNoSlot};
  std::uint64_t peaks_[kMostDevices] = {};  // of this process, under the page's lock
  // Of the file; what it describes has the lock on the slot. Under the page's lock. In a child of fork it is
  // the parent's until the child needs one.
  int description_ = -1;
  bool is_parents_description_ = false;
  // A mapping of that description, where the page is mapped by another; an ancestor's own stays behind.
  void* held_open_ = nullptr;
  std::int64_t looked_at_ns_ = 0;  // for the dead, before a new peak
};

}  // namespace headroom::ledger
