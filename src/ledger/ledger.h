// The ledger of one process: what it has of every device, by kind of memory, and whether it may have more.
//
//   if (!ledger.reserve(device, kind, bytes)) return out_of_memory;       before the driver is asked
//   … the driver's call; on failure: ledger.cancel(device, kind, bytes)
//   ledger.commit(entry);                                                  after
//
//   Entry entry;
//   const bool known = ledger.begin_release(type, address, entry);        before: the driver may give the
//   … the driver's call; on failure: ledger.undo_release(entry)            address to another thread at once
//   ledger.finish_release(entry);                                          after
//
// Bytes are those that were asked for (pitched and array memory: those that the driver needs for it). Charged
// is what the device gives for them: whole granules, where it tells how large they are. What a reserve()
// granted is charged until cancel() or finish_release(), so racing threads never get past a limit.
// Thread-safe; allocates through the kernel only, throws nothing.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <span>

#include "ledger/account.h"
#include "ledger/allocation_table.h"

namespace headroom::ledger {

struct KindFigures {
  std::uint64_t live_bytes = 0, live_count = 0, peak_bytes = 0;
  std::uint64_t allocations = 0, releases = 0;
  std::uint64_t refused_bytes = 0, refused_count = 0;
  // That the driver gave beyond the live ones, where that is not charged because granules are not known.
  std::uint64_t rounding_bytes = 0;
};

struct Refusal {
  unsigned device = 0;
  DeviceMemoryKind kind = DeviceMemoryKind::device;
  std::uint64_t bytes = 0;    // that were asked for
  std::uint64_t charged = 0;  // by all processes of the account at that moment
  std::uint64_t own = 0;      // of that by this one
  std::uint64_t limit = 0;
};

class Ledger {
 public:
  constexpr Ledger() = default;
  Account& account() { return account_; }
  void set_integrated(unsigned device, bool is_integrated);
  bool is_charged(unsigned device, DeviceMemoryKind kind) const;
  // In what the device gives memory: whole ones for each allocation that is larger than half of one, while
  // smaller ones share them (2 MiB on an H100 and an H200). A power of 2; 0, as at first: it is not known.
  void set_granule(unsigned device, std::uint64_t bytes);
  std::uint64_t granule(unsigned device) const;
  // What the account is charged for an allocation that shares no granule.
  std::uint64_t charge_of(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) const;

  // False: refused; counted, and told by last_refusal_of_this_thread().
  bool reserve(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes);
  // The same, not counted: for who can make room and try again.
  bool try_reserve(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes);
  // `needed`: that would have been charged, where it is more than was asked for.
  void refuse(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes, std::uint64_t needed = 0);
  void cancel(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes);
  // What was reserved for `before` bytes is for `bytes` now. False: refused, and as it was.
  bool change_reservation(unsigned device, DeviceMemoryKind kind, std::uint64_t before, std::uint64_t bytes);
  // `was_reserved`: reserve() was asked; false for memory that the program had before.
  void commit(Entry entry, bool was_reserved = true);
  // Memory by pointer that shares a granule with others: in which one it lies its address tells, so after the
  // driver's call. `is_prepaid`: a granule was charged before, in case that it needs a new one; what is not
  // needed goes back. False: it is a new one, not paid, and refused (but not counted so); the memory is to be
  // given back.
  bool shares_granule(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) const;
  bool commit_in_granule(Entry entry, bool is_prepaid);
  // So many bytes that some granule of the context has free, perhaps not in one piece, are nobody else's
  // until cancel_in_granule(), and it stays charged. Its number; 0: there is none.
  std::uint64_t reserve_in_granule(unsigned device, std::uint64_t context, std::uint64_t bytes);
  void cancel_in_granule(std::uint64_t granule, std::uint64_t bytes);
  // Somebody else holds the memory, too, for as long as nobody can tell: it stays charged when it is
  // released. An allocation's that begins there, or of all that is mapped within the range.
  void mark_exported(std::uint64_t pointer, std::uint64_t bytes);
  // The same for what a pool or a graph has, whose charge is by the driver's figure, which will not tell of
  // it: before the driver's call it is charged once more, in the pools' steps. `part` is that, with an
  // address of 0 if there is nothing to charge (other memory, or charged before). False: refused, and not
  // counted yet.
  bool begin_export(std::uint64_t pointer, Entry& part);
  void undo_export(const Entry& part);
  void finish_export(const Entry& part);

