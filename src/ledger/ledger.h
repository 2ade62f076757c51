// The ledger of a process: its live memory on every device, by kind, and the decision whether it may allocate
// more.
//
// Allocating. reserve() charges before the driver is called, so racing threads cannot exceed a limit
// together:
//
//   if (!ledger.reserve(device, kind, bytes)) return out_of_memory;
//   … call the driver; if it fails: ledger.cancel(device, kind, bytes)
//   ledger.commit(entry);
//
// Freeing. begin_release() removes the entry before the driver is called, because the driver may give the
// address to another thread at once:
//
//   Entry entry;
//   const bool known = ledger.begin_release(type, address, entry);
//   … call the driver; if it fails: ledger.undo_release(entry)
//   ledger.finish_release(entry);
//
// Sizes are the requested bytes (for pitched memory and arrays, the bytes that the driver needs). The charge
// is what the device uses for them: whole granules, if the driver reports their size.
//
// Stream-ordered frees (cuMemFreeAsync) run later, and the driver does not report when. Such memory is a
// "pending free": it stays charged until a wait, that is a synchronization of the streams of its context, has
// completed.
//
// A CUgraphExec, the executable instance of a graph, is called "exec". An allocation that a graph's launch
// made and no node frees outlives its graph; once the graph is gone it is called a "graph orphan".
//
// Thread-safe. Allocates memory only from the kernel, and throws nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "ledger/account.h"
#include "ledger/allocation_table.h"
#include "types/lock.h"

namespace headroom::ledger {

struct KindFigures {
  std::uint64_t live_bytes = 0, live_count = 0, peak_bytes = 0;
  std::uint64_t allocations = 0, releases = 0;
  std::uint64_t refused_bytes = 0, refused_count = 0;
  // What the driver rounds the live allocations up by, where the granule size is unknown and so is not
  // charged.
  std::uint64_t rounding_bytes = 0;
};

struct Refusal {
  unsigned device = 0;
  DeviceMemoryKind kind = DeviceMemoryKind::device;
  std::uint64_t bytes = 0;    // requested
  std::uint64_t charged = 0;  // to all processes of the account at that time
  std::uint64_t own = 0;      // of that, to this process
  std::uint64_t limit = 0;
};

class Ledger {
 public:
  constexpr Ledger() = default;
  Account& account() { return account_; }
  void set_integrated(unsigned device, bool is_integrated);
  bool is_charged(unsigned device, DeviceMemoryKind kind) const;
  // Sets the unit in which the device allocates, a power of 2 (2 MiB on an H100 and an H200). An allocation
  // larger than half a granule uses whole granules; smaller ones share them. 0, the initial value, means
  // unknown.
  void set_granule(unsigned device, std::uint64_t bytes);
  std::uint64_t granule(unsigned device) const;
  // The charge of an allocation that shares no granule.
  std::uint64_t charge_of(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) const;

  // Returns false if the request is refused. The refusal is counted, and last_refusal_of_this_thread()
  // returns it.
  bool reserve(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes);
  // Like reserve(), without counting a refusal: for callers that can free memory and try again.
  bool try_reserve(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes);
  // Counts a refusal. `needed` is what would have been charged, if that is more than `bytes`.
  void refuse(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes, std::uint64_t needed = 0);
  void cancel(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes);
  // Changes a reservation of `before` bytes to `bytes`. Returns false, changing nothing, if that is refused.
  bool change_reservation(unsigned device, DeviceMemoryKind kind, std::uint64_t before, std::uint64_t bytes);
  // Records an allocation. `was_reserved` is false for memory that needed no reserve(): the program had it
  // before.
  void commit(Entry entry, bool was_reserved = true);
  // For small allocations that share granules. The address determines the granule, so the granule is known
  // only after the driver's call. `is_prepaid`: the caller has charged one granule in case a new one is
  // needed; if it is not needed, it is discharged. Returns false if the allocation lies in a new granule
  // whose charge is refused. The caller must then free the memory. This refusal is not counted.
  bool shares_granule(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) const;
  bool commit_in_granule(Entry entry, bool is_prepaid);
  // Reserves unused bytes in one of the context's granules until cancel_in_granule(); the granule stays
  // charged meanwhile. The bytes may be fragmented. Returns the granule's number, or 0 if none has so many.
  std::uint64_t reserve_in_granule(unsigned device, std::uint64_t context, std::uint64_t bytes);
  void cancel_in_granule(std::uint64_t granule, std::uint64_t bytes);
  // Marks memory as exported to another process or API. Nothing reports when that releases it, so the memory
  // stays charged after its release here. Applies to the allocation at `pointer`, or to all memory mapped in
  // the range.
  void mark_exported(std::uint64_t pointer, std::uint64_t bytes);
  // The same for memory of a pool or graph. The pool's charge follows the driver's figure, which will not
  // show the export. So the memory is charged a second time, in whole pool steps, before the driver's call.
  // `part` receives that charge; its address is 0 if there is nothing to charge (other memory, or exported
  // before). Returns false if the charge is refused; the refusal is not counted yet.
  bool begin_export(std::uint64_t pointer, Entry& part);
  void undo_export(const Entry& part);
  void finish_export(const Entry& part);

