// `headroom report FILE.hrec` on the terminal: the most important figures on one screen.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "attribution/peak_shares.h"
#include "base/text.h"
#include "base/utf8.h"
#include "report/recording/recording_parts.h"
#include "report/recording/recording_views.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"
#include "report/text_layout.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using namespace attribution;

constexpr std::size_t kRowsOfATable = 5, kRowsOfAHint = 3;

// "--gpu-mem-limit 0=4GiB,1=8GiB "; empty without a limit.
std::string flag_of_device_limits(const recording::RecordingInfo& info) {
  std::string limits;
  for (const recording::Device& device : info.devices)
    if (device.limit_bytes)
      limits += fmt::format("{}{}={}", limits.empty() ? "" : ",", device.ordinal,
                            exact_size({static_cast<std::int64_t>(*device.limit_bytes)}));
  return limits.empty() ? "" : fmt::format("--gpu-mem-limit {} ", limits);
}

class RecordingSummary {
 public:
  RecordingSummary(const RecordingReport& report, bool color, int width)
      : report_(report),
        analysis_(report.analysis),
        sessions_(session_memory(report.info, report.analysis)),
        has_arena_(has_arena(report.info, report.analysis)),
        screen_(color, width) {}

  std::string draw() {
    what_ran();
    if (analysis_.host_recorded) {
      figures();
      layers();
      modules();
      sessions();
      stacks();
      add_mapped(screen_, report_);
    }
    devices();
    if (analysis_.host_recorded) {
      leaks();
      churn();
      fragmentation();
    }
    processes();
    screen_.missing_data(missing_parts(report_.info, analysis_));
    next();
    return std::move(screen_).text();
  }

 private:
  void what_ran() {
    screen_.title(one_line_command(report_.info));
    std::string end = report_.info.closed ? "exited" : "killed or still running";
    screen_.wrapped(fmt::format("pid {}, {}, {}, {} events, {}", report_.info.pid,
                                format_duration(analysis_.duration), what_was_recorded(),
                                grouped(analysis_.events), end));
    if (analysis_.host_recorded) screen_.line("");
  }
  std::string_view what_was_recorded() const {
    if (!analysis_.host_recorded) return kGpuMemoryOnly;
    return analysis_.full ? "every allocation recorded" : "large allocations and samples";
  }

  void figures() {
    screen_.figure("Peak", fmt::format("{} at {} in {}{}", words_for(analysis_.peak_bytes),
                                       format_duration(analysis_.peak_time),
                                       words_for_count(analysis_.peak_blocks, "block"),
                                       words_for_older_blocks(analysis_.peak_bytes)));
    screen_.figure(
        "Allocated",
        fmt::format("{} in {} allocations; {} released", format_bytes({analysis_.total_allocated_bytes}),
                    grouped(analysis_.allocations), grouped(analysis_.deallocations)));
    screen_.figure("At the end", fmt::format("{} in {} still live{}", words_for(analysis_.leaked_bytes),
                                             words_for_count(analysis_.leaked_blocks, "block"),
                                             words_for_older_blocks(analysis_.leaked_bytes)));
    if (const std::string why = words_for_end_above_peak(analysis_); !why.empty()) screen_.figure("", why);
    if (const std::string before = words_for_memory_before(report_.info, analysis_); !before.empty())
      screen_.figure("Before", before);
    if (analysis_.temporary)
      screen_.figure(
          "Temporary",
          fmt::format(
              "{} allocations ({}) released by the next call of their thread", grouped(*analysis_.temporary),
              words_for_share(analysis_.allocations > 0 ? static_cast<double>(*analysis_.temporary) /
                                                              static_cast<double>(analysis_.allocations)
                                                        : 0)));
    if (analysis_.mapped.maps > 0)
      screen_.figure(
          "Mapped",
          fmt::format(
              "at most {} by the program's own mmap calls, not part of the heap; {} at the heap's peak",
              format_bytes({analysis_.mapped.peak_bytes}),
              format_bytes({analysis_.mapped.bytes_at_heap_peak})));
  }

