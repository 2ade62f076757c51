// Random calls by several threads. The most that the fake driver allocated must stay within the limit. After
// everything is freed, the whole limit must be available again.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <span>
#include <thread>

#include "cli/cuda_handle_routes.h"
#include "cli/cuda_order_routes.h"

namespace cuda_program {

// A context and a stream in it.
struct Work {
  Opaque context = nullptr, stream = nullptr;
};

inline std::vector<Work> works_in(std::span<const Opaque> contexts) {
  std::vector<Work> works;
  for (Opaque const context : contexts) {
    make_current(context);
    works.push_back({context, make_stream()});
  }
  return works;
}

// One thread: its memory, and its next random call.
class RandomCaller {
 public:
  using Numbers = std::function<std::uint64_t()>;
  // `works`: streams of this thread, in contexts that all threads use, on one device.
  RandomCaller(Numbers numbers, std::uint64_t limit, std::vector<Work> works, bool has_fake_driver)
      : random_(std::move(numbers)),
        limit_(limit),
        has_fake_driver_(has_fake_driver),
        works_(std::move(works)) {}

  void call() {
    make_current(works_[any(works_)].context);
    using Self = RandomCaller;
    using Action = void (Self::*)();
    // Actions that occur twice are twice as likely. Those from kOfFakeDriver on need the fake driver.
    static constexpr Action kActions[] = {&Self::allocate,
                                          &Self::allocate,
                                          &Self::free_one,
                                          &Self::free_one,
                                          &Self::allocate_rows,
                                          &Self::make_array,
                                          &Self::make_handle,
                                          &Self::make_own_pool,
                                          &Self::allocate_from_pool,
                                          &Self::allocate_from_pool,
                                          &Self::free_stream_ordered,
                                          &Self::free_stream_ordered,
                                          &Self::change_pool,
                                          &Self::build_graph,
                                          &Self::run_or_destroy_graph,
                                          &Self::be_busy_or_wait,
                                          &Self::visit_context,
                                          &Self::visit_context,
                                          &Self::visit_primary_context,
                                          &Self::visit_primary_context};
    constexpr std::size_t kOfFakeDriver = 16;
    (this->*kActions[random_() % (has_fake_driver_ ? std::size(kActions) : kOfFakeDriver)])();
  }

  void free_everything() {
    make_current(works_[0].context);
    while (!pointers_.empty() || !pool_orphans_.empty()) free_one();
    for (Opaque const array : arrays_) cuArrayDestroy(array);
    for (const Mapped& one : mapped_) unmap(one);
    while (!pools_.empty()) {
      while (!pools_.back().pointers.empty()) free_of(pools_.back());
      destroy_pool(pools_.back().pool);
      pools_.pop_back();
    }
    while (!graphs_.empty()) destroy_graph();
  }

 private:
  // All frees are in one context, because a destroyed pool with frees in two contexts stays charged.
  struct Pool {
    Opaque pool = nullptr;
    Work work{};
    std::vector<Pointer> pointers;
  };
  struct Mapped {
    Pointer address = 0;
    std::size_t bytes = 0;
  };
  struct Graph {
    Opaque graph = nullptr, exec = nullptr;
  };

  // One in four is so small that it shares a granule.
  std::uint64_t size() {
    constexpr std::uint64_t kSmall = std::uint64_t{1} << 20;
    const std::uint64_t kind = random_() % 8;
    return 1 + random_() % (kind < 2 ? kSmall : kind < 4 ? limit_ : limit_ / 16);
  }
  template <class All>
  std::size_t any(const All& all) {
    return random_() % all.size();
  }
  template <class All>
  auto remove_any(All& all) {
    std::swap(all[any(all)], all.back());
    auto taken = all.back();
    all.pop_back();
    return taken;
  }

