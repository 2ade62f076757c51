// `headroom report FILE.hrec --json`: every figure of the analysis in base units, with the unit in the key.
// docs/trace-report.md names the keys.
#include <algorithm>

#include "attribution/peak_shares.h"
#include "report/recording/recording_parts.h"
#include "report/recording/recording_views.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"
#include "report/words.h"
#include "types/enum_names.h"

namespace headroom::report {
namespace {

using namespace attribution;

// Of each way to rank them (peak, end, allocated, calls), so many stacks are listed.
constexpr std::size_t kStacksOfARanking = 50;

std::string_view name_of(recording::ScopeSource source) {
  return name_in({"program", "nvtx", "session", "run", "node", "load", "module", "phase", "weights"}, source);
}

void set_entries(Json& object, const LayerFigures& layer) {
  object["duration_ms"] = layer.duration.milliseconds();
  object["entries"] = layer.entries;
}

void set_heap(Json& object, const LayerFigures& layer, bool is_outside) {
  object["peak_allocated_bytes"] = layer.peak_allocated;
  object["peak_reserved_bytes"] = layer.peak_reserved;
  if (layer.counts_known) {
    object["total_allocations"] = layer.allocations;
    object["total_deallocations"] = layer.releases;
    object["total_allocated_bytes"] = layer.allocated_bytes;
  }
  object["avg_fragmentation"] = layer.average_fragmentation;
  if (!is_outside) set_entries(object, layer);
  object["process_peak_bytes"] = layer.process_peak;
  set(object, layer.live);
  if (layer.tracing_peak_bytes > 0) object["tracing_at_peak_bytes"] = layer.tracing_peak_bytes;
  object["self_at_peak_bytes"] = layer.self.peak_bytes;
  object["self_at_end_bytes"] = layer.self.end_bytes;
  set_if(object, "self_at_peak_bytes_standard_error", layer.self.peak_standard_error());
  set_if(object, "self_at_end_bytes_standard_error", layer.self.end_standard_error());
}

Json modules_json(const RecordingReport& report) {
  const auto modules = module_figures(report.info, report.stacks, report.analysis);
  return json_list(modules, [](const ModuleFigures& module) {
    Json object;
    set_if(object, "module", module.name);
    set(object, module.live);
    return object;
  });
}

Json threads_json(const RecordingReport& report) {
  Json threads = Json::array();
  if (!report.analysis.host_recorded)
    for (std::uint32_t i = 0; i < report.info.threads.size(); ++i)
      threads.push_back(thread_json(report.info, ThreadIndex{i}));
  for (const ThreadFigures& thread : report.analysis.threads) {
    if (!report.analysis.host_recorded || (thread.allocations == 0 && thread.releases == 0)) continue;
    Json object = thread_json(report.info, thread.thread);
    object["allocations"] = thread.allocations;
    object["deallocations"] = thread.releases;
    object["allocated_bytes"] = thread.allocated_bytes;
    set(object, thread.live);
    threads.push_back(std::move(object));
  }
  return threads;
}

Json layers_json(const RecordingAnalysis& analysis) {
  Json layers = Json::array();
  for (std::size_t i = 0; i < analysis.layers.size(); ++i) {
    const LayerFigures& layer = analysis.layers[i];
    if (i > 0 && layer.entries == 0 && layer.allocations == 0) continue;  // named, never used
    if (i == 0 && !analysis.host_recorded) continue;                      // of no layer there is no time
    Json object;
    object["layer_name"] = layer.path;
    if (layer.parent) object["parent"] = analysis.layers[*layer.parent].path;
    if (i > 0) object["source"] = name_of(layer.source);
    if (analysis.host_recorded)
      set_heap(object, layer, i == 0);
    else
      set_entries(object, layer);
    layers.push_back(std::move(object));
  }
  return layers;
}

Json peak_shares_json(const RecordingReport& report) {
  return json_list(peak_shares(report.info, report.stacks, report.analysis), [](const PeakShare& share) {
    Json object = {{"bytes", share.bytes}};
    set_if(object, "bytes_standard_error", share.standard_error());
    if (share.kind == ShareKind::layer) object["layer"] = share.name;
    if (share.kind == ShareKind::module) object["module"] = share.name;
    if (share.kind == ShareKind::tracing) object["tracing"] = true;
    return object;
  });
}

Json peak_uses_json(const RecordingAnalysis& analysis) {
  return json_list(peak_uses(analysis), [](const PeakPart& use) {
    Json object = {{"use", use.name}, {"bytes", use.bytes}};
    set_if(object, "bytes_standard_error", use.standard_error());
    return object;
  });
}

// Indices of the stacks that lead in any ranking, by their bytes at the peak.
std::vector<std::size_t> leading_stacks(const std::vector<StackFigures>& stacks) {
  std::vector<std::size_t> chosen = ranked_by_any(
      stacks, kStacksOfARanking, [](const StackFigures& stack) { return stack.live.peak_bytes; },
      [](const StackFigures& stack) { return stack.live.end_bytes; },
      [](const StackFigures& stack) { return stack.allocated_bytes; },
      [](const StackFigures& stack) { return stack.allocations; },
      [](const StackFigures& stack) { return stack.temporary; });
  std::ranges::stable_sort(chosen, [&](std::size_t a, std::size_t b) {
    return stacks[a].live.peak_bytes > stacks[b].live.peak_bytes;
  });
  return chosen;
}

Json stacks_json(const RecordingReport& report) {
  return json_list(leading_stacks(report.analysis.stacks), [&](std::size_t i) {
    const StackFigures& stack = report.analysis.stacks[i];
    Json object = {{"frames", frames_of(report, stack.stack)},
                   {"allocations", stack.allocations},
                   {"allocated_bytes", stack.allocated_bytes}};
    if (report.analysis.temporary) object["temporary_allocations"] = stack.temporary;
    set(object, stack.live);
    object["most_blocks"] = stack.most_blocks;
    object["most_bytes"] = stack.most_bytes;
    set_if(object, "block_bytes", stack.block_bytes);
    object["estimated"] = stack.sampled;
    return object;
  });
}

// All but the last, which is the sum of the other layers.
Json named_layers(const std::vector<std::int64_t>& layers) {
  return std::vector(layers.begin(), layers.end() - 1);
}

// What the layers held while nothing happened, of the points that such a time follows.
Json quiet_json(const std::vector<TimelinePoint>& points) {
  Json columns = {
      {"after", Json::array()}, {"layers_bytes", Json::array()}, {"other_layers_bytes", Json::array()}};
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::vector<std::int64_t>& layers = points[i].quiet_layers;
    if (layers.empty()) continue;
    columns["after"].push_back(i);
    columns["layers_bytes"].push_back(named_layers(layers));
    columns["other_layers_bytes"].push_back(layers.back());
  }
  return columns;
}

// Columns, since there are thousands of points.
Json timeline_json(const RecordingAnalysis& analysis) {
  const MemoryTimeline& timeline = analysis.timeline;
  const auto column = [&](auto figure) { return json_list(timeline.points, figure); };
  using Point = TimelinePoint;
  return {{"width_ns", timeline.width.count},
          {"layers", json_list(timeline.layers, [&](std::size_t i) { return analysis.layers[i].path; })},
          {"start_ns", column([](const Point& point) { return point.start.count; })},
          {"lowest_bytes", column([](const Point& point) { return point.lowest; })},
          {"highest_bytes", column([](const Point& point) { return point.highest; })},
          {"last_bytes", column([](const Point& point) { return point.last; })},
          {"mapped_bytes", column([](const Point& point) { return point.mapped; })},
          {"layers_bytes", column([](const Point& point) { return named_layers(point.layers); })},
          {"other_layers_bytes", column([](const Point& point) { return point.layers.back(); })},
          {"quiet", quiet_json(timeline.points)}};
}

Json leaks_json(const RecordingReport& report, const LeakVerdict& leaks) {
  Json object;
  object["verdict"] = name_of(leaks.growth);
  if (leaks.cycles_left_out > 0) object["cycles_left_out"] = leaks.cycles_left_out;
  if (leaks.growth == monitoring::Growth::unknown) return object;
  object["cycle"] = leaks.cycle;
  object["cycles"] = leaks.cycles;
  object["warm_up_cycles"] = leaks.warm_up_cycles;
  object["bytes_per_cycle"] = leaks.bytes_per_cycle;
  object["late_bytes"] = leaks.late_bytes;
  if (leaks.last_step > 0) object["last_step_cycle"] = leaks.last_step;
  if (leaks.growth >= monitoring::Growth::grew_then_released) object["released_bytes"] = leaks.released_bytes;
  if (leaks.released_at) object["released_seconds"] = leaks.released_at->seconds();
  if (leaks.is_cut_off) object["cut_off"] = true;
  if (leaks.smallest_visible > 0) object["smallest_visible_bytes_per_cycle"] = leaks.smallest_visible;
  object["at_cycles"] = leaks.at_cycles;
  object["live_bytes"] = leaks.live_bytes;
  object["stacks"] =
      json_list(first_of(leaks.stacks, kStacksOfARanking), [&](const StackGrowth& growth) -> Json {
        return {{"verdict", name_of(growth.growth)},        {"bytes_per_cycle", growth.bytes_per_cycle},
                {"first_bytes", growth.first_bytes},        {"last_bytes", growth.last_bytes},
                {"late_bytes", growth.late_bytes},          {"end_bytes", growth.end_bytes},
                {"frames", frames_of(report, growth.stack)}};
      });
  if (leaks.same_places) object["same_places"] = true;
  for (const LeakVerdict& other : leaks.other_cycles)
    object["other_cycles"].push_back(leaks_json(report, other));
  return object;
}

Json blocker_json(const RecordingReport& report, const Blocker& blocker) {
  return {{"address", blocker.address},
          {"size_bytes", blocker.bytes},
          {"blocks", blocker.blocks},
          {"span_bytes", blocker.span_bytes},
          {"allocated_at_ns", blocker.allocated_at.count},
          {"age_ns", blocker.age.count},
          {"freed_if_gone_bytes", blocker.freed_if_gone},
          {"places", json_list(blocker.places(), [&](const BlockerPlace& place) -> Json {
             return {{"bytes", place.bytes},
                     {"blocks", place.blocks},
                     {"layer_name", report.analysis.layers[place.layer].path},
                     {"frames", frames_of(report, place.stack)}};
           })}};
}

Json fragmentation_json(const RecordingReport& report) {
  const HeapFragmentation& fragmentation = *report.analysis.fragmentation;
  const auto moment_json = [&](const FragmentationMoment& moment) {
    Json object = {{"time_ns", moment.time.count},        {"live_bytes", moment.live_bytes},
                   {"chunk_bytes", moment.chunk_bytes},   {"extent_bytes", moment.extent_bytes},
                   {"free_bytes", moment.free_bytes},     {"largest_free_bytes", moment.largest_free_bytes},
                   {"extents", moment.extents},           {"holes", moment.holes},
                   {"internal_ratio", moment.internal()}, {"external_ratio", moment.external()}};
    if (moment.blocker) object["blocker"] = blocker_json(report, *moment.blocker);
    return object;
  };
  return {{"worst", fragmentation.worst},
          {"largest", fragmentation.largest},
          {"moments", json_list(fragmentation.moments, moment_json)}};
}

Json reuse_json(const RecordingReport& report) {
  return json_list(report.analysis.reuse, [&](const ReuseCandidate& candidate) {
    Json object = {{"calls_saved", candidate.calls_saved},
                   {"calls_saved_per_second", candidate.calls_saved_per_second}};
    set_if(object, "most_blocks", candidate.most_blocks);
    set_if(object, "pool_bytes", candidate.pool_bytes);
    object["not_churned_bytes"] = candidate.bytes_not_churned;
    object["frames"] = frames_of(report, candidate.stack);
    return object;
  });
}

// `of_tree`: of the sums, where a peak is the sum of peaks.
void set_figures(Json& object, const ProcessFigures& process, bool of_tree) {
  object["events"] = process.events;
  if (process.host_recorded) {
    object["allocations"] = process.allocations;
    object["deallocations"] = process.deallocations;
    object["total_allocated_bytes"] = process.total_allocated_bytes;
    object[of_tree ? "sum_of_peaks_bytes" : "peak_bytes"] = process.peak_bytes;
    object["leaked_bytes"] = process.leaked_bytes;
  }
  set_if(object, of_tree ? "sum_of_device_peaks_bytes" : "device_peak_bytes", process.device_peak_bytes);
  object["dropped_events"] = process.dropped_events;
}

Json process_json(const ProcessFigures& process) {
  if (!process.problem.empty()) return {{"file", process.file}, {"problem", process.problem}};
  Json object = {{"file", process.file},
                 {"pid", process.pid},
                 {"exec_generation", process.exec_generation},
                 {"command", process.command},
                 {"complete", process.complete}};
  set_figures(object, process, false);
  return object;
}

Json tree_json(const RecordingReport& report) {
  const TreeFigures tree = tree_figures(report);
  Json object = {{"processes", tree.processes}};
  set_figures(object, tree.sums, true);
  object["complete"] = tree.sums.complete;
  return object;
}

void add_totals_of_heap(Json& json, const RecordingReport& report) {
  const RecordingAnalysis& analysis = report.analysis;
  json["allocations"] = analysis.allocations;
  json["deallocations"] = analysis.deallocations;
  json["total_allocated_bytes"] = analysis.total_allocated_bytes;
  set(json, "peak_bytes", analysis.peak_bytes);
  json["peak_time_seconds"] = analysis.peak_time.seconds();
  set(json, "peak_blocks", analysis.peak_blocks);
  set(json, "leaked_bytes", analysis.leaked_bytes);
  set(json, "leaked_blocks", analysis.leaked_blocks);
  if (analysis.temporary) json["temporary_allocations"] = *analysis.temporary;
  if (!analysis.full) {
    json["sampled_allocations"] = analysis.sampled_allocations;
    json["counted_allocations"] = analysis.counted_allocations;
    json["sample_period_bytes"] = report.info.sample_period_bytes;
    json["large_bytes"] = report.info.large_bytes;
  }
  json["unknown_releases"] = analysis.unknown_releases;
  json["missed_releases"] = analysis.missed_releases;
}

// What tells the heap's blocks apart but for layers, stacks and threads.
void add_use_of_heap(Json& json, const RecordingReport& report) {
  const RecordingAnalysis& analysis = report.analysis;
  json["size_classes"] = json_list(analysis.size_classes, [](const SizeClassFigures& size_class) {
    Json object = {{"smallest_bytes", size_class.smallest},
                   {"largest_bytes", size_class.largest},
                   {"allocations", size_class.allocations},
                   {"allocated_bytes", size_class.allocated_bytes}};
    set(object, size_class.live);
    return object;
  });
  json["lifetimes"] = json_list(analysis.lifetimes, [](const LifetimeClass& lifetime) -> Json {
    return {{"below_ns", lifetime.below.count}, {"blocks", lifetime.blocks}, {"bytes", lifetime.bytes}};
  });
  json["leaks"] = leaks_json(report, report.analysis.leaks);
  if (analysis.fragmentation) json["fragmentation"] = fragmentation_json(report);
  set_if(json, "fragmentation_absent", words_for_no_fragmentation(report.info));
  json["reuse"] = reuse_json(report);
  json["timeline"] = timeline_json(analysis);
}

}  // namespace