  // A line of a table: figures, and the place, which gets the rest of the line.
  void place(const std::string& figures, StackId stack) {
    screen_.row(figures, [&](int room) { return one_line_stack(report_, stack, room); });
  }
  std::string share_of_peak(std::int64_t bytes, std::optional<double> standard_error = {}) const {
    return share_figures(bytes, analysis_.peak_bytes.value, error_column(standard_error));
  }
  // A column that only recordings of samples have.
  std::string error_column(std::optional<double> standard_error) const {
    return analysis_.peak_bytes.standard_error ? report::error_column(standard_error) : "";
  }
  void layers() {
    if (analysis_.layers.size() < 2) return;
    const std::vector<PeakShare> shares = peak_shares(report_.info, report_.stacks, analysis_);
    if (shares.empty()) return;
    screen_.heading("Layers that hold the peak");
    const auto shown = first_of(shares, kRowsOfATable);
    if (std::ranges::any_of(shown, [&](const PeakShare& share) { return is_node_with_arena(share); }))
      screen_.indented(
          "A node's row shows how much the arena grew while the node ran; its tensors are listed below.");
    for (const PeakShare& share : shown) {
      const std::string figures = share_of_peak(share.bytes, share.standard_error());
      const std::string name = words_for_share_name(share);
      const auto [own_peak, entered] = words_for_own_figures(share);
      const std::string own = own_peak + entered;
      const int room = screen_.room_after(figures);
      // Which layer it is, is what the row tells: before its name is cut, what it needs by itself goes to a
      // line of its own, and how often it was entered goes.
      const bool fits = display_width(name) + 2 + display_width(own) <= room;
      screen_.line(figures + fit_path_to_width(name, room) + (fits && !own.empty() ? "  " + own : ""));
      if (!fits && !own_peak.empty())
        screen_.line(std::string(static_cast<std::size_t>(display_width(figures)), ' ') + own);
    }
    screen_.and_more(shares.size(), kRowsOfATable);
    uses();
  }

  // "By use: weights 44.6 MiB, activations 1.8 MiB, other 12.0 MiB".
  void uses() {
    std::string words;
    for (const PeakPart& use : peak_uses(analysis_))
      words += fmt::format("{} {} {}", words.empty() ? "By use:" : ",",
                           use.name == "optimizer_state" ? "optimizer state" : use.name,
                           format_bytes({use.bytes}));
    if (!words.empty()) screen_.indented(words);
  }

  static std::string words_for_share_name(const PeakShare& share) {
    if (share.kind == ShareKind::layer) return share.name;
    if (share.kind == ShareKind::tracing) return "(runtime profilers, which tracing turns on)";
    if (share.kind == ShareKind::unnamed) return "(outside of any layer)";
    return fmt::format("{} (outside of any layer)", share.name);
  }

  // By the module whose code requested the memory.
  void modules() {
    const std::vector<ModuleFigures> modules = module_figures(report_.info, report_.stacks, analysis_);
    if (modules.size() < 2) return;  // one module says nothing
    screen_.heading("Modules that hold the peak");
    for (const ModuleFigures& module : first_of(modules, kRowsOfATable)) {
      const LiveFigures& live = module.live;
      const std::string at_end = fmt::format("  {} at the end", format_bytes({live.end_bytes}));
      constexpr int kShortestPlaceName = 10;
      screen_.row(share_of_peak(live.peak_bytes, live.peak_standard_error()), [&](int room) {
        return fit_to_width(module.name.empty() ? "(unknown)" : module.name,
                            std::max(kShortestPlaceName, room - display_width(at_end))) +
               at_end;
      });
    }
    screen_.and_more(modules.size(), kRowsOfATable);
  }