  void allocate() {
    Pointer pointer = 0;
    const Result result =
        random_() % 4 == 0 ? cuMemAllocManaged(&pointer, size(), 1) : cuMemAlloc_v2(&pointer, size());
    if (result == kSuccess) pointers_.push_back(pointer);
  }
  void allocate_rows() {
    Pointer pointer = 0;
    std::size_t pitch = 0;
    const std::size_t width = 1 + random_() % 3000;
    if (cuMemAllocPitch_v2(&pointer, &pitch, width, 1 + size() / width, 4) == kSuccess)
      pointers_.push_back(pointer);
  }
  void free_one() {
    if (!pointers_.empty() && random_() % 4 == 0)
      return free_in_order(remove_any(pointers_), works_[any(works_)].stream);
    if (!pointers_.empty()) free_pointer(remove_any(pointers_));
    if (!pool_orphans_.empty()) free_pointer(remove_any(pool_orphans_));
  }
  void make_array() {
    if (!arrays_.empty() && random_() % 2 == 0)
      return check(cuArrayDestroy(remove_any(arrays_)), "array destroy");
    allocate_array();
  }
  void allocate_array() {
    const ArrayDescriptor shape{256, 1 + size() / 1024, 0x20, 1};
    Opaque array = nullptr;
    if (cuArrayCreate_v2(&array, &shape) == kSuccess) arrays_.push_back(array);
  }
  void make_handle() {
    if (!mapped_.empty() && random_() % 2 == 0) return unmap(remove_any(mapped_));
    Handle handle = 0;
    Mapped one{0, size()};
    if (create_physical(one.bytes, 0, handle) != kSuccess) return;
    check(cuMemAddressReserve(&one.address, one.bytes, 0, 0, 0), "reserve");
    check(cuMemMap(one.address, one.bytes, 0, handle, 0), "map");
    release_handle(handle);
    mapped_.push_back(one);
  }
  static void unmap(const Mapped& one) {
    check(cuMemUnmap(one.address, one.bytes), "unmap");
    check(cuMemAddressFree(one.address, one.bytes), "address free");
  }
  void make_own_pool() {
    constexpr std::size_t kMost = 4;
    if (pools_.size() == kMost) return;
    pools_.push_back({make_pool(), works_[any(works_)], {}});
  }
  void allocate_from_pool() {
    if (pools_.empty()) return make_own_pool();
    Pool& pool = pools_[any(pools_)];
    Pointer pointer = 0;
    // Uses the context that also frees: if Headroom refuses a request after the driver granted it, it frees
    // the memory in this stream.
    make_current(pool.work.context);
    Opaque const stream = random_() % 2 == 0 ? pool.work.stream : nullptr;
    if (cuMemAllocFromPoolAsync(&pointer, size(), pool.pool, stream) == kSuccess)
      pool.pointers.push_back(pointer);
  }
  void free_of(Pool& pool) {
    const bool in_default_stream = random_() % 2 == 0;
    if (in_default_stream) make_current(pool.work.context);
    free_in_order(remove_any(pool.pointers), in_default_stream ? nullptr : pool.work.stream);
  }
  void free_stream_ordered() {
    if (pools_.empty()) return;
    Pool& pool = pools_[any(pools_)];
    if (!pool.pointers.empty()) free_of(pool);
  }
  void change_pool() {
    if (pools_.empty()) return;
    const std::size_t which = any(pools_);
    if (random_() % 2 == 0) {
      check(cuMemPoolTrimTo(pools_[which].pool, size()), "trim");
      return;
    }
    std::swap(pools_[which], pools_.back());
    // Its allocations stay live, and are freed later, in stream order or by pointer.
    destroy_pool(pools_.back().pool);
    while (!pools_.back().pointers.empty() && random_() % 2 == 0) free_of(pools_.back());
    pool_orphans_.insert(pool_orphans_.end(), pools_.back().pointers.begin(), pools_.back().pointers.end());
    pools_.pop_back();
  }
  // Up to eight allocations, each after a random set of earlier nodes, each freed after another random set.
  void build_graph() {
    constexpr std::size_t kMostGraphs = 3;
    if (graphs_.size() == kMostGraphs) return destroy_graph();
    Graph made;
    check(cuGraphCreate(&made.graph, 0), "graph");
    std::vector<Opaque> nodes;
    const auto random_earlier_nodes = [&] {
      std::vector<Opaque> some;
      for (Opaque const node : nodes)
        if (random_() % 3 == 0) some.push_back(node);
      return some;
    };
    const std::size_t count = 1 + random_() % 8;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<Opaque> before = random_earlier_nodes();
      AllocationNode node{};
      node.pool.type = 1;
      node.pool.location = {kLocationDevice, 0};
      node.bytes = size();
      Opaque made_node = nullptr;
      if (cuGraphAddMemAllocNode(&made_node, made.graph, before.data(), before.size(), &node) != kSuccess)
        continue;
      nodes.push_back(made_node);
      // Without a free node the memory would have to be freed after each launch.
      before = random_earlier_nodes();
      before.push_back(made_node);
      check(cuGraphAddMemFreeNode(&made_node, made.graph, before.data(), before.size(), node.address),
            "free node");
      nodes.push_back(made_node);
    }
    graphs_.push_back(made);
  }
  void run_or_destroy_graph() {
    if (graphs_.empty()) return;
    Graph& graph = graphs_[any(graphs_)];
    if (graph.exec == nullptr) {
      // This can be refused if other execs were updated to this graph.
      const Result result = cuGraphInstantiateWithFlags(&graph.exec, graph.graph, 0);
      if (result != kOutOfMemory) check(result, "instantiate");
      return;
    }
    switch (random_() % 8) {
      case 0:
      case 1:
        return destroy_graph();
      case 2:
      case 3:
        return destroy_instance(graph);
      case 4:
        return update(graph.exec);
      default:
        break;
    }
    // Its memory was charged when its nodes were added, so the launch must succeed.
    check(cuGraphLaunch(graph.exec, nullptr), "launch");
  }
  // Updates the exec to a graph without an exec. That graph is destroyed at once, or stays for further execs,
  // which then may be refused.
  void update(Opaque exec) {
    for (Graph& other : graphs_) {
      if (other.exec != nullptr) continue;
      std::uint64_t outcome[8] = {};
      const Result result = cuGraphExecUpdate_v2(exec, other.graph, outcome);
      if (result != kOutOfMemory) check(result, "update");
      if (random_() % 2 == 0) return;
      check(cuGraphDestroy(other.graph), "graph destroy");
      std::swap(other, graphs_.back());
      return graphs_.pop_back();
    }
  }
  void destroy_graph() {
    Graph graph = remove_any(graphs_);
    const auto destroy = [&] { check(cuGraphDestroy(graph.graph), "graph destroy"); };
    const bool graph_first = random_() % 2 == 0;
    if (graph_first) destroy();
    if (graph.exec != nullptr) destroy_instance(graph);
    if (!graph_first) destroy();
  }
  static void destroy_instance(Graph& graph) {
    check(cuGraphExecDestroy(std::exchange(graph.exec, nullptr)), "exec destroy");
  }
  // Destroying the context frees what was allocated in it.
  void visit_context() {
    Opaque const context = make_context();
    const std::size_t had_pointers = pointers_.size(), had_arrays = arrays_.size();
    for (std::uint64_t i = random_() % 8; i > 0; --i) random_() % 2 == 0 ? allocate() : allocate_array();
    if (random_() % 2 == 0) leave_pool_behind();
    destroy_context(context);
    pointers_.resize(had_pointers);
    arrays_.resize(had_arrays);
  }
  // Memory of a pool outlives the context, even if the pool is destroyed.
  void leave_pool_behind() {
    const Opaque pool = make_pool();
    Pointer pointer = 0;
    if (take_from_pool(pool, size(), pointer) == kSuccess) pool_orphans_.push_back(pointer);
    destroy_pool(pool);
  }
  // The same with another device's primary context, if no other thread has retained it.
  void visit_primary_context() {
    constexpr int kOther = 1;
    make_current(retain_primary_context(kOther));
    const std::size_t had_pointers = pointers_.size();
    for (std::uint64_t i = random_() % 8; i > 0; --i) allocate();
    check(cuDevicePrimaryCtxRelease_v2(kOther), "release");
    pointers_.resize(had_pointers);
  }
  void be_busy_or_wait() {
    if (random_() % 2 == 0) return synchronize();
    if (const auto busy = optional<void (*)(int)>("fake_cuda_busy")) busy(1);
  }