Json recording_to_json(const RecordingReport& report) {
  const RecordingAnalysis& analysis = report.analysis;
  Json json;
  json["schema_version"] = kRecordingReportSchemaVersion;
  json["file"] = report.file;
  json["command"] = report.info.command;
  set_if(json, "executable", report.info.executable);
  set_if(json, "folder", report.info.folder);
  json["pid"] = report.info.pid;
  json["parent_pid"] = report.info.parent_pid;
  json["exec_generation"] = report.info.exec_generation;
  json["started_realtime_ns"] = report.info.started_realtime_ns;
  json["duration_seconds"] = analysis.duration.seconds();
  json["host_recorded"] = analysis.host_recorded;
  json["full"] = analysis.full;
  json["complete"] = analysis.complete;
  json["ended_by_itself"] = report.info.closed;
  json["problems"] = problems_of(report.info, analysis);
  json["notes"] = report.info.notes;
  if (report.info.attached) {
    json["attached"] = {{"process_age_seconds", report.info.attached->process_age.seconds()},
                        {"resident_bytes", report.info.attached->resident_bytes}};
    json["notes"].push_back(words_for_memory_before(report.info, analysis));
  }

  json["events"] = analysis.events;
  if (analysis.host_recorded) add_totals_of_heap(json, report);
  json["gaps"] = analysis.gaps;
  json["dropped_events"] = analysis.dropped_events;
  json["overwritten_segments"] = report.info.segments_overwritten;
  if (analysis.host_recorded) {
    json["mapped"] = mapped_json(report);
    json["peak_shares"] = peak_shares_json(report);
    if (Json uses = peak_uses_json(analysis); !uses.empty()) json["peak_uses"] = std::move(uses);
  }
  json["layers"] = layers_json(analysis);
  if (Json sessions = sessions_json(report); !sessions.empty()) json["sessions"] = std::move(sessions);
  if (!analysis.devices.empty()) json["devices"] = devices_json(report);
  if (analysis.host_recorded) {
    json["stacks"] = stacks_json(report);
    json["modules"] = modules_json(report);
  }
  json["threads"] = threads_json(report);
  if (analysis.host_recorded) add_use_of_heap(json, report);
  if (!report.others.empty() || report.add_others)
    json["other_processes"] = json_list(report.others, process_json);
  if (report.add_others) json["tree"] = tree_json(report);
  return json;
}

}  // namespace headroom::report
