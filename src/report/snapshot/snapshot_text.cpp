// `headroom report X.pickle` on the terminal: what a person wants to know first, in one screen a device.
#include <fmt/format.h>

#include <algorithm>

#include "base/display_width.h"
#include "base/text.h"
#include "base/units.h"
#include "report/recording/leak_words.h"
#include "report/recording/ranking.h"
#include "report/recording/recording_words.h"
#include "report/snapshot/snapshot_views.h"
#include "report/snapshot/snapshot_words.h"
#include "report/terminal_table.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using namespace attribution;

constexpr int kNarrowest = 40, kShortestPlace = 10, kCells = 40;
constexpr std::size_t kRowsOfATable = 5, kSegmentsShown = 6, kOomsShown = 3;

class Screen {
 public:
  Screen(const SnapshotReport& report, bool color, int width)
      : report_(report), snapshot_(report.snapshot), color_(color), width_(std::max(width, kNarrowest)) {}

  std::string draw() {
    line(painted(fit_to_width(fmt::format("PyTorch memory snapshot: {}", report_.file), width_), kBold,
                 color_));
    if (!snapshot_.settings.text.empty())
      line(fit_to_width(fmt::format("PYTORCH_CUDA_ALLOC_CONF={}", snapshot_.settings.text), width_));
    if (report_.devices.empty()) line("\nThe allocator held no memory on any device.");
    for (const snapshot::DeviceAnalysis& device : report_.devices) draw_device(device);
    problems();
    next();
    return std::move(text_);
  }

 private:
  void line(std::string_view text) { text_ += fmt::format("{}\n", text); }
  void heading(const std::string& text) { line("\n" + painted(fit_to_width(text, width_), kBold, color_)); }
  void sentence(std::string_view sign, std::string_view paint, const std::string& text) {
    constexpr int kNoLimit = 1 << 20;  // only control characters go
    line(fmt::format("{} {}", painted(sign, paint, color_),
                     wrap(fit_to_width(text, kNoLimit), width_ - 2, 2)));
  }
  void figure(std::string_view name, const std::string& text) {
    line(fmt::format("{:<10} {}", name, wrap(text, width_ - 11, 11)));
  }
  void place(const std::string& figures, const snapshot::DeviceAnalysis& device, snapshot::PlaceIndex index) {
    line(figures + one_line_place(snapshot_, device.places[index],
                                  std::max(kShortestPlace, width_ - display_width(figures))));
  }
  void and_more(std::size_t all, std::size_t shown) {
    if (all > shown) line(fmt::format("  and {} more", grouped(static_cast<std::int64_t>(all - shown))));
  }

  void draw_device(const snapshot::DeviceAnalysis& device) {
    heading(fmt::format("Device {}", device.device));
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
    figure("At the end",
           fmt::format("{} live in {}; {} reserved in {}", format_bytes({device.live_bytes}),
                       counted(device.live_blocks, "block"), format_bytes({device.reserved_bytes}),
                       counted(device.segments, "segment")));
    const std::int64_t rounding = device.live_bytes + device.pending_bytes - device.requested_bytes;
    const std::int64_t free = device.reserved_bytes - device.live_bytes - device.pending_bytes;
    figure("",
           fmt::format("{} free in segments, the largest piece {}; {} lost to rounding", format_bytes({free}),
                       format_bytes({device.end.largest_free_bytes}), format_bytes({rounding})));
    if (device.pending_bytes > 0)
      figure("",
             fmt::format("{} released, waiting for another stream", format_bytes({device.pending_bytes})));
    if (device.entries == 0) return figure("Trace", "none: the snapshot has no allocation history");
    figure("Peak",
           fmt::format("{}{} allocated, {}; {} reserved at most", device.doubt.empty() ? "" : "≈ ",
                       format_bytes({device.peak_allocated_bytes}),
                       words_for_moment(device, device.peak_position, device.moments[device.peak].time_us),
                       format_bytes({device.peak_reserved_bytes})));
    const auto count = [&](snapshot::Action action) {
      return device.actions[static_cast<std::size_t>(action)];
    };
    using snapshot::Action;
    figure("Trace", fmt::format("{} entries{}: {}, {}; {} added, {} removed", grouped(device.entries),
                                words_for_duration(device), counted(count(Action::alloc), "allocation"),
                                counted(count(Action::free_requested), "release"),
                                counted(count(Action::segment_alloc) + count(Action::segment_map), "segment"),
                                grouped(count(Action::segment_free) + count(Action::segment_unmap))));
    if (device.before.allocated > 0)
      figure("", fmt::format("starts with {} allocated", format_bytes({device.before.allocated})));
    if (!device.doubt.empty()) figure("", fmt::format("figures of the trace may be wrong: {}", device.doubt));
  }

