#include "attribution/live_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "attribution/layer_ledger.h"
#include "attribution/small_allocations.h"

namespace headroom::attribution {
namespace {

void add_to(std::vector<LiveRow>& rows, std::size_t index, const LiveRow& row) {
  if (index >= rows.size()) rows.resize(index + 1);
  rows[index].add(row);
}

MappedRows mapped_rows(const MappingLedger& mappings) {
  const auto now = [](std::vector<MappingShare> shares) {
    std::erase_if(shares, [](const MappingShare& share) { return share.end_bytes == 0; });
    for (MappingShare& share : shares) share.at_peak_bytes = 0;
    sort_shares(shares);
    return shares;
  };
  return {mappings.mapped_bytes(), now(mappings.by_stack()), now(mappings.by_layer())};
}

// The blocks that are live after the last event at or before `time`, and what is mapped and on devices then.
LiveMap blocks_at(recording::Recording& recording, Nanoseconds time, LiveRows& rows) {
  LiveMap live;
  LayerLedger layers(recording);
  MappingLedger mappings(recording.info().page_bytes);
  DeviceLedgers devices;
  for (const recording::Device& device : recording.info().devices)
    devices.describe(device.ordinal, device.integrated, device.granule_bytes);
  recording.for_each_event([&](const MemoryEvent& event) {
    if (event.time > time) return;
    const bool has_layer = event.kind != MemoryEventKind::unmap && event.kind != MemoryEventKind::gap;
    // Scopes without a name are layers in the order in which they come, as in the analysis.
    const LayerIndex layer = has_layer ? layers.layer_of(event.scope) : 0;
    LiveBlock block, replaced;
    if (event.kind == MemoryEventKind::release)
      live.take(event.address, block);
    else if (is_allocation(event) && make_block(event, layer, event.time.count, block))
      live.insert(block, replaced);
    else if (is_of_device(event.kind))
      devices.visit(event, layer, event.time.count);
    else
      mappings.apply(event, layer);
  });
  rows.mapped = mapped_rows(mappings);
  rows.devices = devices.finish();
  return live;
}

}  // namespace

void LiveRow::add(const LiveRow& other) {
  add_wrapping(bytes, other.bytes);
  add_wrapping(blocks, other.blocks);
  variance += other.variance;
}

std::optional<double> LiveRow::standard_error() const {
  return variance > 0 ? std::optional(std::sqrt(variance)) : std::nullopt;
}

LiveRows live_rows_at(recording::Recording& recording, Nanoseconds time, SampleHalf half) {
  LiveRows rows;
  const LiveMap live = blocks_at(recording, time, rows);
  const bool full = recording.info().full;
  const SmallAllocations most = full ? kNoBound : small_allocations_until(recording, {&time, 1}).front();
  SmallAllocations estimated;
  live.for_each([&](const LiveBlock& block) {
    if (block.weight == 1) return;
    add_wrapping(estimated.bytes, block.bytes_in(half));
    add_wrapping(estimated.blocks, block.blocks_in(half));
  });
  const BoundedSamples bounded(estimated, most);

  rows.time = time;
  LiveRow all;
  double blocks_variance = 0;
  std::int64_t large = 0;
  live.for_each([&](const LiveBlock& block) {
    LiveRow row{block.bytes_in(half), block.blocks_in(half), 0};
    if (row.blocks == 0) return;
    if (block.weight == 1) {
      add_wrapping(large, row.bytes);
    } else {
      const double weight = half == SampleHalf::both ? block.weight : block.half_weight();
      row.variance = sample_variance(weight, row.bytes);
      blocks_variance += sample_variance(weight, row.blocks);
      row.bytes = bounded.bytes(row.bytes);
      row.blocks = bounded.blocks(row.blocks);
    }
    all.add(row);
    add_to(rows.by_stack, block.stack, row);
    add_to(rows.by_layer, block.layer, row);
    add_to(rows.by_thread, block.thread, row);
    add_to(rows.by_class, static_cast<std::size_t>(std::bit_width(block.size)), row);
  });
  rows.bytes.value = all.bytes;
  rows.blocks.value = all.blocks;
  rows.bytes.at_least = rows.blocks.at_least = recording.info().segments_overwritten > 0;
  if (full || most.bytes == 0) return rows;
  // Samples know nothing of what lies between them, so one more or less is always possible; but no more can
  // be wrong than all that was sampled.
  const auto most_bytes = static_cast<double>(most.bytes), most_blocks = static_cast<double>(most.blocks);
  const double period =
      static_cast<double>(recording.info().sample_period_bytes) * (half == SampleHalf::both ? 1 : 2);
  const double blocks_a_period = period * most_blocks / most_bytes;
  rows.bytes.standard_error = std::min(most_bytes, std::hypot(std::sqrt(all.variance), period));
  rows.blocks.standard_error = std::min(most_blocks, std::hypot(std::sqrt(blocks_variance), blocks_a_period));
  if (most_bytes < static_cast<double>(recording.info().sample_period_bytes) && !rows.bytes.at_least) {
    add_wrapping(large, most.bytes);
    rows.bytes.at_most = large;
  }
  const auto bound = [&](std::vector<LiveRow>& list) {
    for (LiveRow& row : list) row.variance = std::min(row.variance, most_bytes * most_bytes);
  };
  bound(rows.by_stack);
  bound(rows.by_layer);
  bound(rows.by_thread);
  bound(rows.by_class);
  return rows;
}

}  // namespace headroom::attribution