  // For memory that can be opened several times at one address (IPC). Returns true if it was open already;
  // otherwise it acts as commit().
  bool add_reference_or_commit(const Entry& entry);
  // If only one reference is left, changes nothing and returns true: the caller must release the memory.
  // Otherwise drops one reference and returns false.
  bool is_last_else_drop_reference(std::uint64_t pointer);
  void add_reference(std::uint64_t pointer);  // undoes the drop if the driver failed

  // `is_exclusive`: no other thread can destroy a pool before finish_release().
  bool begin_release(EntryType type, std::uint64_t address, Entry& entry, bool is_exclusive = false);
  void undo_release(const Entry& entry);
  // `is_stream_ordered`: the free runs in a stream of `stream_context` (0: unknown), so it may be pending.
  void finish_release(const Entry& entry, bool is_stream_ordered = false, std::uint64_t stream_context = 0);

  // --- Memory by handle (cuMemCreate). The physical memory is charged, until no handle and no mapping of it
  // is left.
  //
  // In all functions, `freed` or the result is the physical memory if its last reference ended; otherwise its
  // address is 0.
  //
  // commit_physical() follows reserve() and the driver's call. Returns the number of the physical memory. If
  // the handle's value was used before, another thread has released it and not finished yet: `freed` receives
  // that.
  std::uint64_t commit_physical(std::uint64_t handle, unsigned device, DeviceMemoryKind kind,
                                std::uint64_t bytes, Entry& freed);
  // Adds a reference before the driver maps the memory or exports it, so that a release by another thread
  // does not end it meanwhile. Returns the number of the physical memory, or 0 if it is unknown.
  std::uint64_t retain_physical(std::uint64_t handle);
  std::uint64_t retain_mapped_physical(std::uint64_t address);
  // Ends a reference of the two functions above that no function below took over.
  Entry release_physical(std::uint64_t physical);
  // Records a handle that the driver returned for an address (cuMemRetainAllocationHandle). Takes over the
  // reference of retain_mapped_physical().
  Entry retain_handle(std::uint64_t handle, std::uint64_t physical);
  // Adds a reference to a known handle of importable memory, which was imported again. Returns false
  // otherwise.
  bool reuse_handle(std::uint64_t handle);
  // Marks the memory as exported by a descriptor or similar. Nothing reports when the last copy of that is
  // closed, so the memory stays charged until the process ends.
  void export_physical(std::uint64_t physical);
  // begin_release_handle() precedes the driver's call; finish follows it, unless the driver failed.
  struct HandleRelease {
    std::uint64_t handle = 0, physical = 0;  // 0: unknown
  };
  HandleRelease begin_release_handle(std::uint64_t handle);
  Entry finish_release_handle(const HandleRelease& release);
  // Records a mapping. Takes over the reference of retain_physical(); 0 maps unknown memory.
  Entry map(std::uint64_t address, std::uint64_t bytes, std::uint64_t physical, Entry& freed);
  // Removes the first mapping in the range. Returns false if none is left.
  bool unmap_one(std::uint64_t address, std::uint64_t bytes, Entry& mapping, Entry& freed);