  // For what is opened several times at one address. True: it was open already. Else as commit().
  bool add_reference_or_commit(const Entry& entry);
  // One reference less, or, if it is the last, none less and true: then it is to be released.
  bool is_last_reference(std::uint64_t pointer);
  void add_reference(std::uint64_t pointer);  // again, as the driver did not close it

  // `is_exclusive`: no other thread destroys a pool before finish_release().
  bool begin_release(EntryType type, std::uint64_t address, Entry& entry, bool is_exclusive = false);
  void undo_release(const Entry& entry);
  // `is_stream_ordered`: of a stream of that context (0: not known), so that the memory may be in use for a
  // while.
  void finish_release(const Entry& entry, bool is_stream_ordered = false, std::uint64_t stream_context = 0);

  // --- memory by handle: what is charged is the physical memory, and it goes when neither a handle nor a
  // mapping is left of it.
  //
  // `freed`, wherever it is: the physical memory, if that was the last of it; else its address is 0.
  //
  // After reserve(device, kind, bytes) and the driver's call. The number of the physical memory. `freed`:
  // what the handle stood for, of which the last release by another thread is not finished yet.
  std::uint64_t commit_physical(std::uint64_t handle, unsigned device, DeviceMemoryKind kind,
                                std::uint64_t bytes, Entry& freed);
  // Before the driver maps it or makes a handle or descriptor of it: so that it is not taken for gone when
  // another thread releases it meanwhile. The number of the physical memory; 0: it is not known.
  std::uint64_t retain_physical(std::uint64_t handle);
  std::uint64_t retain_mapped_physical(std::uint64_t address);
  void release_mapped_physical(std::uint64_t physical,
                               Entry& freed);  // of retain_mapped_physical(), as the driver made none
  // Where hold() is not needed any more, and nothing below took it over.
  void release_physical(std::uint64_t physical, Entry& freed);
  // A handle that the driver made, by address, of what retain_mapped_physical() told; takes that hold over.
  void retain_handle(std::uint64_t handle, std::uint64_t physical, Entry& freed);
  // One reference more to a handle that is known, and whose memory can be imported; false if it is not.
  bool reuse_handle(std::uint64_t handle);
  // A descriptor or the like holds the memory from now on. Where it goes, and when the last of it is closed,
  // nobody tells, so the memory stays charged until the process ends.
  void export_physical(std::uint64_t physical);
  // Before and, if it did not fail, after the driver's call.
  struct HandleRelease {
    std::uint64_t handle = 0, physical = 0;  // 0: it is not known
  };
  HandleRelease begin_release_handle(std::uint64_t handle);
  void undo_release_handle(const HandleRelease& release);  // it failed
  void finish_release_handle(const HandleRelease& release, Entry& freed);
  // `physical`: of hold(), which is taken over (0 maps nothing that is known). `replaced`: what another
  // thread unmapped there and has not told yet; its address is 0 if nothing was.
  Entry map(std::uint64_t address, std::uint64_t bytes, std::uint64_t physical, Entry& replaced,
            Entry& freed);
  // The same for a part of an array, by a number of that part. What was mapped there before goes; if that is
  // `is_stream_ordered`, not before the streams of `stream_context` (0: not known) have been waited for.
  void map_part(std::uint64_t array, std::uint64_t part, std::uint64_t physical, bool is_stream_ordered,
                std::uint64_t stream_context, Entry& freed);
  // All parts of an array that is gone, one after another: false after the last. `pass` is fresh at first.
  struct Pass {
    std::size_t place = 0;
    bool found_some = false;
  };
  bool unmap_next_part(std::uint64_t array, Pass& pass, Entry& freed);
  // Before the driver unmaps: later mappings are not what it unmaps.
  std::uint64_t last_mapping();
  // Takes out the first mapping within the range that is no later than `last`. False if there is none (left):
  // to be called until then.
  bool unmap_one(std::uint64_t address, std::uint64_t bytes, std::uint64_t last, Entry& mapping,
                 Entry& freed);

