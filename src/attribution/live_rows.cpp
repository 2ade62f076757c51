#include "attribution/live_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "attribution/sampled_peak.h"

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

// The blocks that are live after the last event at or before `time`. Sets rows.mapped and rows.devices.
LiveMap blocks_at(recording::Recording& recording, Nanoseconds time, LiveRows& rows) {
  LiveMap live;
  LayerTree layers(recording);
  MappingLedger mappings(recording.info().page_bytes);
  DeviceLedgers devices(recording.info());
  recording.for_each_event([&](const MemoryEvent& event) {
    if (event.time > time) return;
    const LayerIndex layer = has_layer(event.kind) ? layers.of(event.scope) : 0;
    live.apply(event, layers);
    if (is_of_device(event.kind))
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

LiveRows live_rows_at(recording::Recording& recording, Nanoseconds time, SampleHalf half) {
  LiveRows rows;
  const LiveMap live = blocks_at(recording, time, rows);
  const bool full = recording.info().full;
  const SmallAllocations most = full ? kNoBound : small_allocations_until(recording, {&time, 1}).front();

  rows.time = time;
  LiveRow all;
  double blocks_variance = 0;
  std::int64_t large = 0;
  measure_live(live, half, most, [&](const LiveBlock& block, const MeasuredBlock& measured) {
    const LiveRow row{measured.bytes, measured.blocks, measured.bytes_variance};
    blocks_variance += measured.blocks_variance;
    if (block.weight == 1) add_wrapping(large, row.bytes);
    all.add(row);
    add_to(rows.by_stack, block.stack, row);
    add_to(rows.by_layer, block.layer, row);
    add_to(rows.by_thread, block.thread(), row);
    add_to(rows.by_class, static_cast<std::size_t>(std::bit_width(block.size)), row);
  });
  rows.bytes.value = all.bytes;
  rows.blocks.value = all.blocks;
  rows.bytes.at_least = rows.blocks.at_least = recording.info().segments_overwritten > 0;
  if (full || most.bytes == 0) return rows;
  // One sample more or less is always possible, but the error is at most everything that was sampled.
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
  for (std::vector<LiveRow>* list : {&rows.by_stack, &rows.by_layer, &rows.by_thread, &rows.by_class})
    for (LiveRow& row : *list) row.variance = std::min(row.variance, most_bytes * most_bytes);
  return rows;
}

std::vector<LiveMoment> live_at(recording::Recording& recording, std::span<const Nanoseconds> times,
                                SampleHalf half) {
  const std::vector<SmallAllocations> bounds =
      recording.info().full ? std::vector(times.size(), kNoBound) : small_allocations_until(recording, times);
  LiveMap live;
  LayerTree layers(recording);
  LiveMoment now;
  SmallAllocations estimated;  // the part of `now` that samples represent
  std::vector<LiveMoment> moments;
  const auto add = [](std::vector<std::int64_t>& sums, std::uint32_t index, std::int64_t by) {
    if (index >= sums.size()) sums.resize(index + 1);
    add_wrapping(sums[index], by);
  };
  const auto add_block = [&](LiveMoment& moment, const LiveBlock& block, std::int64_t bytes,
                             std::int64_t blocks) {
    add_wrapping(moment.bytes, bytes);
    add_wrapping(moment.blocks, blocks);
    add(moment.bytes_by_stack, block.stack, bytes);
    add(moment.bytes_by_layer, block.layer, bytes);
    add(moment.bytes_by_thread, block.thread(), bytes);
    add(moment.bytes_by_class, static_cast<std::uint32_t>(std::bit_width(block.size)), bytes);
  };
  const auto change = [&](const LiveBlock& block, int sign) {
    const std::int64_t bytes = sign * block.bytes_in(half), blocks = sign * block.blocks_in(half);
    add_block(now, block, bytes, blocks);
    if (block.weight == 1) return;
    add_wrapping(estimated.bytes, bytes);
    add_wrapping(estimated.blocks, blocks);
  };
  const auto bound_samples = [&](LiveMoment& moment, const BoundedSamples& bounded) {
    live.for_each([&](const LiveBlock& block) {
      if (block.weight == 1) return;
      const std::int64_t bytes = block.bytes_in(half), blocks = block.blocks_in(half);
      add_block(moment, block, bounded.bytes(bytes) - bytes, bounded.blocks(blocks) - blocks);
    });
  };
  const auto take_moments_before = [&](std::int64_t time) {
    while (moments.size() < times.size() && times[moments.size()].count < time) {
      const BoundedSamples bounded(estimated, bounds[moments.size()]);
      now.time = times[moments.size()];
      moments.push_back(now);
      if (!bounded.changes_nothing()) bound_samples(moments.back(), bounded);
    }
  };
  recording.for_each_event([&](const MemoryEvent& event) {
    if (moments.size() == times.size()) return;
    take_moments_before(event.time.count);
    live.apply(
        event, [&](ScopeId scope) { return layers.of(scope); }, change);
  });
  take_moments_before(std::numeric_limits<std::int64_t>::max());
  return moments;
}

}  // namespace headroom::attribution