  // --- Pools. A pool is charged for all memory that it keeps from the device, used or not. It grows in steps
  // (32 MiB on an H200), which the ledger learns from the driver's figures. A request is charged for the
  // whole steps that the pool will grow by.
  //
  // Sets the step to assume until a pool's growth was seen, so that its first step is charged in time.
  void assume_pool_step(std::uint64_t bytes) { pool_step_ = graph_step_ = bytes; }
  bool reserve_in_pool(std::uint64_t pool, unsigned device, std::uint64_t bytes);
  struct PoolGrant {
    bool is_granted = false;
    std::uint64_t charged = 0;  // additional charge of the pool, granted or refused
  };
  PoolGrant try_reserve_in_pool(std::uint64_t pool, unsigned device, std::uint64_t bytes);
  // Acts as commit(), but notes a new peak only if the grant charged something.
  void commit_in_pool(const Entry& entry, const PoolGrant& grant);
  void cancel_in_pool(std::uint64_t pool, std::uint64_t bytes);
  // Cancels memory that the driver did allocate and now frees in the order of a stream of `stream_context`.
  void cancel_allocated_in_pool(std::uint64_t pool, std::uint64_t bytes, std::uint64_t stream_context);
  // Adjusts a pool's charge to the bytes that the driver reports as reserved for it. Released memory is
  // discharged. Unexpected growth is charged; with `within_limit`, only if it fits. `fits` is false if it did
  // not.
  struct Settled {
    bool is_new = false;  // the figure differs from the last one
    bool fits = true;
  };
  Settled settle_pool(std::uint64_t pool, std::uint64_t reserved_bytes, bool within_limit);
  // Records a pool of this device, with nothing charged. `is_new`: the pool was just created, so a known pool
  // with its handle was destroyed unseen.
  void adopt_pool(std::uint64_t pool, unsigned device, bool is_new = false);
  // Call it after the driver destroyed the pool. The pool's memory stays charged until all of it is certainly
  // freed. The driver frees in stream order, reports nothing about destroyed pools, and may reuse the handle.
  void destroy_pool(std::uint64_t pool);
  // Finds the next pool of the device that is charged for more than its used bytes. The search starts at
  // position `place` (initially 0), and sets `place` to the pool's position. Returns 0 after the last.
  std::uint64_t pool_to_settle(unsigned device, std::size_t& place);
  bool device_of_pool(std::uint64_t pool, unsigned& device);  // false: unknown pool
  bool is_pool(std::uint64_t pool);                           // a known pool that is not destroyed
  // The sum of the driver's last figures for the device's pools.
  std::uint64_t reserved_by_pools(unsigned device);

  // --- Pending frees: the stream that frees the memory may not have reached that point. This concerns
  // destroyed pools and memory by pointer. A wait for a context completes all frees issued in it before
  // begin_wait(). Memory that went back to a live pool can then be allocated from it again.
  bool has_pending_frees() const { return pending_frees_.load(std::memory_order_relaxed) != 0; }
  // `wait` is the number that begin_wait() returned. It completes only frees issued before that.
  std::uint64_t begin_wait(std::uint64_t context);
  void finish_wait(std::uint64_t context, std::uint64_t wait);
  void cancel_wait(std::uint64_t wait);  // the synchronization failed