  // --- pools: what a pool has of the device is charged, in use or not. That grows in steps (32 MiB on an
  // H200), which the driver's figures show, so a request is charged for the steps that it will take.
  // Until growth was seen: what a driver is taken to grow by, so that its first step is charged before it is
  // taken.
  void assume_pool_step(std::uint64_t bytes) { pool_step_ = graph_step_ = bytes; }
  bool reserve_in_pool(std::uint64_t pool, unsigned device, std::uint64_t bytes);
  struct PoolGrant {
    bool is_granted = false;
    std::uint64_t charged = 0;  // what the pool is charged more for it, or would have been
  };
  PoolGrant try_reserve_in_pool(std::uint64_t pool, unsigned device, std::uint64_t bytes);
  // As commit(). What took nothing more of the account cannot be its peak, and is not looked at.
  void commit_in_pool(const Entry& entry, const PoolGrant& grant);
  void cancel_in_pool(std::uint64_t pool, std::uint64_t bytes);
  // The same of what the driver gave, and was told to free in the order of a stream of that context.
  void cancel_allocated_in_pool(std::uint64_t pool, std::uint64_t bytes, std::uint64_t stream_context);
  // With the driver's figure for the pool: what it gave back is not charged any more, what it took beyond
  // what was foreseen is, unless that would pass the limit and `within_limit` is set: then `fits` is false.
  struct Settled {
    bool is_new = false;  // another figure than before
    bool fits = true;
  };
  Settled settle_pool(std::uint64_t pool, std::uint64_t reserved_bytes, bool within_limit);
  // A pool that was made for this device, whatever is current when it is used. Nothing is charged yet.
  // `is_new`: of one that was known by that handle the end was not seen.
  void adopt_pool(std::uint64_t pool, unsigned device, bool is_new = false);
  // After the driver's call. What the pool had last stays charged until it is sure that it went: the driver
  // frees in the order of streams, tells nothing of a pool that is destroyed, and may use its handle again.
  void destroy_pool(std::uint64_t pool);
  // A pool of the device that is charged for more than is in use: the next at or behind `place` (0 at first),
  // whose place is then `place`. 0 after the last.
  std::uint64_t pool_to_settle(unsigned device, std::size_t& place);
  bool device_of_pool(std::uint64_t pool, unsigned& device);  // false: it is not known yet
  bool is_pool(std::uint64_t pool);                           // that is known, and was not destroyed
  // The last figures of all pools of the device together.
  std::uint64_t reserved_by_pools(unsigned device);

  // --- what goes in the order of a stream, while the driver does not tell when: destroyed pools, memory by
  // pointer, and physical memory that was unmapped from an array. Of what nobody has any more, all that was
  // freed in `context` until now is gone once that has been waited for; what pools that live got back by then
  // they can give out again.
  bool has_pending_frees() const { return pending_frees_.load(std::memory_order_relaxed) != 0; }
  // Or that somebody else has still, so that a wait gives nothing back yet.
  bool has_pending_frees_or_unmaps() const {
    return has_pending_frees() || pending_unmaps_.load(std::memory_order_relaxed) != 0;
  }
  // `wait`: begin_wait() told it. What was freed after that is another wait's.
  std::uint64_t begin_wait(std::uint64_t context);
  void finish_wait(std::uint64_t context, std::uint64_t wait);
  void cancel_wait(std::uint64_t wait);  // it failed

