#include "doctor/snapshot_findings.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/snapshot_words.h"

namespace headroom::doctor {
namespace {

using analysis::DeviceAnalysis;
constexpr int kPlaceWidth = 160;

std::string place_words(const snapshot::Snapshot& snapshot, const DeviceAnalysis& device,
                        analysis::PlaceIndex place) {
  return report::one_line_place(snapshot, device.places[place], kPlaceWidth);
}

Cure cure_of(const analysis::OomAutopsy& oom, const analysis::RoomMaker& way,
             const snapshot::AllocatorSettings& settings) {
  Cure cure{report::words_for_room(oom, way, settings), "", Bytes{way.bytes}};
  if (way.by == analysis::RoomBy::defragmenting)
    cure.command = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
  return cure;
}

void add_ooms(const snapshot::Snapshot& snapshot, const DeviceAnalysis& device,
              std::vector<Finding>& findings) {
  if (device.ooms.empty()) return;
  const analysis::OomAutopsy& oom = device.ooms.front();
  Finding finding;
  finding.id = "pytorch-out-of-memory";
  finding.severity = Severity::severe;
  finding.times = device.oom_count;
  finding.title = fmt::format(
      "GPU {} ran out of memory: {} were asked for, {} were free on the device and {} in PyTorch's segments",
      device.device, format_bytes({oom.requested}), format_bytes({oom.device_free}),
      format_bytes({oom.free_in_segments}));
  const bool in_pieces = std::any_of(oom.ways.begin(), oom.ways.end(), [](const analysis::RoomMaker& way) {
    return way.by == analysis::RoomBy::defragmenting;
  });
  finding.cause = in_pieces ? "Fragmentation: the free pieces together were enough, and none was."
                  : oom.holders.empty()
                      ? "Nothing that is live explains it: other processes held the memory."
                      : fmt::format("What is live filled the memory; most of it is held by {}.",
                                    place_words(snapshot, device, oom.holders.front().place));
  finding.confidence = in_pieces ? Confidence::certain : Confidence::likely;
  constexpr std::size_t kHolders = 3;
  for (std::size_t i = 0; i < std::min(kHolders, oom.holders.size()); ++i)
    finding.evidence.push_back({"", 0,
                                fmt::format("{} held by {}", format_bytes({oom.holders[i].bytes}),
                                            place_words(snapshot, device, oom.holders[i].place))});
  finding.figures = {{"gpu", device.device},
                     {"requested_bytes", oom.requested},
                     {"free_bytes", oom.device_free},
                     {"allocated_bytes", oom.totals.allocated},
                     {"reserved_bytes", oom.totals.reserved},
                     {"largest_free_block_bytes", oom.largest_fitting}};
  for (const analysis::RoomMaker& way : oom.ways)
    finding.cures.push_back(cure_of(oom, way, snapshot.settings));
  findings.push_back(std::move(finding));
}

// A step of inference or training takes some milliseconds to seconds, and what a step keeps on purpose, as a
// forward pass its activations, grows for as long. Of less than a second, or less than 32 times at one place,
// growth is no leak yet. A trace without times is judged by the times alone that its places came by.
bool is_long_enough(const DeviceAnalysis& device) {
  constexpr std::int64_t kLeastUs = 1'000'000, kLeastTimes = 32;
  const std::int64_t span_us = device.last_time_us - device.first_time_us;
  if (span_us >= kLeastUs) return true;
  constexpr std::int64_t kLeastUsOfMany = 100'000;
  if (span_us > 0 && span_us < kLeastUsOfMany) return false;
  return std::any_of(device.leaks.places.begin(), device.leaks.places.end(),
                     [](const analysis::PlaceGrowth& place) {
                       return place.growth == analysis::Growth::leak && place.allocations >= kLeastTimes;
                     });
}

void call_it_short(const DeviceAnalysis& device, Finding& finding) {
  const std::int64_t span_us = device.last_time_us - device.first_time_us;
  finding.severity = Severity::warning;
  finding.confidence = Confidence::possible;
  finding.cause = fmt::format(
      "Within a trace {}, what one step keeps until its end looks like a leak: record more steps to tell.",
      span_us > 0 ? "of " + format_duration({span_us * 1000}) : "of so few allocations");
}

void add_leak(const snapshot::Snapshot& snapshot, const DeviceAnalysis& device,
              std::vector<Finding>& findings) {
  const analysis::SnapshotLeaks& leaks = device.leaks;
  const bool stays = leaks.growth == analysis::Growth::grew_then_stayed;
  if (leaks.growth != analysis::Growth::leak && !(stays && leaks.late_bytes > 0)) return;
  Finding finding;
  finding.id = stays ? "growth-levelled-off" : "leak";
  finding.severity = stays ? Severity::note : Severity::severe;
  finding.title = report::words_for_leaks(leaks);
  finding.cause =
      stays ? "Caches and pools that filled: no leak by this trace." : "What is allocated there is kept.";
  finding.confidence = Confidence::likely;
  if (!stays && !is_long_enough(device)) call_it_short(device, finding);
  finding.figures = {{"gpu", device.device}, {"grown_bytes", leaks.late_bytes}, {"windows", leaks.windows}};
  if (device.last_time_us > device.first_time_us)
    finding.figures.push_back(
        {"trace_seconds", static_cast<double>(device.last_time_us - device.first_time_us) / 1e6});
  for (const analysis::PlaceGrowth& place : leaks.places) {
    if (place.growth != leaks.growth) continue;
    const std::string words = place_words(snapshot, device, place.place);
    if (finding.evidence.empty()) finding.figures.push_back({"owner", words});
    finding.evidence.push_back(
        {"", 0, fmt::format("{} grew by {}", words, format_bytes({place.late_bytes}))});
    if (!stays && finding.cures.empty())
      finding.cures.push_back({"keep no tensor of an iteration: detach results before they are kept",
                               "results.append(output.detach().cpu())",
                               Bytes{std::max(place.late_bytes, leaks.late_bytes)}});
    constexpr std::size_t kMostPlaces = 3;
    if (finding.evidence.size() == kMostPlaces) break;
  }
  findings.push_back(std::move(finding));
}

// What free pieces cost.
enum class Cost {
  none,  // they are filled again
  idle,  // memory that others could use
  grew,  // more was reserved though no more was asked for, or an allocation failed for it
};

Cost cost_of(const DeviceAnalysis& device) {
  for (const analysis::OomAutopsy& oom : device.ooms)
    for (const analysis::RoomMaker& way : oom.ways)
      if (way.by == analysis::RoomBy::defragmenting) return Cost::grew;
  // The second half of the trace against the first: reserved more than allocations grew by.
  struct Half {
    std::int64_t reserved = 0, allocated = 0;
  } first, second;
  const auto& points = device.timeline.points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    Half& half = 2 * i < points.size() ? first : second;
    half.reserved = std::max(half.reserved, points[i].reserved);
    half.allocated = std::max(half.allocated, points[i].highest);
  }
  constexpr std::int64_t kMuchGrowth = 32 << 20;
  const std::int64_t asked = std::max<std::int64_t>(0, second.allocated - first.allocated);
  if (points.size() > 1 && second.reserved - first.reserved - asked >= kMuchGrowth) return Cost::grew;
  return 10 * device.peak_allocated_bytes >= 7 * device.peak_reserved_bytes && device.peak_reserved_bytes > 0
             ? Cost::none
             : Cost::idle;
}

void add_fragmentation(const snapshot::Snapshot& snapshot, const DeviceAnalysis& device,
                       std::vector<Finding>& findings) {
  if (device.moments.empty() || device.worst >= device.moments.size()) return;
  const analysis::SnapshotMoment& worst = device.moments[device.worst];
  constexpr double kMuch = 0.3;
  constexpr std::int64_t kWorthTelling = 64 << 20;
  if (worst.external() < kMuch || worst.free_bytes < kWorthTelling) return;
  if (worst.largest_free_bytes > worst.free_bytes / 2) return;  // whatever is asked for finds room in it
  const Cost cost = cost_of(device);
  if (cost == Cost::none) return;
  Finding finding;
  finding.id = "fragmentation";
  finding.severity = cost == Cost::grew ? Severity::warning : Severity::note;
  finding.title = fmt::format("GPU {}: of {} that PyTorch had reserved {} lay free, the largest piece {}",
                              device.device, format_bytes({worst.totals.reserved}),
                              format_bytes({worst.free_bytes}), format_bytes({worst.largest_free_bytes}));
  finding.cause = cost == Cost::grew
                      ? "Segments stay reserved as long as one block in them lives, and new ones were needed."
                      : "Segments stay reserved as long as one block in them lives. It cost nothing in this "
                        "trace, but nobody else can use that memory.";
  finding.figures = {{"gpu", device.device},
                     {"reserved_bytes", worst.totals.reserved},
                     {"allocated_bytes", worst.totals.allocated},
                     {"free_bytes", worst.free_bytes},
                     {"largest_free_block_bytes", worst.largest_free_bytes}};
  if (worst.blocker) {
    const auto& block = worst.blocker->block;
    const std::string words = report::one_line_place(
        snapshot, {block.stack, block.stack.index == 0 ? std::optional(block.requested) : std::nullopt},
        kPlaceWidth);
    finding.evidence.push_back(
        {"", 0, fmt::format("in the way: {} of {}", format_bytes({block.size}), words)});
    finding.figures.push_back({"blocker", words});
  }
  finding.cures = {
      {"let PyTorch grow its segments (2.1 and later, not on a Jetson; else max_split_size_mb:128)",
       "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", Bytes{worst.free_bytes}},
      {"give back what lies free between two models", "torch.cuda.empty_cache()", {}}};
  findings.push_back(std::move(finding));
}

}  // namespace

std::vector<Finding> snapshot_findings(const snapshot::Snapshot& snapshot,
                                       const std::vector<DeviceAnalysis>& devices, const std::string& file) {
  std::vector<Finding> findings;
  for (const DeviceAnalysis& device : devices) {
    add_ooms(snapshot, device, findings);
    add_leak(snapshot, device, findings);
    add_fragmentation(snapshot, device, findings);
  }
  for (Finding& finding : findings) {
    if (finding.evidence.empty()) finding.evidence.push_back({});
    for (Evidence& evidence : finding.evidence) evidence.file = file;
  }
  return findings;
}

}  // namespace headroom::doctor