  // --- Graphs. A graph is charged for the blocks that its memory nodes need, in whole steps that it shares
  // with no other graph. A node can reuse a freed block only if the graph orders it after the free node. The
  // block must be large enough, because the driver joins no blocks. Two parallel branches never share blocks.
  // A graph with memory on several devices counts as one graph for each.
  //
  // `earlier_free_nodes`: free nodes that the graph orders before the new node.
  struct GraphGrowth {
    bool granted = false;
    std::uint64_t before = 0, after = 0;  // bytes of all the graph's blocks on this device
    std::uint64_t charged = 0;            // to the account
    std::uint64_t spare = 0;              // unused bytes of the node's block
    std::size_t reused_node = 0;          // index in earlier_free_nodes; their number: a new block
  };
  GraphGrowth reserve_in_graph(std::uint64_t graph, unsigned device, std::uint64_t bytes,
                               std::span<const std::uint64_t> earlier_free_nodes = {});
  bool fits_in_graph(std::uint64_t graph, unsigned device, std::uint64_t bytes,
                     std::span<const std::uint64_t> earlier_free_nodes = {});
  // If the driver failed to add the node.
  void cancel_in_graph(std::uint64_t graph, unsigned device, std::uint64_t bytes, const GraphGrowth& growth,
                       std::span<const std::uint64_t> earlier_free_nodes = {});
  void commit_node(std::uint64_t graph, std::uint64_t address, unsigned device, std::uint64_t bytes,
                   std::uint64_t spare = 0);
  // Records that a free node (0: unknown) frees the memory of a node of the same graph. Returns false if
  // there is no such node. (A graph can free another graph's memory when it runs; launches are not recorded.)
  bool free_node(std::uint64_t graph, std::uint64_t address, std::uint64_t node = 0);
  // Size of the block that this free node freed on the device; 0 if another node reuses it.
  std::uint64_t bytes_freed_by_node(std::uint64_t graph, unsigned device, std::uint64_t node);
  // Returns whether freed blocks of at least so many bytes in total are unused.
  bool has_unused_blocks(std::uint64_t graph, unsigned device, std::uint64_t bytes = 1);
  // The child became a part of the parent, and ends with it.
  void move_graph(std::uint64_t child, std::uint64_t parent);
  // Execs (graph_execs.cpp). Call begin_exec() before the driver instantiates a graph, with a number that the
  // caller chooses. Call it, too, before the driver updates an exec, with the exec's handle as the number. It
  // charges the exec. Returns false if that is refused: `refused.charged` more bytes on `refused.device`. The
  // refusal is not counted yet.
  bool begin_exec(std::uint64_t number, std::uint64_t graph, Entry& refused);
  void cancel_exec(std::uint64_t number);  // the driver failed
  void finish_instantiate(std::uint64_t number, std::uint64_t exec) { finish_exec(number, exec, false); }
  void finish_update(std::uint64_t exec) { finish_exec(exec, exec, true); }
  // Drops one earlier update of the exec, before finish_update() or when the exec is destroyed. Returns true
  // if that was the last reference to a destroyed graph (`freed` as below), false when no earlier update is
  // left.
  bool drop_past_update(std::uint64_t exec, Entry& freed);
  // Destroys a graph or exec, after the driver's call. Finds the next device, from `device` (initially 0), on
  // which this ended the last reference to a graph's memory; `freed` receives that memory. It stays charged
  // as pending graph memory, and its orphans as allocations. Returns false after the last device. An updated
  // exec also needs drop_past_update().
  bool destroy_graph(EntryType type, std::uint64_t handle, unsigned& device, Entry& freed);
  // A graph orphan was freed by the program.
  void finish_orphan_release(const Entry& entry);
  // Adjusts charges to the bytes that the driver reports as reserved for all graphs of the device. Pending
  // graph memory cannot exceed that figure. Bytes beyond all charges for graphs are charged as unforeseen,
  // until the figure falls.
  void settle_graph_memory(unsigned device, std::uint64_t reserved_bytes);
  // Returns whether pending or unforeseen graph memory is charged.
  bool has_pending_graph_memory(unsigned device);
  // Finds the next graph orphan at or after position `place` (initially 0), and sets `place` to its position.
  // The orphan's `references` are 0 until keep_graph_orphan() confirmed that it is live. Returns false after
  // the last.
  bool next_graph_orphan(unsigned device, std::size_t& place, Entry& orphan);
  bool keep_graph_orphan(std::uint64_t address);                 // false: already released
  bool drop_graph_orphan(std::uint64_t address, Entry& orphan);  // not live: its charge becomes pending
  // All charges for graphs, with orphans, pending and unforeseen memory. This can exceed what launches
  // allocated.
  std::uint64_t charged_for_graphs(unsigned device);
  bool has_graph_orphans() const { return has_graph_orphans_.load(std::memory_order_relaxed); }
  // A stream capture whose graph is `graph` (0: a graph that exists independently of the capture). `context`
  // is that of the stream; when it is destroyed, so is the capture.
  void begin_capture(std::uint64_t stream, std::uint64_t graph, std::uint64_t context = 0);
  // Returns its graph, or 0 if it has none or is unknown; `is_known` receives which of the two.
  std::uint64_t end_capture(std::uint64_t stream, bool* is_known = nullptr);
  // A synchronization would end a capture, so none may be made meanwhile.
  bool has_captures() const { return captures_.load(std::memory_order_relaxed) != 0; }
  // Bracket the driver's call that begins a capture: its outcome is unknown until it returns.
  void begin_capture_call() { captures_.fetch_add(1, std::memory_order_relaxed); }
  void end_capture_call() { captures_.fetch_sub(1, std::memory_order_relaxed); }

  // Call begin_destroy() before the driver destroys a context, because the driver may reuse its handle at
  // once. It moves the context's entries to a number of their own, which it returns.
  std::uint64_t begin_destroy(std::uint64_t context);
  void undo_destroy(std::uint64_t number, std::uint64_t context);  // the driver failed
  // Moves a context's entries from one number to another.
  void rename_context(std::uint64_t before, std::uint64_t now);
  // Removes one entry of a destroyed context and discharges it; returns false if none is left. Start with a
  // new Pass. For a capture (EntryType::capture) the caller must destroy the graph.
  struct Pass {
    std::size_t place = 0;
    bool found_some = false;
  };
  bool drop_from_context(std::uint64_t context, Pass& pass, Entry& dropped);