  // --- graphs: charged for the blocks that their nodes need, each graph in whole steps of its own, as pools
  // are. A node may take the block that another freed only if the graph orders it behind that (of two
  // branches each needs its own, whatever the order in which they were added) and if it fits in it: the
  // driver joins no blocks. A graph is one for each device that its nodes have memory of.
  //
  // `earlier_free_nodes`: nodes that free, and that the new one comes behind (any others are no matter).
  struct GraphGrowth {
    bool granted = false;
    std::uint64_t before = 0, after = 0;  // bytes of the graph's blocks on this device
    std::uint64_t charged = 0;            // that the account was charged for it
    std::uint64_t spare = 0;              // of the block that the node has, beyond its own bytes
    std::size_t reused_node = 0;  // which of `earlier_free_nodes` had the block; their number: it is new
  };
  GraphGrowth reserve_in_graph(std::uint64_t graph, unsigned device, std::uint64_t bytes,
                               std::span<const std::uint64_t> earlier_free_nodes = {});
  bool fits_in_graph(std::uint64_t graph, unsigned device, std::uint64_t bytes,
                     std::span<const std::uint64_t> earlier_free_nodes = {});
  // The driver could not add the node.
  void cancel_in_graph(std::uint64_t graph, unsigned device, std::uint64_t bytes, const GraphGrowth& growth,
                       std::span<const std::uint64_t> earlier_free_nodes = {});
  void commit_node(std::uint64_t graph, std::uint64_t address, unsigned device, std::uint64_t bytes,
                   std::uint64_t spare = 0);
  // The node (0: not known) frees what a node of the same graph made; false if none did. (What another graph
  // made is freed when this one runs, which is not watched.)
  bool free_node(std::uint64_t graph, std::uint64_t address, std::uint64_t node = 0);
  // The block that this node of the graph freed on the device, if no other has taken it.
  std::uint64_t bytes_freed_by_node(std::uint64_t graph, unsigned device, std::uint64_t node);
  // Whether there are such blocks, and so many bytes of them.
  bool has_unused_blocks(std::uint64_t graph, unsigned device, std::uint64_t bytes = 1);
  // The child is a part of the other from now on, and goes with it.
  void move_graph(std::uint64_t child, std::uint64_t parent);
  // Instances (graph_execs.cpp). Before the driver instantiates a graph, under a number of the caller's,
  // or updates an instance to it, by the handle of that; it is charged then. False: refused (`charged` more
  // on `device`), and not counted yet.
  bool begin_exec(std::uint64_t number, std::uint64_t graph, Entry& refused);
  void cancel_exec(std::uint64_t number);  // the driver did not
  void finish_instantiate(std::uint64_t number, std::uint64_t exec) { finish_exec(number, exec, false); }
  void finish_update(std::uint64_t exec) { finish_exec(exec, exec, true); }
  // One that it was updated to before that it holds no more. False after the last; else `freed` is as below,
  // if nothing else holds it either. In the end, or before finish_update().
  bool drop_past_update(std::uint64_t exec, Entry& freed);
  // Of a graph or of what was instantiated, after the driver's call: `freed` is the graph's memory on the
  // next device at or behind `device` (0 at first), if nothing holds it any more. It stays charged as
  // leaving. What none of its nodes frees outlives it if a launch made it: that stays charged, as allocations
  // of their own. What was updated needs drop_past_update() besides.
  bool destroy_graph(EntryType type, std::uint64_t handle, unsigned& device, Entry& freed);
  // Memory that a graph left and that the driver was told to free, in the order of a stream.
  void finish_orphan_release(const Entry& entry);
  // With the driver's figure of what it keeps for all graphs of the device: no more than that can be leaving,
  // and what it has beyond all that is charged for graphs is charged, too, until the figure falls.
  void settle_graph_memory(unsigned device, std::uint64_t reserved_bytes);
  // Or more than was foreseen.
  bool has_pending_graph_memory(unsigned device);
  // Those that outlive it: the next at or behind `place` (0 at first), whose place is then `place`.
  // `references` is 0 until keep_graph_orphan() has said that it is known. False after the last.
  bool next_graph_orphan(unsigned device, std::size_t& place, Entry& left);
  bool keep_graph_orphan(std::uint64_t address);               // false if it is gone already
  bool drop_graph_orphan(std::uint64_t address, Entry& left);  // it is not live: leaving; the same
  // With those, what is leaving, and what was not foreseen. What the device is charged, which is not what a
  // launch got: the driver keeps some.
  std::uint64_t charged_for_graphs(unsigned device);
  bool has_graph_orphans() const { return has_graph_orphans_.load(std::memory_order_relaxed); }
  // A capture that ends in a graph, or does not: then that has gone. A graph of 0: one that outlives it.
  // `context`: of the stream, with which it goes.
  void begin_capture(std::uint64_t stream, std::uint64_t graph, std::uint64_t context = 0);
  // Its graph; 0 if it is not known, or has none: `is_known`.
  std::uint64_t end_capture(std::uint64_t stream, bool* is_known = nullptr);
  // While a stream is captured nothing may be waited for: that would end the capture.
  bool has_captures() const { return captures_.load(std::memory_order_relaxed) != 0; }
  // Around the driver's call that begins one, whose outcome is not known yet.
  void begin_capture_call() { captures_.fetch_add(1, std::memory_order_relaxed); }
  void end_capture_call() { captures_.fetch_sub(1, std::memory_order_relaxed); }