  // True for a node of a graph whose tensors have a separate table.
  bool is_node_with_arena(const PeakShare& share) const {
    if (share.kind != ShareKind::layer || !has_arena_) return false;
    return std::ranges::any_of(analysis_.layers, [&](const LayerFigures& layer) {
      return layer.source == recording::ScopeSource::node && layer.path == share.name;
    });
  }

  // The layer's own peak, if it is more than its share of the peak: "own peak 8.8 MiB, "; and the number of
  // entries. Both are empty if the share is not a layer.
  std::pair<std::string, std::string> words_for_own_figures(const PeakShare& share) const {
    if (share.kind != ShareKind::layer) return {};
    for (const LayerFigures& layer : analysis_.layers) {
      if (layer.path != share.name) continue;
      if (layer.source == recording::ScopeSource::weights) return {};  // nobody enters them
      const std::string own_peak = format_bytes({layer.peak_allocated});
      return {own_peak == format_bytes({share.bytes}) ? "" : fmt::format("own peak {}, ", own_peak),
              fmt::format("entered {}×", grouped(layer.entries))};
    }
    return {};
  }

  // The memory of each model, by kind.
  void sessions() {
    for (const SessionMemory& session : sessions_) {
      const std::string which =
          session.loads > 1 ? fmt::format(" (load {} of {})", session.load, session.loads) : "";
      screen_.heading(fmt::format("Memory of {} at the peak{}", session.name, which));
      for (const MemoryShare& share : shares_of(session)) kind(share, session.peak_node);
      if (session.tracing > Bytes{}) kind({MemoryKind::tracing, "", session.tracing}, "");
      add_nodes(screen_, session, analysis_);
    }
  }

  void kind(const MemoryShare& share, const std::string& peak_node) {
    const std::string figures = share_of_peak(share.bytes.count);
    const int indent = display_width(figures);
    screen_.line(figures + wrap(report::words_for(share, peak_node), screen_.width() - indent, indent));
  }

  void stacks() {
    const auto at_peak = [](const StackFigures& stack) { return stack.live.peak_bytes; };
    const auto order = ranked(analysis_.stacks, at_peak, kRowsOfATable);
    if (order.empty()) return;
    screen_.heading("Places that hold the peak");
    for (const std::size_t i : order)
      place(
          share_of_peak(analysis_.stacks[i].live.peak_bytes, analysis_.stacks[i].live.peak_standard_error()),
          analysis_.stacks[i].stack);
    const auto holding = std::ranges::count_if(analysis_.stacks,
                                               [&](const StackFigures& stack) { return at_peak(stack) > 0; });
    screen_.and_more(static_cast<std::size_t>(holding), order.size());
  }

  void devices() {
    if (!analysis_.host_recorded && analysis_.devices.empty())
      screen_.line("\nThe program requested no GPU memory.");
    add_devices(screen_, report_);
  }

  void leaks() {
    const LeakVerdict& leaks = analysis_.leaks;
    screen_.heading("Leaks");
    leak_verdict(leaks);
    for (const LeakVerdict& other : first_of(leaks.other_cycles, kRowsOfATable)) leak_verdict(other);
    screen_.and_more(leaks.other_cycles.size(), kRowsOfATable);
    if (leaks.growth == monitoring::Growth::unknown) return still_live();
    if (leaks.cycles_left_out > 0) screen_.sentence("·", kYellow, words_for_cycles_left_out(leaks));
  }

  void leak_verdict(const LeakVerdict& leaks) {
    const bool is_blind = leaks.growth == monitoring::Growth::none && leaks.smallest_visible > 0;
    const bool is_unknown = leaks.growth == monitoring::Growth::unknown;
    const std::string words = words_for_leaks(leaks);
    if (leaks.growth == monitoring::Growth::leak)
      screen_.sentence("✗", kRed, words);
    else if (leaks.growth >= monitoring::Growth::grew_then_released)
      screen_.sentence("!", kYellow, words);
    else if (is_unknown || is_blind)
      screen_.sentence("·", kYellow, words + (is_unknown && !live_at_end().empty() ? " Not judged:" : ""));
    else
      screen_.sentence("✓", kGreen, words);
    if (leaks.same_places) return;
    std::size_t shown = 0;
    for (const StackGrowth& stack : leaks.stacks) {
      if (!leaks.tells(stack)) continue;
      if (shown++ == kRowsOfATable) break;
      place(words_for_growth(stack, leaks.growth), stack.stack);
    }
  }