  KindFigures figures(unsigned device, DeviceMemoryKind kind);
  // What the driver allocates beyond the requested bytes and is not charged.
  std::uint64_t rounding_bytes(unsigned device);
  Refusal last_refusal(unsigned device);         // in any thread
  static Refusal last_refusal_of_this_thread();  // in any ledger
  // For a child after fork: it inherits neither its parent's entries nor its locks.
  void reset_in_child();

 private:
  struct PerDevice {
    std::atomic<bool> is_integrated{false};
    std::atomic<std::uint64_t> granule{0};
    std::uint64_t last_granule = 0;  // contains the last small allocation
    KindFigures kinds[kDeviceMemoryKinds];
    Refusal last_refusal;
    // Charges for existing graphs, for destroyed graphs whose memory the driver may keep, for graph orphans,
    // and for what the driver has beyond these.
    std::uint64_t graph_charge = 0, pending_graph_charge = 0, orphan_charge = 0, unforeseen_graph_charge = 0;
    std::uint64_t graph_figure = 0;  // the driver's last figure for all graphs
    // Keeps the granule size, which does not change.
    void reset() {
      is_integrated = false;
      last_granule = 0;
      for (KindFigures& kind : kinds) kind = {};
      last_refusal = Refusal{};
      graph_charge = pending_graph_charge = orphan_charge = unforeseen_graph_charge = graph_figure = 0;
    }
  };

  void begin_pool_free(Entry& entry);
  bool must_stay_charged(const Entry& entry) const;
  bool restore_context(Entry& entry);
  bool restore(const Entry& entry);
  void add_pending_free(Entry entry, std::uint64_t stream_context);
  void note_pending_free(Entry& pool, std::uint64_t bytes, std::uint64_t stream_context);
  void remove_from_pool(const Entry& entry, bool is_stream_ordered, std::uint64_t stream_context);
  void insert_or_replace(const Entry& entry);
  // Returns the bytes to discharge for a removed entry: with its granule, if that is empty now.
  std::uint64_t remove_from_granule(const Entry& entry);
  Entry* find_or_insert(const Entry& fresh);  // null: no memory available
  static bool is_graph_orphan(const Entry& entry) {
    return entry.type == EntryType::pointer && entry.kind == DeviceMemoryKind::graph && entry.owner == 0;
  }
  GraphGrowth plan_in_graph(const Entry& whole, std::uint64_t bytes,
                            std::span<const std::uint64_t> earlier_free_nodes);
  void drop_free_nodes(std::uint64_t graph_on_device);
  void release_graph_handle(Entry& graph);
  void detach_execs(Entry& moved);
  Entry* find_exec_of(const Entry& graph, std::uint64_t exec, unsigned device);
  void clear_same_graph_marks(std::uint64_t exec);
  void finish_exec(std::uint64_t number, std::uint64_t exec, bool is_update);
  bool drop_exec(Entry exec, Entry& freed);
  bool drop_graph_reference(std::uint64_t graph_on_device, Entry& freed);
  void count_in(const Entry& entry);
  void count_out(const Entry& entry);
  void end_pool_waits(std::uint64_t wait, bool completes_frees);
  void put_handle(std::uint64_t handle, const Entry& physical, Entry& freed);
  // Finds the next matching entry at `pass.place`. Between two calls other threads may move an entry to an
  // earlier position. So a pass that found entries starts over until it finds none.
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
  void discharge(unsigned device, std::uint64_t charged);
  KindFigures& of(unsigned device, DeviceMemoryKind kind) {
    return devices_[device < kMaxDevices ? device : 0]
        .kinds[static_cast<unsigned>(kind) % kDeviceMemoryKinds];
  }

  Account account_;
  AllocationTable table_;
  PerDevice devices_[kMaxDevices];
  std::uint64_t last_physical_ = 0, last_free_ = 0, last_wait_ = 0, last_destroyed_ = 0;
  std::uint64_t pool_frees_in_progress_ = 0;    // number of such entries
  bool pools_exceed_limit_ = false;             // a pool was charged beyond the limit
  std::atomic<std::uint64_t> pool_step_{0};     // greatest common divisor of all growth that was seen
  std::atomic<std::uint64_t> graph_step_{0};    // assumed growth of graphs
  std::atomic<bool> has_graph_orphans_{false};  // set once, never cleared
  std::atomic<bool> has_execs_{false};          // graphs with memory have execs; never cleared
  std::atomic<bool> has_updates_{false};        // such an exec was updated; never cleared
  std::atomic<unsigned> captures_{0}, pending_frees_{0};
  Lock lock_{Lock::Kind::recursive};
};

}  // namespace headroom::ledger