  static std::string words_for_duration(const snapshot::DeviceAnalysis& device) {
    if (device.first_time_us == 0) return "";
    constexpr std::int64_t kMost = std::int64_t{1} << 52;
    const std::int64_t us = std::clamp<std::int64_t>(device.last_time_us - device.first_time_us, 0, kMost);
    return fmt::format(" in {}", format_duration({us * 1000}));
  }

  void places(const snapshot::DeviceAnalysis& device, const std::string& title,
              std::int64_t snapshot::PlaceFigures::*bytes, std::int64_t all) {
    const auto order = ranked(
        device.figures, [&](const snapshot::PlaceFigures& place) { return place.*bytes; }, kRowsOfATable);
    if (order.empty()) return;
    heading(title);
    for (const std::size_t i : order)
      place(fmt::format("  {:>9} {:>3.0f} %  ", format_bytes({device.figures[i].*bytes}),
                        100 * static_cast<double>(device.figures[i].*bytes) /
                            static_cast<double>(std::max<std::int64_t>(1, all))),
            device, device.figures[i].place);
    const auto with_bytes =
        std::ranges::count_if(device.figures, [&](const snapshot::PlaceFigures& p) { return p.*bytes > 0; });
    and_more(static_cast<std::size_t>(with_bytes), order.size());
  }

  void ooms(const snapshot::DeviceAnalysis& device) {
    if (device.oom_count == 0) return;
    heading(fmt::format("Out of memory {}",
                        device.oom_count == 1 ? "once" : fmt::format("{} times", device.oom_count)));
    for (std::size_t i = 0; i < std::min(device.ooms.size(), kOomsShown); ++i)
      autopsy(device, device.ooms[i]);
    and_more(static_cast<std::size_t>(device.oom_count), std::min(device.ooms.size(), kOomsShown));
  }

  void autopsy(const snapshot::DeviceAnalysis& device, const snapshot::OomAutopsy& oom) {
    sentence("✗", kRed,
             fmt::format("{} requested {}, with {} allocated, {} reserved and {} free on the device.",
                         format_bytes({oom.requested}), words_for_moment(device, oom.position, oom.time_us),
                         format_bytes({oom.totals.allocated}), format_bytes({oom.totals.reserved}),
                         format_bytes({oom.device_free})));
    if (oom.stack.index != 0) {
      const snapshot::AllocationPlace asked{oom.stack, {}};
      line("  request: " + one_line_place(snapshot_, asked, std::max(kShortestPlace, width_ - 11)));
    }
    line("  " +
         wrap(fmt::format(
                  "{} was free in segments, {} of it usable for this request; the largest piece was {}.",
                  format_bytes({oom.free_in_segments}), format_bytes({oom.fitting_free}),
                  format_bytes({oom.largest_fitting})),
              width_ - 2, 2));
    line("  Places that held the memory:");
    for (std::size_t i = 0; i < std::min(oom.holders.size(), kRowsOfATable); ++i)
      place(fmt::format("  {:>9} in {:<12} ", format_bytes({oom.holders[i].bytes}),
                        counted(oom.holders[i].blocks, "block")),
            device, oom.holders[i].place);
    line("  How to free enough memory:");
    if (oom.ways.empty()) line("    not possible: this process held too little memory");
    for (const snapshot::RoomMaker& way : oom.ways) {
      line("  " + wrap("· " + words_for_room(oom, way, snapshot_.settings), width_ - 2, 4));
      if (way.by == snapshot::RoomBy::defragmenting) continue;
      for (const snapshot::PlaceShare& share : way.places)
        place(fmt::format("      {:>9}  ", format_bytes({share.bytes})), device, share.place);
    }
  }

  void leaks(const snapshot::DeviceAnalysis& device) {
    if (device.entries == 0) return;
    const snapshot::SnapshotLeaks& leaks = device.leaks;
    heading("Leaks");
    const bool is_leak = leaks.growth == monitoring::Growth::leak;
    sentence(is_leak                                         ? "✗"
             : leaks.growth == monitoring::Growth::grew_late ? "!"
             : leaks.growth == monitoring::Growth::unknown   ? "·"
                                                             : "✓",
             is_leak ? kRed
             : leaks.growth == monitoring::Growth::grew_late || leaks.growth == monitoring::Growth::unknown
                 ? kYellow
                 : kGreen,
             words_for_leaks(leaks, duration_of_trace(device)));
    if (leaks.growth < monitoring::Growth::grew_late) return;
    std::vector<snapshot::AllocationPlace> guilty;
    std::size_t shown = 0;
    for (const snapshot::PlaceGrowth& growth : leaks.places) {
      if (growth.growth != leaks.growth) continue;
      guilty.push_back(device.places[growth.place]);
      if (shown == kRowsOfATable) continue;
      ++shown;
      place(
          fmt::format("  +{:>9}, {} of {} blocks live  ", format_bytes({growth.late_bytes}),
                      grouped(growth.live_blocks), grouped(std::max(growth.allocations, growth.live_blocks))),
          device, growth.place);
    }
    and_more(guilty.size(), shown);
    if (const std::string common = common_frame(snapshot_, guilty); !common.empty())
      line(fit_to_width(fmt::format("  all called from {}", common), width_));
  }