  static std::string words_for_growth(const StackGrowth& stack, monitoring::Growth verdict) {
    if (stack.bytes_per_cycle > 0)
      return fmt::format("  {:>9} a cycle  ", words_for_slow_growth(stack.bytes_per_cycle));
    if (verdict >= monitoring::Growth::grew_then_released)
      return fmt::format("  {:>9} late     ", format_bytes({stack.late_bytes}));
    return fmt::format("  {:>9} in total ", format_bytes({stack.last_bytes - stack.first_bytes}));
  }

  // The places with most bytes live at the end.
  std::vector<std::size_t> live_at_end() const {
    return ranked(
        analysis_.stacks, [](const StackFigures& stack) { return stack.live.end_bytes; }, kRowsOfAHint);
  }

  void still_live() {
    for (const std::size_t i : live_at_end())
      place(fmt::format("  {:>9}{} live  ", format_bytes({analysis_.stacks[i].live.end_bytes}),
                        error_column(analysis_.stacks[i].live.end_standard_error())),
            analysis_.stacks[i].stack);
  }

  void churn() {
    if (analysis_.reuse.empty()) return;
    screen_.heading("Allocated repeatedly: a pool would avoid these calls; sizes are totals");
    for (const ReuseCandidate& candidate : first_of(analysis_.reuse, kRowsOfAHint)) {
      const std::string pool =
          candidate.pool_bytes ? fmt::format(", pool of {}", format_bytes({*candidate.pool_bytes})) : "";
      place(fmt::format("  {:>9} calls, {}{}  ", grouped(candidate.calls_saved),
                        format_bytes({candidate.bytes_not_churned}), pool),
            candidate.stack);
    }
  }

  void fragmentation() {
    if (const std::string why = words_for_no_fragmentation(report_.info); !why.empty()) {
      screen_.heading("Fragmentation");
      screen_.sentence("·", kYellow, why + ".");
    }
    if (!analysis_.fragmentation || analysis_.fragmentation->moments.empty()) return;
    const HeapFragmentation& fragmentation = *analysis_.fragmentation;
    const FragmentationMoment& moment = fragmentation.moments[fragmentation.largest];
    const FragmentationMoment& worst = fragmentation.moments[fragmentation.worst];
    if (moment.extent_bytes == 0) return;
    screen_.heading("Fragmentation");
    screen_.note(fmt::format(
        "When the heap was largest ({}), {} of its {} were holes ({}), the largest {}; rounding and headers "
        "took {}.",
        format_duration(moment.time), format_bytes({moment.free_bytes}), format_bytes({moment.extent_bytes}),
        words_for_share(moment.external()), format_bytes({moment.largest_free_bytes}),
        words_for_share(moment.internal())));
    if (worst.free_bytes > moment.free_bytes)
      screen_.note(fmt::format("Holes took the most memory at {}: {} of {} ({}), the largest {}.",
                               format_duration(worst.time), format_bytes({worst.free_bytes}),
                               format_bytes({worst.extent_bytes}), words_for_share(worst.external()),
                               format_bytes({worst.largest_free_bytes})));
    if (!worst.blocker) return;
    const Blocker& blocker = *worst.blocker;
    screen_.note(fmt::format(
        "The largest hole would be {} without {} in {} at its end:", format_bytes({blocker.freed_if_gone}),
        format_bytes({blocker.bytes}), counted(blocker.blocks, "block")));
    const auto places = blocker.places();
    for (const BlockerPlace& part : places.first(std::min(places.size(), kRowsOfAHint)))
      place(fmt::format("  {:>9} in {}  ", format_bytes({part.bytes}), counted(part.blocks, "block")),
            part.stack);
  }