  // Before the driver destroys a context or an array: what is made next may have its handle. What was made in
  // that context, or mapped to that array, is of the number that is told, from now on.
  enum class Owner : std::uint8_t { context, array };
  std::uint64_t begin_destroy(Owner owner, std::uint64_t handle);
  void undo_destroy(Owner owner, std::uint64_t number, std::uint64_t handle);  // as it lives on
  // What was told of the context by a number is told by another from now on.
  void rename_context(std::uint64_t before, std::uint64_t now) { reassign(Owner::context, before, now); }
  // Takes out something that was made in this context; false if nothing is left. Its charge is taken back. Of
  // a capture (EntryType::capture) the graph is left to the caller.
  // `pass` is fresh at first, and kept until then.
  bool drop_from_context(std::uint64_t context, Pass& pass, Entry& dropped);

  KindFigures figures(unsigned device, DeviceMemoryKind kind);
  // What the driver has given beyond what was asked for, and is not charged.
  std::uint64_t rounding_bytes(unsigned device);
  Refusal last_refusal(unsigned device);         // of any thread
  static Refusal last_refusal_of_this_thread();  // of any ledger
  // In a child after fork: a parent's memory is not the child's, nor are its locks.
  void reset_in_child();

 private:
  struct PerDevice {
    std::atomic<bool> is_integrated{false};
    std::atomic<std::uint64_t> granule{0};
    std::uint64_t last_granule = 0;  // in which something was put
    KindFigures kinds[kDeviceMemoryKinds];
    Refusal last_refusal;
    // Charged for graphs: that live; that were destroyed; what those left; what the driver has beyond all.
    std::uint64_t graph_charge = 0, pending_graph_charge = 0, orphan_charge = 0, unforeseen_graph_charge = 0;
    std::uint64_t graph_figure = 0;  // the driver's last
    // All but the granule, which the next that meets the device finds as it was.
    void reset() {
      is_integrated = false;
      last_granule = 0;
      for (KindFigures& kind : kinds) kind = {};
      last_refusal = Refusal{};
      graph_charge = pending_graph_charge = orphan_charge = unforeseen_graph_charge = graph_figure = 0;
    }
  };
  class Locked;

