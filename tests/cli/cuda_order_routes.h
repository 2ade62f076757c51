// Routes that depend on order: threads that share pools and graphs, branches of a graph, pending work of the
// device, captures, contexts. The fake driver reports the most that it allocated.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "cli/cuda_graph_routes.h"

namespace cuda_program {

// Returns null if the driver lacks the function, or is not the fake driver.
template <class Function>
Function optional(const char* name) {
  return reinterpret_cast<Function>(symbol_of(library, name));
}

inline std::uint64_t fake_peak(unsigned device = 0) {
  const auto peak = optional<std::uint64_t (*)(unsigned)>("fake_cuda_peak");
  return peak != nullptr ? peak(device) : 0;
}

inline bool report(const char* name, const char* what, bool sound) {
  std::printf("%-8s %s: %s\n", name, what, sound ? "sound" : "WRONG");
  return sound;
}

inline Opaque current_context() {
  Opaque context = nullptr;
  check(cuCtxGetCurrent(&context), "context");
  return context;
}

inline void synchronize() { check(cuCtxSynchronize(), "synchronize"); }

// Keeps the device busy until a synchronization. On a real driver this is a host function that sleeps.
inline void keep_busy(Opaque stream) {
  if (const auto busy = optional<void (*)(int)>("fake_cuda_busy")) return busy(1);
  const auto launch = optional<Result (*)(Opaque, void (*)(void*), void*)>("cuLaunchHostFunc");
  if (launch == nullptr) fail("the driver has no", "cuLaunchHostFunc", 0);
  check(launch(
            stream, [](void*) { ::usleep(300'000); }, nullptr),
        "host function");
}

// Plain allocations, while other threads create and destroy pools and graphs. The driver must never exceed
// the limit.
inline bool run_races(std::uint64_t limit, std::uint64_t) {
  const Opaque context = current_context();
  const auto set = cuCtxSetCurrent;
  const auto allocate = cuMemAlloc_v2;
  const auto free = cuMemFree_v2;
  const auto free_stream_ordered = cuMemFreeAsync;
  const auto trim = cuMemPoolTrimTo;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> turns{0};
  const auto repeat = [&](auto turn) {
    return [&, turn] {
      set(context);
      for (; !stop; ++turns) turn();
    };
  };
  Opaque shared = nullptr;
  check(make_pool(shared, 0), "pool");
  const auto use_shared_pool = [&] {
    Pointer pointer = 0;
    if (take_from_pool(shared, limit / 5, pointer) == kSuccess) free_stream_ordered(pointer, nullptr);
  };
  const auto trim_shared_pool = [&] { trim(shared, std::size_t{32} << 20); };
  const auto use_own_pool = [&] {
    Opaque pool = nullptr;
    Pointer pointer = 0;
    check(make_pool(pool, 0), "pool");
    if (take_from_pool(pool, limit / 5 * 2, pointer) == kSuccess) free_stream_ordered(pointer, nullptr);
    destroy_pool(pool);
  };
  const auto use_graph = [&] {
    AllocatingGraph graph;
    Pointer pointer = 0;
    const bool is_granted = graph.allocate(limit / 5 * 2, pointer) == kSuccess;
    if (is_granted) graph.free(pointer);
    graph.instantiate();
    if (is_granted) graph.launch();
    graph.destroy();
  };
  const auto use_pointer = [&] {
    Pointer pointer = 0;
    if (allocate(&pointer, limit / 2) == kSuccess) free(pointer);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back(repeat(use_shared_pool));
    threads.emplace_back(repeat(use_own_pool));
    threads.emplace_back(repeat(use_graph));
    threads.emplace_back(repeat(use_pointer));
  }
  threads.emplace_back(repeat(trim_shared_pool));
  const char* const milliseconds = std::getenv("TEST_RACE_MS");
  std::this_thread::sleep_for(
      std::chrono::milliseconds(milliseconds != nullptr ? std::atoi(milliseconds) : 300));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  synchronize();
  destroy_pool(shared);
  // The memory of the last launch is discharged when the ledger next reads the driver's figure.
  Plain all;
  std::uint64_t cost = 0;
  const bool is_given_back = all.allocate(whole_granules_of(limit), cost) == kSuccess;
  all.free_all();
  return report("races", "9 threads on pools, graphs and pointers",
                turns > 10 && is_given_back && fake_peak() <= limit);
}

// Parallel branches of a graph each need their own memory. A node after all of them can reuse the block of
// one branch, but not the sum of several: the driver joins no blocks.
inline bool run_branches(std::uint64_t limit, std::uint64_t) {
  AllocatingGraph graph;
  const std::uint64_t bytes = limit / 5 * 2;
  std::vector<Opaque> ends;
  Result results[3];
  for (Result& result : results) {
    graph.last = nullptr;
    Pointer pointer = 0;
    result = graph.allocate(bytes, pointer);
    if (result == kSuccess) {
      graph.free(pointer);
      ends.push_back(graph.last);
    }
  }
  const bool branches = results[0] == kSuccess && results[1] == kSuccess && results[2] == kOutOfMemory;
  // In a row after the first branch: no further memory.
  graph.last = ends.empty() ? nullptr : ends.front();
  Pointer pointer = 0;
  bool is_row_granted = true;
  for (int i = 0; i < 3 && is_row_granted; ++i) {
    is_row_granted = graph.allocate(bytes, pointer) == kSuccess;
    if (is_row_granted) graph.free(pointer);
  }
  // After both branches, through a node that joins them.
  const auto join = optional<Result (*)(Opaque*, Opaque, const Opaque*, std::size_t)>("cuGraphAddEmptyNode");
  if (join != nullptr && ends.size() == 2) {
    const Opaque both[] = {graph.last, ends[1]};
    Opaque joined = nullptr;
    check(join(&joined, graph.graph, both, 2), "empty node");
    graph.last = joined;
    is_row_granted = is_row_granted && graph.allocate(2 * bytes, pointer) == kOutOfMemory &&
                     graph.allocate(bytes, pointer) == kSuccess;
    if (is_row_granted) graph.free(pointer);
  }
  graph.instantiate();
  graph.launch();
  graph.destroy();
  return report("branches", "two at once, the third refused, a row after them granted",
                branches && is_row_granted && left() == limit && fake_peak() <= limit);
}

// Memory that is destroyed while the device uses it stays charged until the device has finished. A request
// that needs the memory waits for that.
inline bool run_in_flight(std::uint64_t limit, std::uint64_t) {
  const std::uint64_t most = limit / 10 * 9;
  Plain all;
  std::uint64_t cost = 0;
  Opaque stream = nullptr;
  check(cuStreamCreate(&stream, 1), "stream");
  AllocatingGraph graph;
  Pointer pointer = 0;
  check(graph.allocate(most, pointer), "node");
  graph.free(pointer);
  graph.instantiate();
  keep_busy(stream);
  check(cuGraphLaunch(graph.exec, stream), "launch");
  graph.destroy();
  const bool after_graph = all.allocate(most, cost) == kSuccess;
  all.free_all();
  // A stream-ordered free of memory that is not from a pool.
  const bool is_whole = all.allocate(most, cost) == kSuccess;
  keep_busy(stream);
  for (Pointer const one : std::exchange(all.all, {})) check(cuMemFreeAsync(one, stream), "free");
  const bool after_free = is_whole && all.allocate(most, cost) == kSuccess;
  keep_busy(stream);
  for (Pointer const one : std::exchange(all.all, {})) check(cuMemFreeAsync(one, stream), "free");
  synchronize();  // then it is available again, also to processes that share the limit
  bool after_wait = left() == limit;
  if (const auto wait = optional<Result (*)(Opaque)>("cuCtxSynchronize_v2")) {
    after_wait = all.allocate(most, cost) == kSuccess && after_wait;
    keep_busy(stream);
    for (Pointer const one : std::exchange(all.all, {})) check(cuMemFreeAsync(one, stream), "free");
    check(wait(current_context()), "wait for the context");
    after_wait = left() == limit && after_wait;
  }
  // Only with the fake driver: NVIDIA's driver 580.159 crashes when a pool with pending frees is destroyed,
  // also in a program without Headroom.
  bool after_pool = true;
  if (optional<void (*)(int)>("fake_cuda_busy") != nullptr) {
    Opaque pool = nullptr;
    check(make_pool(pool, 0), "pool");
    check(take_from_pool(pool, limit / 2, pointer), "from pool");
    keep_busy(nullptr);
    check(cuMemFreeAsync(pointer, nullptr), "free");
    destroy_pool(pool);
    after_pool = all.allocate(most, cost) == kSuccess;
    all.free_all();
  }
  return report(
      "inflight", "destroyed while it ran, granted again when it had ended",
      after_graph && after_free && after_wait && after_pool && left() == limit && fake_peak() <= limit);
}

// Execs that are destroyed, or updated to the same graph, while they run, and the next exec of that graph in
// another stream at once. Each keeps its memory until it has ended, so the next has to wait.
inline bool run_instances_again(std::uint64_t limit, std::uint64_t) {
  AllocatingGraph graph, other, small;
  Pointer pointer = 0;
  std::uint64_t most = 0;
  const auto run = [&](AllocatingGraph& one) {
    Opaque stream = nullptr;
    check(cuStreamCreate(&stream, 1), "stream");
    keep_busy(stream);
    one.launch_in(stream);
    most = std::max(most, reserved_for_graphs());
  };
  check(graph.allocate(limit / 10 * 6, pointer), "node");
  graph.free(pointer);
  for (int i = 0; i < 3; ++i) {
    graph.instantiate();
    run(graph);
    graph.destroy_instance();
  }
  // All memory of the graph is available to other requests now, and the graph can run again.
  Plain all;
  std::uint64_t cost = 0;
  const bool is_free = all.allocate(limit / 10 * 9, cost) == kSuccess;
  all.free_all();
  check(other.allocate(1 << 16, pointer), "small node");
  other.free(pointer);
  other.instantiate();
  check(small.allocate(1 << 16, pointer), "another small node");
  small.free(pointer);
  int updated = 0;
  for (const AllocatingGraph* const next : {&graph, &graph, &graph, &small, &graph}) {
    if (other.update(*next, updated % 2 == 0) != kSuccess) continue;
    ++updated;
    run(other);
  }
  synchronize();
  small.destroy();
  other.destroy();
  graph.destroy();
  std::printf("again    graphs had %llu of %llu at most\n", static_cast<unsigned long long>(most),
              static_cast<unsigned long long>(limit));
  return report("again", "three execs of a graph, each made while the last ran, and one updated to it",
                is_free && updated == 5 && most <= limit && left() == limit && fake_peak() <= limit);
}

// A pool must release memory while a stream is captured: Headroom does not synchronize, and the capture
// continues.
inline bool run_capturing(std::uint64_t limit, std::uint64_t) {
  constexpr int kRelaxed = 2;
  Opaque pool = nullptr, stream = nullptr, graph = nullptr;
  Pointer pointer = 0;
  std::uint64_t cost = 0;
  check(make_pool(pool, 0), "pool");
  check(take_from_pool(pool, limit / 2, pointer), "from pool");
  check(cuMemFreeAsync(pointer, nullptr), "free");
  synchronize();
  check(cuStreamCreate(&stream, 1), "stream");
  check(cuStreamBeginCapture_v2(stream, kRelaxed), "begin");
  Plain plain;
  const bool is_granted = plain.allocate(limit / 4 * 3, cost) == kSuccess;
  const bool goes_on = cuStreamEndCapture(stream, &graph) == kSuccess;
  plain.free_all();
  if (graph != nullptr) check(cuGraphDestroy(graph), "graph destroy");
  destroy_pool(pool);
  return report("capturing", "the pool released memory, and the capture continued",
                is_granted && goes_on && left() == limit && fake_peak() <= limit);
}

// Captures that end because their stream or context is destroyed. Their memory becomes available again, also
// memory with pending frees, for which Headroom cannot wait during a capture.
inline bool run_abandoned(std::uint64_t limit, std::uint64_t) {
  constexpr int kRelaxed = 2;
  const Opaque before = current_context();
  bool is_sound = true;
  for (const bool by_context : {false, true}) {
    Opaque context = nullptr, stream = nullptr;
    Pointer pointer = 0;
    std::uint64_t cost = 0;
    if (by_context) check(cuCtxCreate_v2(&context, 0, 0), "context");
    check(cuStreamCreate(&stream, 1), "stream");
    check(cuStreamBeginCapture_v2(stream, kRelaxed), "begin");
    check(cuMemAllocAsync(&pointer, limit / 2, stream), "node");
    if (by_context) {
      check(cuCtxDestroy_v2(context), "context destroy");
      check(cuCtxSetCurrent(before), "set current");
    } else {
      check(cuStreamDestroy_v2(stream), "stream destroy");
    }
    // Freed in stream order, so the next request has to wait.
    Plain all;
    const std::uint64_t most = limit / 10 * 9;
    is_sound = all.allocate(most, cost) == kSuccess && is_sound;
    keep_busy(nullptr);
    for (Pointer const one : std::exchange(all.all, {})) check(cuMemFreeAsync(one, nullptr), "free");
    is_sound = all.allocate(most, cost) == kSuccess && is_sound;
    all.free_all();
  }
  return report("abandoned", "captures without an end call",
                is_sound && left() == limit && fake_peak() <= limit);
}

// A pitched column: the driver pads each row, and the padding is charged before the allocation.
inline bool run_column(std::uint64_t limit, std::uint64_t) {
  const auto allocate = cuMemAllocPitch_v2;
  const auto free = cuMemFree_v2;
  Pointer pointer = 0;
  std::size_t pitch = 0;
  check(allocate(&pointer, &pitch, 1, 1, 4), "a row");
  check(free(pointer), "free");
  const bool is_refused = allocate(&pointer, &pitch, 1, limit / pitch + 1, 4) == kOutOfMemory;
  const bool is_granted = allocate(&pointer, &pitch, 1, whole_granules_of(limit) / pitch, 4) == kSuccess;
  if (is_granted) check(free(pointer), "free");
  return report("column", "one row too many refused, as many as fit granted",
                is_refused && is_granted && left() == limit && fake_peak() <= limit);
}

// Destroying a context frees its memory, with either call that ends a context.
inline bool run_contexts(std::uint64_t limit, std::uint64_t) {
  const Opaque before = current_context();
  const auto set = cuCtxSetCurrent;
  bool all_granted = true;
  for (const char* const end : {"cuCtxDetach", "cuCtxDestroy_v2"}) {
    const auto create = optional<Result (*)(Opaque*, unsigned, Device)>("cuCtxCreate_v2");
    const auto destroy = optional<Result (*)(Opaque)>(end);
    if (create == nullptr || destroy == nullptr) continue;
    for (int i = 0; i < 3; ++i) {
      Opaque context = nullptr;
      Plain plain;
      std::uint64_t cost = 0;
      check(create(&context, 0, 0), "context");
      all_granted = plain.allocate(limit / 2, cost) == kSuccess && all_granted;
      check(destroy(context), end);
      check(set(before), "set current");
    }
  }
  return report("contexts", "each freed its memory", all_granted && left() == limit && fake_peak() <= limit);
}

// Memory of a pool outlives the pool and the context that allocated it, until it is freed.
inline bool run_pool_without_context(std::uint64_t limit, std::uint64_t) {
  const Opaque before = current_context();
  const std::uint64_t most = limit / 10 * 6;
  bool all_sound = true;
  for (const bool pool_first : {true, false}) {
    Opaque context = nullptr, pool = nullptr;
    Pointer pointer = 0;
    check(cuCtxCreate_v2(&context, 0, 0), "context");
    check(make_pool(pool, 0), "pool");
    check(take_from_pool(pool, most, pointer), "from pool");
    synchronize();
    if (pool_first) destroy_pool(pool);
    check(cuCtxDestroy_v2(context), "context destroy");
    check(cuCtxSetCurrent(before), "set current");
    if (!pool_first) destroy_pool(pool);
    synchronize();
    Plain plain;
    std::uint64_t cost = 0;
    const bool is_held = plain.allocate(most, cost) == kOutOfMemory;
    check(cuMemFree_v2(pointer), "free");
    const bool is_given_back = plain.allocate(most, cost) == kSuccess;
    plain.free_all();
    all_sound = all_sound && is_held && is_given_back;
  }
  return report("outlives", "memory of a destroyed pool and context: charged until it was freed",
                all_sound && left() == limit && fake_peak() <= limit);
}

// Exported memory: another process may keep it after it is freed here, so it stays charged until this process
// ends. Run this route alone.
inline bool run_exported(std::uint64_t limit, std::uint64_t) {
  const std::uint64_t most = limit / 5;
  Plain plain;
  std::uint64_t cost = 0, kept = most;
  IpcHandle handle{};
  check(plain.allocate(most, cost), "to be exported");
  const auto get_handle = cuIpcGetMemHandle;
  check(get_handle(&handle, plain.all.back()), "IPC handle");
  check(get_handle(&handle, plain.all.back()), "IPC handle, again");
  plain.free_all();
  // Pool memory is charged a second time, because the pool's figure falls when it is trimmed.
  const auto leave = [&](const char* what, auto share) {
    Opaque pool = nullptr;
    Pointer pointer = 0;
    check(make_pool(pool, 0), "pool");
    check(take_from_pool(pool, most, pointer), "from pool");
    synchronize();
    const Result result = share(pointer);
    check(cuMemFreeAsync(pointer, nullptr), "free");
    synchronize();
    destroy_pool(pool);
    synchronize();
    kept += result == kSuccess ? most : 0;
    std::printf("exported %s of a pool's memory: error %d\n", what, result);
    return result != kOutOfMemory;
  };
  const bool by_descriptor = leave("a descriptor", [&](Pointer pointer) {
    constexpr int kDmaBuf = 1;
    constexpr std::uint64_t kPage = 2 << 20;
    int descriptor = -1;
    const auto get = optional<Result (*)(void*, Pointer, std::size_t, int, unsigned long long)>(
        "cuMemGetHandleForAddressRange");
    return get != nullptr ? get(&descriptor, pointer, most / kPage * kPage, kDmaBuf, 0) : kNotSupported;
  });
  // A real driver requires a pool that was created for export.
  const bool by_pointer = leave("a pointer", [&](Pointer pointer) {
    char shared[64] = {};
    const auto get = optional<Result (*)(void*, Pointer)>("cuMemPoolExportPointer");
    return get != nullptr ? get(shared, pointer) : kNotSupported;
  });
  const std::uint64_t found = left();
  const bool is_kept = found <= limit - kept && found > limit - kept - 4 * kPoolGranule;
  const bool is_refused = plain.allocate(limit - kept + kPoolGranule, cost) == kOutOfMemory;
  return report("exported", "exported memory stays charged after its free",
                by_descriptor && by_pointer && is_kept && is_refused && fake_peak() <= limit);
}

// A graph with a node on each of two devices. Run it with a limit of LIMIT on the first device, and of less
// than STEP on the second.
inline bool run_graph_of_devices(std::uint64_t, std::uint64_t step) {
  AllocatingGraph graph;
  Pointer pointer = 0;
  check(graph.allocate(step, pointer), "node");
  AllocationNode node{};
  node.pool.type = 1;
  node.pool.location = {kLocationDevice, 1};
  node.bytes = step;
  Opaque made = nullptr;
  const Result result = cuGraphAddMemAllocNode(&made, graph.graph, &graph.last, 1, &node);
  return report("several", "a graph's node is refused by the limit of its own device",
                result == kOutOfMemory);
}

}  // namespace cuda_program