  void fragmentation(const snapshot::DeviceAnalysis& device) {
    const snapshot::SnapshotMoment& worst = device.moments[device.worst];
    if (worst.free_bytes == 0) return;
    heading("Fragmentation");
    if (device.entries > 0) {
      const snapshot::SnapshotMoment& peak = device.moments[device.peak];
      sentence(" ", "",
               fmt::format("At the peak, {} of {} reserved was free in {} ({}), the largest {}.",
                           format_bytes({peak.free_bytes}), format_bytes({peak.totals.reserved}),
                           counted(peak.holes, "piece"), words_for_share(peak.external()),
                           format_bytes({peak.largest_free_bytes})));
    }
    if (device.entries == 0 || device.worst != device.peak)
      sentence(" ", "",
               fmt::format("Most was free {}: {} of {} in {}, the largest {}.",
                           device.entries == 0 ? "at the end"
                                               : words_for_moment(device, worst.position, worst.time_us),
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
    line(what + one_line_place(snapshot_, where, std::max(kShortestPlace, width_ - display_width(what))));
  }

  // A row a segment, the largest first: # live throughout, + in part, . free.
  void segments(const snapshot::DeviceAnalysis& device) {
    const auto all = snapshot_.segments_of(device.device);
    if (all.empty()) return;
    heading("Segments at the end: # live, + partly live, . free");
    std::vector<const snapshot::Segment*> order;
    for (const snapshot::Segment& segment : all) order.push_back(&segment);
    std::ranges::stable_sort(order, [](const auto* a, const auto* b) { return a->size > b->size; });
    const std::size_t shown = std::min(order.size(), kSegmentsShown);
    for (std::size_t i = 0; i < shown; ++i) {
      const snapshot::Segment& segment = *order[i];
      std::int64_t live = 0;
      for (const snapshot::Block& block : snapshot_.blocks_of(segment))
        live += block.is_live() ? block.size : 0;
      line(fit_to_width(
          fmt::format("  {:>9} [{}] {} live{}{}", format_bytes({segment.size}), cells_of(segment),
                      format_bytes({live}), segment.is_large ? "" : ", small blocks",
                      segment.stream == 0 ? "" : fmt::format(", stream {}", segment.stream)),
          width_));
    }
    and_more(order.size(), shown);
  }

  std::string cells_of(const snapshot::Segment& segment) const {
    std::string cells;
    const auto blocks = snapshot_.blocks_of(segment);
    std::size_t at = 0;
    for (int cell = 0; cell < kCells; ++cell) {
      // In doubles: a segment of 64 TiB times 40 does not fit twice over.
      const double size = static_cast<double>(segment.size) / kCells;
      const double from = size * cell, to = size * (cell + 1);
      double live = 0;
      const auto begin = [&](std::size_t i) {
        return static_cast<double>(blocks[i].address - segment.address);
      };
      while (at < blocks.size() && begin(at) + static_cast<double>(blocks[at].size) <= from) ++at;
      for (std::size_t i = at; i < blocks.size() && begin(i) < to; ++i)
        if (blocks[i].is_live())
          live += std::min(to, begin(i) + static_cast<double>(blocks[i].size)) - std::max(from, begin(i));
      constexpr double kAlmost = 0.999;
      cells += live <= 0 ? '.' : live >= kAlmost * size ? '#' : '+';
    }
    return cells;
  }

  void problems() {
    if (snapshot_.problems.empty()) return;
    heading("Missing data");
    for (const std::string& problem : snapshot_.problems) sentence("!", kYellow, problem);
  }

  void next() {
    heading("Next");
    line(fmt::format("  headroom report {} --html snapshot.html", shell_word(report_.file)));
    line(fmt::format("  headroom report {} --json", shell_word(report_.file)));
  }

  const SnapshotReport& report_;
  const snapshot::Snapshot& snapshot_;
  bool color_;
  int width_;
  std::string text_;
};

}  // namespace

std::string snapshot_to_terminal(const SnapshotReport& report, bool color, int width) {
  return Screen(report, color, width).draw();
}

}  // namespace headroom::report