  void begin_pool_free(Entry& entry);
  bool must_stay_charged(const Entry& entry) const;
  bool restore_context(Entry& entry);
  bool restore(const Entry& entry);
  void add_pending_free(Entry entry, std::uint64_t stream_context);
  void note_pending_free(Entry& pool, std::uint64_t bytes, std::uint64_t stream_context);
  void remove_from_pool(const Entry& entry, bool is_stream_ordered, std::uint64_t stream_context);
  std::uint64_t count_out_and_uncharge(const Entry& entry);  // what is to be discharged
  // In the place of what lay there, which is given back with all that is to be discharged now.
  Entry insert_or_replace_locked(const Entry& entry);
  void insert_or_replace(const Entry& entry);  // without the lock, and with that given back
  // Of what is gone: with its granule, if it was the last in that.
  std::uint64_t remove_from_granule(const Entry& entry);
  Entry* find_or_insert(const Entry& fresh);  // null where there is no memory
  // An allocation of its own, whose graph is gone.
  static bool is_graph_orphan(const Entry& entry) {
    return entry.type == EntryType::pointer && entry.kind == DeviceMemoryKind::graph && entry.link == 0;
  }
  GraphGrowth plan_in_graph(const Entry& whole, std::uint64_t bytes,
                            std::span<const std::uint64_t> earlier_free_nodes);
  void drop_free_nodes(std::uint64_t graph_on_device);
  void release_graph_handle(Entry& graph);
  void detach_execs(Entry& moved);
  Entry* find_exec_of(const Entry& graph, std::uint64_t exec, unsigned device);
  void clear_same_graph_marks(std::uint64_t exec);
  void finish_exec(std::uint64_t number, std::uint64_t exec, bool is_update);
  bool drop_exec(Entry instance, Entry& freed);
  bool drop_graph_reference(std::uint64_t graph_on_device, Entry& freed);
  void count_in(const Entry& entry);
  void count_out(const Entry& entry);
  template <class Settle>
  void end_pool_waits(std::uint64_t wait, const Settle& settle);
  void reassign(Owner owner, std::uint64_t from, std::uint64_t to);
  void end_retain(std::uint64_t number, Entry& freed);
  void put_handle(std::uint64_t handle, const Entry& physical, Entry& freed);
  Entry* end_release_handle(const HandleRelease& release);
  // The next for which the test holds, at `pass.place`. Between two calls other threads may have moved one to
  // where the pass had been, so a pass that found some starts once more.
  template <class Test>
  bool find_next(Pass& pass, const Test& test) {
    bool is_there = table_.find_from(pass.place, test) != nullptr;
    if (!is_there && pass.found_some) {
      pass = {};
      is_there = table_.find_from(pass.place, test) != nullptr;
    }
    pass.found_some = is_there;
    return is_there;
  }
  void drop_physical_reference(std::uint64_t number, Entry& freed);
  void discharge(const Entry& freed);
  KindFigures& of(unsigned device, DeviceMemoryKind kind) {
    return devices_[device < kMaxDevices ? device : 0]
        .kinds[static_cast<unsigned>(kind) % kDeviceMemoryKinds];
  }

  Account account_;
  AllocationTable table_;
  PerDevice devices_[kMaxDevices];
  std::uint64_t last_physical_ = 0, last_free_ = 0, last_wait_ = 0, last_mapping_ = 0;
  std::atomic<std::uint64_t> last_destroyed_{0};
  std::uint64_t pool_frees_in_progress_ = 0;    // entries of EntryType::pool_free_in_progress
  std::uint64_t pool_waits_ = 0;                // of EntryType::pool_wait
  bool pools_exceed_limit_ = false;             // a pool was charged more than there was room for
  std::atomic<std::uint64_t> pool_step_{0};     // that divides all growth of pools that was seen
  std::atomic<std::uint64_t> graph_step_{0};    // what graphs are taken to grow by
  std::atomic<bool> has_graph_orphans_{false};  // ever
  std::atomic<bool> has_execs_{false};          // ever, of graphs with memory
  std::atomic<bool> has_updates_{false};        // ever, of those
  std::atomic<bool> has_array_parts_{false};    // ever
  std::atomic<unsigned> captures_{0}, pending_frees_{0};
  std::atomic<unsigned> pending_unmaps_{0};  // physical memory that is so, and that somebody has
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

}  // namespace headroom::ledger
