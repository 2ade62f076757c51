// `headroom report X.pickle` on the terminal: what a person wants to know first, in one screen a device.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <ranges>

#include "base/text.h"
#include "base/units.h"
#include "base/utf8.h"
#include "report/recording/recording_words.h"
#include "report/snapshot/snapshot_views.h"
#include "report/snapshot/snapshot_words.h"
#include "report/text_layout.h"
#include "report/words.h"
#include "types/enum_names.h"

namespace headroom::report {
namespace {

using namespace attribution;

constexpr int kCells = 40;
constexpr std::size_t kSnapshotRows = 5, kSegmentsShown = 6, kOomsShown = 3;

class SnapshotScreen {
 public:
  SnapshotScreen(const SnapshotReport& report, bool color, int width)
      : report_(report), snapshot_(report.snapshot), screen_(color, width) {}

  std::string draw() {
    screen_.title(fmt::format("PyTorch memory snapshot: {}", report_.file));
    if (!snapshot_.settings.text.empty())
      screen_.line(
          fit_to_width(fmt::format("PYTORCH_CUDA_ALLOC_CONF={}", snapshot_.settings.text), screen_.width()));
    if (report_.devices.empty()) screen_.line("\nThe allocator held no memory on any device.");
    for (const snapshot::DeviceAnalysis& device : report_.devices) draw_device(device);
    screen_.missing_data(snapshot_.problems);
    next();
    return std::move(screen_).text();
  }

 private:
  void place(const std::string& figures, const snapshot::DeviceAnalysis& device, snapshot::PlaceIndex index) {
    place(figures, device.places[index]);
  }
  void place(const std::string& figures, const snapshot::AllocationPlace& where) {
    screen_.row(figures, [&](int room) { return one_line_place(snapshot_, where, room); });
  }

  void draw_device(const snapshot::DeviceAnalysis& device) {
    screen_.heading(fmt::format("Device {}", device.device));
    figures(device);
    ooms(device);
    places(device, "Places that held the peak", &snapshot::PlaceFigures::peak_bytes,
           device.peak_allocated_bytes);
    if (device.entries > 0 && device.live_bytes > 0)
      places(device, "Places that hold the memory live at the end", &snapshot::PlaceFigures::live_bytes,
             device.live_bytes);
    leaks(device);
    fragmentation(device);
    segments(device);
  }

  void figures(const snapshot::DeviceAnalysis& device) {
    screen_.figure("At the end",
                   fmt::format("{} live in {}; {} reserved in {}", format_bytes({device.live_bytes}),
                               counted(device.live_blocks, "block"), format_bytes({device.reserved_bytes}),
                               counted(device.segments, "segment")));
    const std::int64_t rounding = device.live_bytes + device.pending_bytes - device.requested_bytes;
    const std::int64_t free = device.reserved_bytes - device.live_bytes - device.pending_bytes;
    screen_.figure("", fmt::format("{} free in segments, the largest piece {}; {} lost to rounding",
                                   format_bytes({free}), format_bytes({device.end.largest_free_bytes}),
                                   format_bytes({rounding})));
    if (device.pending_bytes > 0)
      screen_.figure(
          "", fmt::format("{} released, waiting for another stream", format_bytes({device.pending_bytes})));
    if (device.entries == 0) return screen_.figure("Trace", "none: the snapshot has no allocation history");
    screen_.figure(
        "Peak",
        fmt::format("{}{} allocated, {}; {} reserved at most", device.doubt.empty() ? "" : "≈ ",
                    format_bytes({device.peak_allocated_bytes}),
                    words_for_moment(device, device.peak_position, device.moments[device.peak].time_us),
                    format_bytes({device.peak_reserved_bytes})));
    const auto count = [&](snapshot::Action action) {
      return device.actions[static_cast<std::size_t>(action)];
    };
    using snapshot::Action;
    const std::string duration =
        device.first_time_us == 0 ? "" : " in " + format_duration(duration_of_trace(device));
    screen_.figure(
        "Trace", fmt::format("{} entries{}: {}, {}; {} added, {} removed", grouped(device.entries), duration,
                             counted(count(Action::alloc), "allocation"),
                             counted(count(Action::free_requested), "release"),
                             counted(count(Action::segment_alloc) + count(Action::segment_map), "segment"),
                             grouped(count(Action::segment_free) + count(Action::segment_unmap))));
    if (device.before.allocated > 0)
      screen_.figure("", fmt::format("starts with {} allocated", format_bytes({device.before.allocated})));
    if (!device.doubt.empty())
      screen_.figure("", fmt::format("figures of the trace may be wrong: {}", device.doubt));
  }