  void processes() {
    if (report_.others.empty()) return;
    screen_.heading(fmt::format("Other processes of the tree ({})", report_.others.size()));
    for (const ProcessFigures& process : first_of(report_.others, kRowsOfATable)) {
      const bool known = process.problem.empty();
      const std::string figures = known ? fmt::format("  {:>9} pid {:<7} ", peak_of(process), process.pid)
                                        : fmt::format("  {:>9} ", kAbsent);
      screen_.row(figures, [&](int room) {
        return fit_to_width(known ? gpus_of(process) + process.command : process.problem, room);
      });
    }
    screen_.and_more(report_.others.size(), kRowsOfATable);
    if (!report_.add_others) return;
    const TreeFigures tree = tree_figures(report_);
    if (tree.sums.device_peak_bytes)
      screen_.note(fmt::format(
          "All {} processes: the GPU memory peaks add up to {}, but may not have occurred at the same time.",
          tree.processes, format_bytes({*tree.sums.device_peak_bytes})));
    if (!tree.sums.host_recorded) return;
    screen_.note(fmt::format(
        "All {} processes: {} in {} allocations, {} live at exit. The peaks add up to {}, but may not have "
        "occurred at the same time.",
        tree.processes, format_bytes({tree.sums.total_allocated_bytes}), grouped(tree.sums.allocations),
        format_bytes({tree.sums.leaked_bytes}), format_bytes({tree.sums.peak_bytes})));
  }

  // Beside its heap.
  static std::string gpus_of(const ProcessFigures& process) {
    if (!process.host_recorded || !process.device_peak_bytes) return "";
    return fmt::format("and {} of GPU memory  ", format_bytes({*process.device_peak_bytes}));
  }

  static std::string peak_of(const ProcessFigures& process) {
    if (process.host_recorded) return format_bytes({process.peak_bytes});
    return process.device_peak_bytes ? format_bytes({*process.device_peak_bytes}) : std::string(kAbsent);
  }

  void next() {
    const std::string file = shell_word(report_.file);
    screen_.heading("Next");
    // A launcher or a shell: another process has the larger heap.
    const ProcessFigures own = figures_of(report_.file, report_.info, analysis_);
    if (!report_.others.empty() && report_.others.front().size() > own.size())
      screen_.line(fmt::format("  headroom report {}", shell_word(report_.others.front().file)));
    screen_.line(fmt::format("  headroom report {} --html {}", file, shell_word(report_.file + ".html")));
    screen_.line(fmt::format("  headroom export {} --to {}", file,
                             analysis_.host_recorded ? "speedscope" : "perfetto"));
    screen_.line(fmt::format("  headroom report {} --json", file));
    if (!report_.others.empty() && !report_.add_others)
      screen_.line(fmt::format("  headroom report {} --all", file));
    if (!analysis_.full && !report_.info.command.empty()) {
      std::string command;
      for (const std::string& word : report_.info.command) command += " " + shell_word(word);
      // A program that requested no GPU memory: its host memory is the next thing to record.
      const std::string_view mode = analysis_.host_recorded     ? "--full "
                                    : analysis_.devices.empty() ? ""
                                                                : "--only gpu ";
      screen_.line(
          fmt::format("  headroom trace {}{}--{}", mode, flag_of_device_limits(report_.info), command));
    }
  }

  const RecordingReport& report_;
  const RecordingAnalysis& analysis_;
  const std::vector<SessionMemory> sessions_;
  const bool has_arena_;
  ScreenLines screen_;
};

}  // namespace

std::string recording_to_terminal(const RecordingReport& report, bool color, int width) {
  return RecordingSummary(report, color, width).draw();
}

}  // namespace headroom::report