  Numbers random_;
  std::uint64_t limit_;
  bool has_fake_driver_;
  std::vector<Work> works_;
  std::vector<Pointer> pointers_, pool_orphans_;
  std::vector<Opaque> arrays_;
  std::vector<Mapped> mapped_;
  std::vector<Pool> pools_;
  std::vector<Graph> graphs_;
};

// Runs `thread_count` threads with `calls` calls each.
inline bool run_random_calls(std::uint64_t limit, std::uint64_t seed, std::uint64_t calls,
                             std::uint64_t thread_count) {
  const Opaque first = current_context();
  const std::array contexts{first, make_context()};
  const bool has_fake_driver = optional<void (*)(int)>("fake_cuda_busy") != nullptr;  // it has two devices
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < thread_count; ++i)
    threads.emplace_back([&, i] {
      RandomCaller caller(std::mt19937_64(seed * 1000 + i), limit, works_in(contexts), has_fake_driver);
      for (std::uint64_t call = 0; call < calls; ++call) caller.call();
      caller.free_everything();
    });
  for (std::thread& thread : threads) thread.join();
  // Before a refusal Headroom synchronizes only the current context, so this does it in each context.
  for (Opaque const context : contexts) {
    make_current(context);
    synchronize();
    fits_once(limit);
  }
  destroy_context(contexts[1]);
  bool is_given_back = true;
  for (int device = has_fake_driver ? 1 : 0; device >= 0; --device) {
    make_current(retain_primary_context(device));
    is_given_back = fits_once(limit) && is_given_back;
    check(cuDevicePrimaryCtxRelease_v2(device), "release");
  }
  make_current(first);
  return report(is_given_back && fake_peak(0) <= limit && fake_peak(1) <= limit, "random   random calls");
}

// Environment: TEST_SEED (default 1), TEST_CALLS per thread (2000), TEST_THREADS (3).
inline bool run_random(std::uint64_t limit, std::uint64_t) {
  const auto setting = [](const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
  };
  return run_random_calls(limit, setting("TEST_SEED", 1), setting("TEST_CALLS", 2000),
                          setting("TEST_THREADS", 3));
}

}  // namespace cuda_program