  void places(const snapshot::DeviceAnalysis& device, const std::string& title,
              std::int64_t snapshot::PlaceFigures::*bytes, std::int64_t all) {
    const auto order = ranked(
        device.figures, [&](const snapshot::PlaceFigures& place) { return place.*bytes; }, kSnapshotRows);
    if (order.empty()) return;
    screen_.heading(title);
    for (const std::size_t i : order)
      place(share_figures(device.figures[i].*bytes, all), device, device.figures[i].place);
    const auto with_bytes =
        std::ranges::count_if(device.figures, [&](const snapshot::PlaceFigures& p) { return p.*bytes > 0; });
    screen_.and_more(static_cast<std::size_t>(with_bytes), order.size());
  }

  void ooms(const snapshot::DeviceAnalysis& device) {
    if (device.oom_count == 0) return;
    screen_.heading(fmt::format("Out of memory {}",
                                device.oom_count == 1 ? "once" : fmt::format("{} times", device.oom_count)));
    for (const snapshot::OomAutopsy& oom : first_of(device.ooms, kOomsShown)) autopsy(device, oom);
    screen_.and_more(static_cast<std::size_t>(device.oom_count), std::min(device.ooms.size(), kOomsShown));
  }

  void autopsy(const snapshot::DeviceAnalysis& device, const snapshot::OomAutopsy& oom) {
    screen_.sentence(
        "✗", kRed,
        fmt::format("{} requested {}, with {} allocated, {} reserved and {} free on the device.",
                    format_bytes({oom.requested}), words_for_moment(device, oom.position, oom.time_us),
                    format_bytes({oom.totals.allocated}), format_bytes({oom.totals.reserved}),
                    format_bytes({oom.device_free})));
    if (oom.stack.index != 0) place("  request: ", snapshot::AllocationPlace{oom.stack, {}});
    screen_.indented(
        fmt::format("{} was free in segments, {} of it usable for this request; the largest piece was {}.",
                    format_bytes({oom.free_in_segments}), format_bytes({oom.fitting_free}),
                    format_bytes({oom.largest_fitting})));
    screen_.line("  Places that held the memory:");
    for (const snapshot::PlaceShare& holder : first_of(oom.holders, kSnapshotRows))
      place(fmt::format("  {:>9} in {:<12} ", format_bytes({holder.bytes}), counted(holder.blocks, "block")),
            device, holder.place);
    screen_.line("  How to free enough memory:");
    if (oom.ways.empty()) screen_.line("    not possible: this process held too little memory");
    for (const snapshot::RoomMaker& way : oom.ways) {
      screen_.line("  " + wrap("· " + words_for_room(oom, way, snapshot_.settings), screen_.width() - 2, 4));
      if (way.by == snapshot::RoomBy::defragmenting) continue;
      for (const snapshot::PlaceShare& share : way.places)
        place(fmt::format("      {:>9}  ", format_bytes({share.bytes})), device, share.place);
    }
  }

  void leaks(const snapshot::DeviceAnalysis& device) {
    if (device.entries == 0) return;
    const snapshot::SnapshotLeaks& leaks = device.leaks;
    screen_.heading("Leaks");
    // unknown, none, grew_then_stayed, grew_then_released, grew_late, leak.
    screen_.sentence(name_in({"·", "✓", "✓", "✓", "!", "✗"}, leaks.growth),
                     name_in({kYellow, kGreen, kGreen, kGreen, kYellow, kRed}, leaks.growth),
                     words_for_leaks(leaks, duration_of_trace(device)));
    if (leaks.growth < monitoring::Growth::grew_late) return;
    std::vector<snapshot::AllocationPlace> guilty;
    std::size_t shown = 0;
    for (const snapshot::PlaceGrowth& growth : leaks.places) {
      if (growth.growth != leaks.growth) continue;
      guilty.push_back(device.places[growth.place]);
      if (shown == kSnapshotRows) continue;
      ++shown;
      place(
          fmt::format("  +{:>9}, {} of {} blocks live  ", format_bytes({growth.late_bytes}),
                      grouped(growth.live_blocks), grouped(std::max(growth.allocations, growth.live_blocks))),
          device, growth.place);
    }
    screen_.and_more(guilty.size(), shown);
    if (const std::string common = common_frame(snapshot_, guilty); !common.empty())
      screen_.line(fit_to_width(fmt::format("  all called from {}", common), screen_.width()));
  }

