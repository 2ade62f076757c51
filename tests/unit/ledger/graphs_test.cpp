// Charges for memory nodes of graphs and for graph execs.
#include "unit/ledger/ledger_fixture.h"

namespace headroom::ledger {
namespace {

class LedgerGraphs : public LedgerFixture {
 protected:
  static constexpr std::uint64_t kStep = 32;  // for tests with steps
  void SetUp() override { limit(100); }
  void add_node(std::uint64_t graph, std::uint64_t address, std::uint64_t bytes, unsigned device = 0) {
    ASSERT_TRUE(ledger_.reserve_in_graph(graph, device, bytes).granted);
    ledger_.commit_node(graph, address, device, bytes);
  }
  // Adds a node that is ordered after the free nodes `behind`, and a node that frees it. Returns the
  // additional charge.
  std::uint64_t add_freed(std::uint64_t graph, std::uint64_t address, std::uint64_t bytes, std::uint64_t node,
                          const std::vector<std::uint64_t>& behind = {}) {
    const std::uint64_t before = charged();
    const auto growth = ledger_.reserve_in_graph(graph, 0, bytes, behind);
    EXPECT_TRUE(growth.granted);
    ledger_.commit_node(graph, address, 0, bytes, growth.spare);
    EXPECT_TRUE(ledger_.free_node(graph, address, node));
    return charged() - before;
  }
  // Then lets the driver report only the graph orphans as reserved.
  bool destroy(EntryType type, std::uint64_t handle) {
    Entry freed;
    unsigned device = 0;
    bool is_gone = false;
    for (; ledger_.destroy_graph(type, handle, device, freed); ++device) is_gone = true;
    settle();
    return is_gone;
  }
  void settle() {
    std::uint64_t bytes = 0;
    for (const Entry& orphan : orphans()) bytes += orphan.bytes;
    ledger_.settle_graph_memory(0, bytes);
  }
  std::vector<Entry> orphans() {
    std::vector<Entry> all;
    std::size_t place = 0;
    for (Entry entry; ledger_.next_graph_orphan(0, place, entry); ++place) all.push_back(entry);
    return all;
  }
  std::vector<std::uint64_t> left() {
    std::vector<std::uint64_t> addresses;
    for (const Entry& orphan : orphans()) addresses.push_back(orphan.address);
    return addresses;
  }
  bool instantiate(std::uint64_t graph, std::uint64_t exec) {
    constexpr std::uint64_t kNumber = 0x77;
    Entry refused;
    if (!ledger_.begin_exec(kNumber, graph, refused)) return false;
    ledger_.finish_instantiate(kNumber, exec);
    return true;
  }
  bool update(std::uint64_t exec, std::uint64_t graph) {
    Entry refused;
    if (!ledger_.begin_exec(exec, graph, refused)) return false;
    while (ledger_.drop_past_update(exec, refused)) {
    }
    ledger_.finish_update(exec);
    return true;
  }
};

TEST_F(LedgerGraphs, ReusesAFreedBlockThatIsOrderedBeforeAndLargeEnough) {
  const std::uint64_t first[] = {0xf1}, second[] = {0xf2};
  auto growth = ledger_.reserve_in_graph(3, 0, 80);
  ASSERT_TRUE(growth.granted);
  EXPECT_EQ(growth.after, 80u);
  ledger_.commit_node(3, 0x1000, 0, 80);
  EXPECT_FALSE(ledger_.free_node(4, 0x1000, 0xf1))
      << "a node of another graph, which frees it only when that runs";
  EXPECT_FALSE(ledger_.has_unused_blocks(3, 0));
  EXPECT_TRUE(ledger_.free_node(3, 0x1000, 0xf1));
  EXPECT_FALSE(ledger_.free_node(3, 0x1000, 0xf1));
  EXPECT_TRUE(ledger_.has_unused_blocks(3, 0, 80));
  EXPECT_FALSE(ledger_.has_unused_blocks(3, 0, 81));
  EXPECT_EQ(ledger_.bytes_freed_by_node(3, 0, 0xf1), 80u);
  EXPECT_FALSE(ledger_.fits_in_graph(3, 0, 81, first));
  EXPECT_TRUE(ledger_.fits_in_graph(3, 0, 60, first));
  growth = ledger_.reserve_in_graph(3, 0, 60, first);
  ASSERT_TRUE(growth.granted);
  EXPECT_EQ(growth.before, growth.after);
  EXPECT_EQ(growth.spare, 20u);
  ledger_.commit_node(3, 0x2000, 0, 60, growth.spare);
  EXPECT_EQ(ledger_.bytes_freed_by_node(3, 0, 0xf1), 0u);
  EXPECT_FALSE(ledger_.reserve_in_graph(3, 0, 21, first).granted) << "the node uses the whole block";
  EXPECT_EQ(charged(), 80u);
  EXPECT_TRUE(ledger_.free_node(3, 0x2000, 0xf2));
  EXPECT_FALSE(ledger_.reserve_in_graph(3, 0, 21).granted) << "a parallel branch";
  growth = ledger_.reserve_in_graph(3, 0, 30, second);
  EXPECT_EQ(growth.after, 80u);
  ledger_.cancel_in_graph(3, 0, 30, growth, second);
  EXPECT_EQ(ledger_.bytes_freed_by_node(3, 0, 0xf2), 80u) << "the driver could not add the node";
  instantiate(3, 0xe);
  Entry freed;
  unsigned device = 0;
  EXPECT_FALSE(ledger_.destroy_graph(EntryType::graph, 3, device, freed)) << "the exec pins it";
  EXPECT_EQ(charged(), 80u);
  EXPECT_TRUE(ledger_.destroy_graph(EntryType::graph_exec, 0xe, device = 0, freed));
  EXPECT_EQ(freed.charged, 80u);
  EXPECT_EQ(freed.address, 3u);
  EXPECT_EQ(charged(), 80u) << "until the driver's figure for graphs falls";
  EXPECT_TRUE(ledger_.has_pending_graph_memory(0));
  ledger_.settle_graph_memory(0, 50);
  EXPECT_EQ(charged(), 50u);
  ledger_.settle_graph_memory(0, 0);
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(ledger_.bytes_freed_by_node(3, 0, 0xf2), 0u);
  EXPECT_EQ(ledger_.figures(0, Kind::graph).live_count, 0u);
}

TEST_F(LedgerGraphs, ChargesWholeStepsPerGraph) {
  ledger_.assume_pool_step(kStep);
  add_node(3, 0x1000, 1);
  EXPECT_EQ(charged(), kStep);
  add_node(3, 0x2000, kStep - 1);
  EXPECT_EQ(charged(), kStep) << "nodes of one graph share a step";
  add_node(4, 0x3000, 1);
  EXPECT_EQ(charged(), 2 * kStep);
  const auto growth = ledger_.reserve_in_graph(4, 0, kStep);
  ASSERT_TRUE(growth.granted);
  EXPECT_EQ(growth.after, 1 + kStep) << "bytes of its blocks";
  EXPECT_EQ(charged(), 3 * kStep);
  EXPECT_FALSE(ledger_.fits_in_graph(5, 0, 1));
  EXPECT_FALSE(ledger_.reserve_in_graph(5, 0, 1).granted) << "a step more than the limit";
  EXPECT_TRUE(ledger_.reserve_in_graph(3, 0, 0).granted);
  ledger_.cancel_in_graph(4, 0, kStep, growth);
  EXPECT_EQ(charged(), 2 * kStep);
  EXPECT_FALSE(ledger_.reserve_in_graph(3, 0, ~std::uint64_t{0}).granted);
  EXPECT_TRUE(destroy(EntryType::graph, 3));
  EXPECT_TRUE(destroy(EntryType::graph, 4));
  EXPECT_EQ(charged(), 0u);
}

TEST_F(LedgerGraphs, ChargesUnforeseenMemoryUntilTheFigureFalls) {
  add_node(3, 0x1000, 20);
  instantiate(3, 0xe);
  ledger_.settle_graph_memory(0, 20);
  EXPECT_FALSE(ledger_.has_pending_graph_memory(0));
  ledger_.settle_graph_memory(0, 50);
  EXPECT_EQ(charged(), 50u);
  EXPECT_TRUE(ledger_.has_pending_graph_memory(0)) << "the driver may be asked to free it";
  EXPECT_EQ(ledger_.charged_for_graphs(0), 50u);
  add_node(4, 0x2000, 30);
  ledger_.settle_graph_memory(0, 50);
  EXPECT_EQ(charged(), 80u) << "the second graph has not run yet";
  EXPECT_FALSE(ledger_.reserve(0, Kind::device, 21));
  ledger_.settle_graph_memory(0, 140);
  EXPECT_EQ(charged(), 140u) << "it is allocated, whatever the limit is";
  ledger_.settle_graph_memory(0, 10);
  EXPECT_EQ(charged(), 50u) << "the figure fell: only the expected charges are left";
  EXPECT_FALSE(ledger_.has_pending_graph_memory(0));
  EXPECT_TRUE(destroy(EntryType::graph, 4));
  EXPECT_FALSE(destroy(EntryType::graph, 3));
  EXPECT_TRUE(destroy(EntryType::graph_exec, 0xe));
  ledger_.settle_graph_memory(0, 0);
  EXPECT_EQ(charged(), 20u) << "a graph orphan";
  Entry left;
  EXPECT_TRUE(ledger_.drop_graph_orphan(0x1000, left));
  ledger_.settle_graph_memory(0, 0);
  EXPECT_EQ(charged(), 0u);
}

TEST_F(LedgerGraphs, AnUpdatedExecPinsBothGraphs) {
  EXPECT_EQ(add_freed(3, 0x1000, 10, 0xf1), 10u);
  EXPECT_EQ(add_freed(4, 0x2000, 50, 0xf2), 50u);
  instantiate(3, 0xe);
  Entry freed;
  EXPECT_TRUE(update(0xe, 4));
  EXPECT_FALSE(destroy(EntryType::graph, 4));
  EXPECT_EQ(charged(), 60u) << "the exec may be launched";
  // A new graph reuses the handle, and the exec is updated to it.
  EXPECT_EQ(add_freed(4, 0x3000, 40, 0xf3), 40u);
  EXPECT_TRUE(ledger_.begin_exec(0xe, 4, freed));
  EXPECT_TRUE(ledger_.drop_past_update(0xe, freed));
  EXPECT_EQ(freed.charged, 50u);
  EXPECT_EQ(freed.address, 4u);
  EXPECT_FALSE(ledger_.drop_past_update(0xe, freed)) << "the new update is not finished";
  ledger_.finish_update(0xe);
  settle();
  EXPECT_EQ(charged(), 50u);
  EXPECT_FALSE(destroy(EntryType::graph, 4));
  EXPECT_FALSE(destroy(EntryType::graph, 3));
  EXPECT_EQ(charged(), 50u);
  EXPECT_TRUE(destroy(EntryType::graph_exec, 0xe));
  EXPECT_TRUE(ledger_.drop_past_update(0xe, freed));
  settle();
  EXPECT_EQ(charged(), 0u);
}

TEST_F(LedgerGraphs, ChargesGraphExecUntilItEnds) {
  limit(150);
  EXPECT_EQ(add_freed(3, 0x1000, 60, 0xf1), 60u);
  Entry freed;
  unsigned device = 0;
  EXPECT_TRUE(instantiate(3, 0xe1));
  EXPECT_FALSE(ledger_.destroy_graph(EntryType::graph_exec, 0xe1, device, freed));
  EXPECT_EQ(charged(), 60u);
  EXPECT_TRUE(instantiate(3, 0xe2));
  EXPECT_EQ(charged(), 120u) << "the first may still run";
  EXPECT_FALSE(ledger_.destroy_graph(EntryType::graph_exec, 0xe2, device = 0, freed));
  EXPECT_FALSE(instantiate(3, 0xe3));
  ledger_.settle_graph_memory(0, 60);
  EXPECT_EQ(charged(), 60u);
  EXPECT_TRUE(instantiate(3, 0xe3));
  ledger_.settle_graph_memory(0, 0);
  EXPECT_EQ(charged(), 60u) << "the last exec is not launched yet";
  EXPECT_FALSE(destroy(EntryType::graph_exec, 0xe3));
  EXPECT_EQ(charged(), 0u) << "it has no exec";
  EXPECT_TRUE(ledger_.reserve(0, Kind::device, 100));
  EXPECT_FALSE(instantiate(3, 0xe4));
  ledger_.cancel(0, Kind::device, 100);
  EXPECT_TRUE(ledger_.begin_exec(0x77, 3, freed));
  ledger_.cancel_exec(0x77);
  EXPECT_EQ(charged(), 0u) << "the driver failed";
  EXPECT_EQ(add_freed(3, 0x2000, 10, 0xf2), 70u) << "a graph without a charge grows";
  EXPECT_TRUE(destroy(EntryType::graph, 3));
  EXPECT_EQ(charged(), 0u);
}

TEST_F(LedgerGraphs, ChargesOrphansOfAChildGraphThatRanBeforeItWasMoved) {
  limit(200);
  add_node(3, 0x1000, 30);
  add_node(4, 0x2000, 50);
  ASSERT_TRUE(ledger_.reserve(0, Kind::device, 60));
  EXPECT_TRUE(instantiate(3, 0xe3));
  EXPECT_TRUE(instantiate(4, 0xe4));
  ledger_.move_graph(4, 3);
  EXPECT_TRUE(destroy(EntryType::graph_exec, 0xe4));
  EXPECT_FALSE(destroy(EntryType::graph_exec, 0xe3));
  EXPECT_TRUE(destroy(EntryType::graph, 3));
  EXPECT_THAT(left(), testing::UnorderedElementsAre(0x1000u, 0x2000u));
  EXPECT_EQ(charged(), 140u);
  Entry dropped;
  for (const std::uint64_t address : {0x1000, 0x2000})
    EXPECT_TRUE(ledger_.drop_graph_orphan(address, dropped));
  settle();
  EXPECT_EQ(charged(), 60u) << "the charge of the device allocation is unchanged";
}

TEST_F(LedgerGraphs, SeparatesGraphsThatReuseAHandle) {
  add_node(3, 0x1000, 30);
  instantiate(3, 0xe);
  EXPECT_FALSE(destroy(EntryType::graph, 3));
  add_node(3, 0x2000, 40);
  EXPECT_EQ(charged(), 70u);
  EXPECT_FALSE(ledger_.free_node(3, 0x1000, 0xf1)) << "a node of the earlier graph";
  EXPECT_TRUE(destroy(EntryType::graph_exec, 0xe));
  EXPECT_EQ(charged(), 70u);
  EXPECT_THAT(left(), testing::ElementsAre(0x1000u));
  EXPECT_TRUE(ledger_.free_node(3, 0x2000, 0xf2));
  EXPECT_TRUE(destroy(EntryType::graph, 3));
  EXPECT_EQ(charged(), 30u);
}

TEST_F(LedgerGraphs, ChargesOrphansUntilTheyAreFreed) {
  add_node(3, 0x1000, 20);
  add_node(3, 0x2000, 30);
  add_node(3, 0x3000, 40);
  ASSERT_TRUE(ledger_.free_node(3, 0x2000));
  instantiate(3, 0xe);
  EXPECT_FALSE(release(0x1000)) << "the graph needs it for its next launch";
  EXPECT_FALSE(ledger_.has_graph_orphans());
  EXPECT_FALSE(destroy(EntryType::graph, 3));
  EXPECT_TRUE(destroy(EntryType::graph_exec, 0xe));
  EXPECT_EQ(charged(), 60u);
  EXPECT_THAT(left(), testing::UnorderedElementsAre(0x1000u, 0x3000u));
  ledger_.finish_orphan_release(begin_release(0x1000));
  EXPECT_EQ(charged(), 60u) << "the driver keeps it for the next graph";
  settle();
  EXPECT_EQ(charged(), 40u);
  Entry dropped;
  EXPECT_TRUE(ledger_.drop_graph_orphan(0x3000, dropped)) << "the driver reports that it is not live";
  EXPECT_FALSE(ledger_.drop_graph_orphan(0x3000, dropped));
  settle();
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(ledger_.figures(0, Kind::graph).live_count, 0u);
}

TEST_F(LedgerGraphs, AMovedChildGraphEndsWithItsParent) {
  add_node(3, 0x1000, 40);
  add_node(4, 0x2000, 30);
  ASSERT_TRUE(ledger_.free_node(4, 0x2000));
  ledger_.move_graph(4, 3);
  EXPECT_EQ(charged(), 70u);
  EXPECT_FALSE(destroy(EntryType::graph, 4));
  EXPECT_TRUE(destroy(EntryType::graph, 3));
  EXPECT_EQ(charged(), 0u);
  add_node(5, 0x3000, 50);
  ledger_.move_graph(5, 6);
  EXPECT_TRUE(destroy(EntryType::graph, 6)) << "a parent without own nodes";
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(add_freed(7, 0x4000, 20, 0xf7), 20u);
  EXPECT_TRUE(instantiate(7, 0xe));
  ledger_.move_graph(7, 8);
  EXPECT_EQ(charged(), 20u) << "its exec still runs";
  EXPECT_TRUE(instantiate(8, 0xe8));
  EXPECT_EQ(charged(), 40u);
  EXPECT_TRUE(destroy(EntryType::graph_exec, 0xe));
  EXPECT_EQ(charged(), 20u);
  EXPECT_FALSE(destroy(EntryType::graph_exec, 0xe8));
  EXPECT_TRUE(destroy(EntryType::graph, 8));
  EXPECT_EQ(charged(), 0u);
}

TEST_F(LedgerGraphs, ChargesNodesToTheirDevice) {
  limit(100, 100);
  add_node(3, 0x1000, 40);
  add_node(3, 0x2000, 70, 1);
  EXPECT_EQ(charged(), 40u);
  EXPECT_EQ(ledger_.account().charged_to_this_process(1), 70u);
  EXPECT_FALSE(ledger_.reserve_in_graph(3, 1, 31).granted);
  EXPECT_TRUE(ledger_.free_node(3, 0x2000, 0xf1));
  EXPECT_EQ(ledger_.bytes_freed_by_node(3, 1, 0xf1), 70u);
  EXPECT_EQ(ledger_.bytes_freed_by_node(3, 0, 0xf1), 0u) << "the memory is on the other device";
  instantiate(3, 0xe);
  EXPECT_FALSE(destroy(EntryType::graph_exec, 0xe));
  EXPECT_TRUE(destroy(EntryType::graph, 3));
  ledger_.settle_graph_memory(1, 0);
  EXPECT_EQ(ledger_.account().charged_to_this_process(1), 0u);
}

}  // namespace
}  // namespace headroom::ledger
