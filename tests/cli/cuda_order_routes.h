// Routes that depend on order: branches of a graph, pending work of the device, captures, contexts. The fake
// driver reports the most that it allocated.
#pragma once

#include <unistd.h>

#include <utility>

#include "cli/cuda_graph_routes.h"
#include "cli/cuda_handle_routes.h"

namespace cuda_program {

// A route has ended well only if all memory is given back and the driver never gave more than the limit.
inline bool report_end(const char* text, bool is_sound, std::uint64_t limit) {
  return report(is_sound && left() == limit && fake_peak() <= limit, "%s", text);
}

inline Opaque make_pool() {
  Opaque pool = nullptr;
  check(make_pool(pool, 0), "pool");
  return pool;
}
inline Pointer must_take_from_pool(Opaque pool, std::uint64_t bytes) {
  Pointer pointer = 0;
  check(take_from_pool(pool, bytes, pointer), "from pool");
  return pointer;
}

// Keeps the device busy until a synchronization. On a real driver this is a host function that sleeps.
inline void keep_busy(Opaque stream) {
  if (const auto busy = optional<void (*)(int)>("fake_cuda_busy")) return busy(1);
  const auto launch = optional<Result (*)(Opaque, void (*)(void*), void*)>("cuLaunchHostFunc");
  if (launch == nullptr) fail("the driver has no", "cuLaunchHostFunc", 0);
  check(launch(
            stream, [](void*) { ::usleep(300'000); }, nullptr),
        "host function");
}

// Frees memory that is not from a pool in the order of a busy stream.
inline void free_while_busy(Plain& memory, Opaque stream) {
  keep_busy(stream);
  for (const Pointer pointer : std::exchange(memory.all, {})) free_in_order(pointer, stream);
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
    result = graph.allocate_and_free(bytes);
    if (result == kSuccess) ends.push_back(graph.last);
  }
  const bool branches = results[0] == kSuccess && results[1] == kSuccess && results[2] == kOutOfMemory;
  // In a row after the first branch: no further memory.
  graph.last = ends.empty() ? nullptr : ends.front();
  bool is_row_granted = true;
  for (int i = 0; i < 3 && is_row_granted; ++i) is_row_granted = graph.allocate_and_free(bytes) == kSuccess;
  // After both branches, through a node that joins them.
  const auto join = optional<Result (*)(Opaque*, Opaque, const Opaque*, std::size_t)>("cuGraphAddEmptyNode");
  if (join != nullptr && ends.size() == 2) {
    const Opaque both[] = {graph.last, ends[1]};
    Opaque joined = nullptr;
    check(join(&joined, graph.graph, both, 2), "empty node");
    graph.last = joined;
    is_row_granted = is_row_granted && graph.allocate_and_free(2 * bytes) == kOutOfMemory &&
                     graph.allocate_and_free(bytes) == kSuccess;
  }
  graph.instantiate();
  graph.launch();
  graph.destroy();
  return report_end("branches two at once, the third refused, a row after them granted",
                    branches && is_row_granted, limit);
}

// Memory that is destroyed while the device uses it stays charged until the device has finished. A request
// that needs the memory waits for that.
inline bool run_in_flight(std::uint64_t limit, std::uint64_t) {
  const std::uint64_t most = limit / 10 * 9;
  Plain all;
  const Opaque stream = make_stream();
  AllocatingGraph graph;
  check(graph.allocate_and_free(most), "node");
  graph.instantiate();
  keep_busy(stream);
  graph.launch_in(stream);
  graph.destroy();
  const bool after_graph = fits_once(most);
  const bool is_whole = all.grants(most);
  free_while_busy(all, stream);
  const bool after_free = is_whole && all.grants(most);
  free_while_busy(all, stream);
  synchronize();  // then it is available again, also to processes that share the limit
  bool after_wait = left() == limit;
  if (const auto wait = optional<Result (*)(Opaque)>("cuCtxSynchronize_v2")) {
    after_wait = all.grants(most) && after_wait;
    free_while_busy(all, stream);
    check(wait(current_context()), "wait for the context");
    after_wait = left() == limit && after_wait;
  }
  // Only with the fake driver: NVIDIA's driver 580.159 crashes when a pool with pending frees is destroyed,
  // also in a program without Headroom.
  bool after_pool = true;
  if (optional<void (*)(int)>("fake_cuda_busy") != nullptr) {
    const Opaque pool = make_pool();
    const Pointer pointer = must_take_from_pool(pool, limit / 2);
    keep_busy(nullptr);
    free_in_order(pointer);
    destroy_pool(pool);
    after_pool = fits_once(most);
  }
  return report_end("inflight destroyed while it ran, granted again when it had ended",
                    after_graph && after_free && after_wait && after_pool, limit);
}

// Execs that are destroyed, or updated to the same graph, while they run, and the next exec of that graph in
// another stream at once. Each keeps its memory until it has ended, so the next has to wait.
inline bool run_instances_again(std::uint64_t limit, std::uint64_t) {
  AllocatingGraph graph, other, small;
  std::uint64_t most = 0;
  const auto run = [&](AllocatingGraph& one) {
    const Opaque stream = make_stream();
    keep_busy(stream);
    one.launch_in(stream);
    most = std::max(most, reserved_for_graphs());
  };
  check(graph.allocate_and_free(limit / 10 * 6), "node");
  for (int i = 0; i < 3; ++i) {
    graph.instantiate();
    run(graph);
    graph.destroy_instance();
  }
  // All memory of the graph is available to other requests now, and the graph can run again.
  const bool is_free = fits_once(limit / 10 * 9);
  check(other.allocate_and_free(1 << 16), "small node");
  other.instantiate();
  check(small.allocate_and_free(1 << 16), "another small node");
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
  std::printf("again    graphs had %lu of %lu at most\n", most, limit);
  return report_end("again    three execs of a graph, each made while the last ran, and one updated to it",
                    is_free && updated == 5 && most <= limit, limit);
}

// A pool must release memory while a stream is captured: Headroom does not synchronize, and the capture
// continues.
inline bool run_capturing(std::uint64_t limit, std::uint64_t) {
  Opaque graph = nullptr;
  const Opaque pool = make_pool();
  free_in_order(must_take_from_pool(pool, limit / 2));
  synchronize();
  const Opaque stream = make_stream();
  begin_capture(stream);
  Plain plain;
  const bool is_granted = plain.grants(limit / 4 * 3);
  const bool goes_on = cuStreamEndCapture(stream, &graph) == kSuccess;
  plain.free_all();
  if (graph != nullptr) check(cuGraphDestroy(graph), "graph destroy");
  destroy_pool(pool);
  return report_end("capturing the pool released memory, and the capture continued", is_granted && goes_on,
                    limit);
}

// Captures that end because their stream or context is destroyed. Their memory becomes available again, also
// memory with pending frees, for which Headroom cannot wait during a capture.
inline bool run_abandoned(std::uint64_t limit, std::uint64_t) {
  const Opaque before = current_context();
  bool is_sound = true;
  for (const bool by_context : {false, true}) {
    Pointer pointer = 0;
    const Opaque context = by_context ? make_context() : nullptr;
    const Opaque stream = make_stream();
    begin_capture(stream);
    check(cuMemAllocAsync(&pointer, limit / 2, stream), "node");
    if (by_context) {
      destroy_context(context);
      make_current(before);
    } else {
      check(cuStreamDestroy_v2(stream), "stream destroy");
    }
    // Freed in stream order, so the next request has to wait.
    Plain all;
    const std::uint64_t most = limit / 10 * 9;
    is_sound = all.grants(most) && is_sound;
    free_while_busy(all, nullptr);
    is_sound = fits_once(most) && is_sound;
  }
  return report_end("abandoned captures without an end call", is_sound, limit);
}

// A pitched column: the driver pads each row, and the padding is charged before the allocation.
inline bool run_column(std::uint64_t limit, std::uint64_t) {
  Pointer pointer = 0;
  std::size_t pitch = 0;
  const auto allocate = [&](std::size_t rows) { return cuMemAllocPitch_v2(&pointer, &pitch, 1, rows, 4); };
  check(allocate(1), "a row");
  free_pointer(pointer);
  const bool is_refused = allocate(limit / pitch + 1) == kOutOfMemory;
  const bool is_granted = allocate(whole_granules_of(limit) / pitch) == kSuccess;
  if (is_granted) free_pointer(pointer);
  return report_end("column   one row too many refused, as many as fit granted", is_refused && is_granted,
                    limit);
}

// Destroying a context frees its memory.
inline bool run_contexts(std::uint64_t limit, std::uint64_t) {
  const Opaque before = current_context();
  bool all_granted = true;
  for (int i = 0; i < 3; ++i) {
    const Opaque context = make_context();
    all_granted = Plain().grants(limit / 2) && all_granted;
    destroy_context(context);
    make_current(before);
  }
  return report_end("contexts each freed its memory", all_granted, limit);
}

// Memory of a pool outlives the pool and the context that allocated it, until it is freed.
inline bool run_pool_without_context(std::uint64_t limit, std::uint64_t) {
  const Opaque before = current_context();
  const std::uint64_t most = limit / 10 * 6;
  bool all_sound = true;
  for (const bool pool_first : {true, false}) {
    const Opaque context = make_context();
    const Opaque pool = make_pool();
    const Pointer pointer = must_take_from_pool(pool, most);
    synchronize();
    if (pool_first) destroy_pool(pool);
    destroy_context(context);
    make_current(before);
    if (!pool_first) destroy_pool(pool);
    synchronize();
    const bool is_held = Plain().refuses(most);
    free_pointer(pointer);
    all_sound = fits_once(most) && is_held && all_sound;
  }
  return report_end("outlives memory of a destroyed pool and context: charged until it was freed", all_sound,
                    limit);
}

// Exported memory: another process may keep it after it is freed here, so it stays charged until this process
// ends. Run this route alone.
inline bool run_exported(std::uint64_t limit, std::uint64_t) {
  const std::uint64_t most = limit / 5;
  Plain plain;
  std::uint64_t kept = most;
  IpcHandle handle{};
  check(plain.request(most), "to be exported");
  check(cuIpcGetMemHandle(&handle, plain.all.back()), "IPC handle");
  check(cuIpcGetMemHandle(&handle, plain.all.back()), "IPC handle, again");
  plain.free_all();
  // Pool memory is charged a second time, because the pool's figure falls when it is trimmed.
  const auto leave = [&](const char* what, auto share) {
    const Opaque pool = make_pool();
    const Pointer pointer = must_take_from_pool(pool, most);
    synchronize();
    const Result result = share(pointer);
    free_in_order(pointer);
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
  // A sparse array: Headroom does not follow which parts have memory. (The fake driver needs no array.)
  if (optional<void (*)(int)>("fake_cuda_busy") != nullptr) {
    ArrayMapping mapping{};
    check(create_physical(most, 0, mapping.handle), "memory of an array");
    mapping.operation = kMapPart;
    check(cuMemMapArrayAsync(&mapping, 1, nullptr), "map array");
    release_handle(mapping.handle);
    kept += most;
  }
  const std::uint64_t found = left();
  const bool is_kept = found <= limit - kept && found > limit - kept - 4 * kPoolGranule;
  const bool is_refused = plain.refuses(limit - kept + kPoolGranule);
  return report(by_descriptor && by_pointer && is_kept && is_refused && fake_peak() <= limit,
                "exported exported memory stays charged after its free");
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
  return report(result == kOutOfMemory, "several  a graph's node is refused by the limit of its own device");
}

}  // namespace cuda_program