  void fragmentation(const snapshot::DeviceAnalysis& device) {
    const snapshot::SnapshotMoment& worst = device.moments[device.worst];
    if (worst.free_bytes == 0) return;
    screen_.heading("Fragmentation");
    if (device.entries > 0) {
      const snapshot::SnapshotMoment& peak = device.moments[device.peak];
      screen_.note(fmt::format("At the peak, {} of {} reserved was free in {} ({}), the largest {}.",
                               format_bytes({peak.free_bytes}), format_bytes({peak.totals.reserved}),
                               counted(peak.holes, "piece"), words_for_share(peak.external()),
                               format_bytes({peak.largest_free_bytes})));
    }
    if (device.entries == 0 || device.worst != device.peak)
      screen_.note(fmt::format(
          "Most was free {}: {} of {} in {}, the largest {}.",
          device.entries == 0 ? "at the end" : words_for_moment(device, worst.position, worst.time_us),
          format_bytes({worst.free_bytes}), format_bytes({worst.totals.reserved}),
          counted(worst.holes, "piece"), format_bytes({worst.largest_free_bytes})));
    if (!worst.blocker) return;
    const snapshot::SnapshotBlocker& blocker = *worst.blocker;
    const std::string what =
        blocker.empties_segment
            ? fmt::format("  {} keeps a segment of {}: ", format_bytes({blocker.block.size}),
                          format_bytes({blocker.segment_bytes}))
            : fmt::format("  {} splits a free range of {}: ", format_bytes({blocker.block.size}),
                          format_bytes({blocker.freed_if_gone}));
    const snapshot::AllocationPlace where{blocker.block.stack, blocker.block.stack.index != 0
                                                                   ? std::nullopt
                                                                   : std::optional(blocker.block.requested)};
    place(what, where);
  }

  // A row a segment, the largest first: # live throughout, + in part, . free.
  void segments(const snapshot::DeviceAnalysis& device) {
    const auto all = snapshot_.segments_of(device.device);
    if (all.empty()) return;
    screen_.heading("Segments at the end: # live, + partly live, . free");
    std::vector<snapshot::Segment> order(all.begin(), all.end());
    std::ranges::stable_sort(order, std::greater{}, &snapshot::Segment::size);
    for (const snapshot::Segment& segment : first_of(order, kSegmentsShown)) {
      std::int64_t live = 0;
      for (const snapshot::Block& block : snapshot_.blocks_of(segment))
        live += block.is_live() ? block.size : 0;
      screen_.line(
          fit_to_width(fmt::format("  {:>9} [{}] {} live{}{}", format_bytes({segment.size}),
                                   cells_of(snapshot_, segment, kCells), format_bytes({live}),
                                   segment.is_large ? "" : ", small blocks",
                                   segment.stream == 0 ? "" : fmt::format(", stream {}", segment.stream)),
                       screen_.width()));
    }
    screen_.and_more(order.size(), kSegmentsShown);
  }

  void next() {
    screen_.heading("Next");
    screen_.line(fmt::format("  headroom report {} --html snapshot.html", shell_word(report_.file)));
    screen_.line(fmt::format("  headroom report {} --json", shell_word(report_.file)));
  }

  const SnapshotReport& report_;
  const snapshot::Snapshot& snapshot_;
  ScreenLines screen_;
};

}  // namespace

std::string snapshot_to_terminal(const SnapshotReport& report, bool color, int width) {
  return SnapshotScreen(report, color, width).draw();
}

}  // namespace headroom::report
