// `headroom report FILE.hrec` on the terminal: what a person wants to know first, in one screen.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "attribution/peak_shares.h"
#include "attribution/peak_uses.h"
#include "attribution/session_memory.h"
#include "base/display_width.h"
#include "base/text.h"
#include "report/recording/device_words.h"
#include "report/recording/leak_words.h"
#include "report/recording/ranking.h"
#include "report/recording/recording_devices.h"
#include "report/recording/recording_mapped.h"
#include "report/recording/recording_nodes.h"
#include "report/recording/recording_views.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"
#include "report/run/process_figures.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using namespace attribution;

constexpr int kNarrowest = 40, kShortestPlace = 10;
constexpr std::size_t kRowsOfATable = 5, kRowsOfAHint = 3;
constexpr std::string_view kRed = "\033[31m", kGreen = "\033[32m", kYellow = "\033[33m", kBold = "\033[1m",
                           kPlain = "\033[0m";

template <class Item, class Figure>
std::int64_t count_above_zero(const std::vector<Item>& items, Figure figure) {
  return std::count_if(items.begin(), items.end(), [&](const Item& item) { return figure(item) > 0; });
}

class Screen {
 public:
  Screen(const RecordingReport& report, bool color, int width)
      : report_(report),
        analysis_(report.analysis),
        sessions_(session_memory(report.info, report.analysis)),
        has_arena_(has_arena(report.info, report.analysis)),
        color_(color),
        width_(std::max(width, kNarrowest)) {}

  std::string draw() {
    what_ran();
    if (analysis_.host_recorded) what_the_heap_held();
    devices();
    if (analysis_.host_recorded) how_the_heap_was_used();
    processes();
    problems();
    next();
    return std::move(text_);
  }

 private:
  void what_the_heap_held() {
    figures();
    layers();
    modules();
    sessions();
    stacks();
    mapped();
  }
  void how_the_heap_was_used() {
    leaks();
    churn();
    fragmentation();
  }

  std::string painted(std::string_view text, std::string_view paint) const {
    return color_ ? fmt::format("{}{}{}", paint, text, kPlain) : std::string(text);
  }
  void line(std::string_view text) { text_ += fmt::format("{}\n", text); }
  void heading(const std::string& text) { line("\n" + painted(fit_to_width(text, width_), kBold)); }
  void sentence(std::string_view sign, std::string_view paint, const std::string& text) {
    constexpr int kNoLimit = 1 << 20;  // only control characters go
    line(fmt::format("{} {}", painted(sign, paint), wrap(fit_to_width(text, kNoLimit), width_ - 2, 2)));
  }
  void figure(std::string_view name, const std::string& text) {
    line(fmt::format("{:<10} {}", name, wrap(text, width_ - 11, 11)));
  }

  void what_ran() {
    line(painted(fit_to_width(one_line_command(report_.info), width_), kBold));
    std::string end = report_.info.closed ? "exited" : "killed or still running";
    line(wrap(
        fmt::format("pid {}, {}, {}, {} events, {}", report_.info.pid, format_duration(analysis_.duration),
                    what_was_recorded(), grouped(analysis_.events), end),
        width_, 0));
    if (analysis_.host_recorded) line("");
  }
  std::string_view what_was_recorded() const {
    if (!analysis_.host_recorded) return kGpuMemoryOnly;
    return analysis_.full ? "every allocation recorded" : "large allocations and samples";
  }

  void figures() {
    figure("Peak",
           fmt::format("{} at {} in {}{}", words_for(analysis_.peak_bytes),
                       format_duration(analysis_.peak_time), words_for_count(analysis_.peak_blocks, "block"),
                       words_for_older_blocks(analysis_.peak_bytes)));
    figure("Allocated",
           fmt::format("{} in {} allocations; {} released", format_bytes({analysis_.total_allocated_bytes}),
                       grouped(analysis_.allocations), grouped(analysis_.deallocations)));
    figure("At the end", fmt::format("{} in {} still live{}", words_for(analysis_.leaked_bytes),
                                     words_for_count(analysis_.leaked_blocks, "block"),
                                     words_for_older_blocks(analysis_.leaked_bytes)));
    if (const std::string why = words_for_end_above_peak(analysis_); !why.empty()) figure("", why);
    if (analysis_.temporary)
      figure("Temporary", fmt::format("{} allocations ({}) released by the next call of their thread",
                                      grouped(*analysis_.temporary),
                                      words_for_share(analysis_.allocations > 0
                                                          ? static_cast<double>(*analysis_.temporary) /
                                                                static_cast<double>(analysis_.allocations)
                                                          : 0)));
    if (analysis_.mapped.maps > 0)
      figure("Mapped",
             fmt::format(
                 "at most {} by the program's own mmap calls, not part of the heap; {} at the heap's peak",
                 format_bytes({analysis_.mapped.peak_bytes}),
                 format_bytes({analysis_.mapped.bytes_at_heap_peak})));
  }

  // A line of a table: figures, and the place, which gets the rest of the line.
  void place(const std::string& figures, StackId stack) {
    line(figures + one_line_stack(report_, stack, std::max(kShortestPlace, width_ - display_width(figures))));
  }
  std::string share_of_peak(std::int64_t bytes, std::optional<double> standard_error = {}) const {
    const auto peak = static_cast<double>(std::max<std::int64_t>(1, analysis_.peak_bytes.value));
    return fmt::format("  {:>9}{} {:>3.0f} %  ", format_bytes({bytes}), error_column(standard_error),
                       100 * static_cast<double>(bytes) / peak);
  }
  // A column that only recordings of samples have.
  std::string error_column(std::optional<double> standard_error) const {
    return analysis_.peak_bytes.standard_error ? report::error_column(standard_error) : "";
  }
  void and_more(std::int64_t all, std::size_t shown) {
    if (all > static_cast<std::int64_t>(shown))
      line(fmt::format("  and {} more", grouped(all - static_cast<std::int64_t>(shown))));
  }

  void layers() {
    if (analysis_.layers.size() < 2) return;
    const std::vector<PeakShare> shares = peak_shares(report_.info, report_.stacks, analysis_);
    if (shares.empty()) return;
    heading("Layers that hold the peak");
    const std::size_t shown = std::min(shares.size(), kRowsOfATable);
    if (std::any_of(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(shown),
                    [&](const PeakShare& share) { return is_node_with_arena(share); }))
      line(
          "  " +
          wrap("A node's row shows how much the arena grew while the node ran; its tensors are listed below.",
               width_ - 2, 2));
    for (std::size_t i = 0; i < shown; ++i) {
      const PeakShare& share = shares[i];
      const std::string figures = share_of_peak(share.bytes, share.standard_error());
      const std::string name = words_for_share_name(share);
      const auto [own_peak, entered] = words_for_own_figures(share);
      const std::string own = own_peak + entered;
      const int room = std::max(kShortestPlace, width_ - display_width(figures));
      // Which layer it is, is what the row tells: before its name is cut, what it needs by itself goes to a
      // line of its own, and how often it was entered goes.
      const bool fits = display_width(name) + 2 + display_width(own) <= room;
      line(figures + fit_path_to_width(name, room) + (fits && !own.empty() ? "  " + own : ""));
      if (!fits && !own_peak.empty())
        line(std::string(static_cast<std::size_t>(display_width(figures)), ' ') + own);
    }
    and_more(static_cast<std::int64_t>(shares.size()), shown);
    uses();
  }

  // "By use: weights 44.6 MiB, activations 1.8 MiB, other 12.0 MiB".
  void uses() {
    std::string words;
    for (const PeakUse& use : peak_uses(analysis_))
      words += fmt::format("{} {} {}", words.empty() ? "By use:" : ",",
                           use.name == "optimizer_state" ? "optimizer state" : use.name,
                           format_bytes({use.bytes}));
    if (!words.empty()) line("  " + wrap(words, width_ - 2, 2));
  }

  static std::string words_for_share_name(const PeakShare& share) {
    if (share.kind == ShareKind::layer) return share.name;
    if (share.kind == ShareKind::tracing) return "(runtime profilers, which tracing turns on)";
    if (share.kind == ShareKind::unnamed) return "(outside of any layer)";
    return fmt::format("{} (outside of any layer)", share.name);
  }

  // By whose code asked for it, in layers or not.
  void modules() {
    const std::vector<ModuleFigures> modules = module_figures(report_.info, report_.stacks, analysis_);
    if (modules.size() < 2) return;  // one module says nothing
    heading("Modules that hold the peak");
    const std::size_t shown = std::min(modules.size(), kRowsOfATable);
    for (std::size_t i = 0; i < shown; ++i) {
      const LiveFigures& live = modules[i].live;
      const std::string figures = share_of_peak(live.peak_bytes, live.peak_standard_error());
      const std::string at_end = fmt::format("  {} at the end", format_bytes({live.end_bytes}));
      const int room = width_ - display_width(figures) - display_width(at_end);
      line(figures +
           fit_to_width(modules[i].name.empty() ? "(unknown)" : modules[i].name,
                        std::max(kShortestPlace, room)) +
           at_end);
    }
    and_more(static_cast<std::int64_t>(modules.size()), shown);
  }

  // The layer is a node of a graph, and what its tensors take is told apart.
  bool is_node_with_arena(const PeakShare& share) const {
    if (share.kind != ShareKind::layer || !has_arena_) return false;
    return std::any_of(analysis_.layers.begin(), analysis_.layers.end(), [&](const LayerFigures& layer) {
      return layer.source == recording::ScopeSource::node && layer.path == share.name;
    });
  }

  // What the layer needs by itself, whenever that was, where it is more than its share: "own peak 8.8 MiB, ".
  // And how often a thread came in. Both are empty of what is no layer.
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

  // What each model holds, by kind.
  void sessions() {
    for (const SessionMemory& session : sessions_) {
      const std::string which =
          session.loads > 1 ? fmt::format(" (load {} of {})", session.load, session.loads) : "";
      heading(fmt::format("Memory of {} at the peak{}", session.name, which));
      for (const MemoryShare& share : shares_of(session)) kind(share, session.peak_node);
      if (session.tracing > Bytes{}) kind({MemoryKind::tracing, "", session.tracing}, "");
      const std::vector<std::string> nodes = node_lines(session, analysis_, width_);
      if (!nodes.empty()) heading(fmt::format("Tensors of the nodes of {}, in one run", session.name));
      for (const std::string& text : nodes) line(text);
    }
  }

  void kind(const MemoryShare& share, const std::string& peak_node) {
    const std::string figures = share_of_peak(share.bytes.count);
    const int indent = display_width(figures);
    line(figures + wrap(report::words_for(share, peak_node), width_ - indent, indent));
  }

  void stacks() {
    const auto at_peak = [](const StackFigures& stack) { return stack.live.peak_bytes; };
    const auto order = ranked(analysis_.stacks, at_peak, kRowsOfATable);
    if (order.empty()) return;
    heading("Places that hold the peak");
    for (const std::size_t i : order)
      place(
          share_of_peak(analysis_.stacks[i].live.peak_bytes, analysis_.stacks[i].live.peak_standard_error()),
          analysis_.stacks[i].stack);
    and_more(count_above_zero(analysis_.stacks, at_peak), order.size());
  }

  void mapped() {
    const std::vector<std::string> lines = mapped_lines(report_, width_);
    if (!lines.empty()) heading("Mapped by the program, not part of the heap");
    for (const std::string& text : lines) line(text);
  }

  void devices() {
    if (!analysis_.host_recorded && analysis_.devices.empty()) line("\nThe program requested no GPU memory.");
    for (const DeviceSection& section : device_sections(report_, width_)) {
      heading(section.heading);
      for (const std::string& text : section.lines) line(text);
    }
  }

  void leaks() {
    const LeakVerdict& leaks = analysis_.leaks;
    heading("Leaks");
    leak_verdict(leaks);
    for (std::size_t i = 0; i < std::min(leaks.other_cycles.size(), kRowsOfATable); ++i)
      leak_verdict(leaks.other_cycles[i]);
    and_more(static_cast<std::int64_t>(leaks.other_cycles.size()), kRowsOfATable);
    if (leaks.growth == monitoring::Growth::unknown) return still_live();
    if (leaks.cycles_left_out > 0) sentence("·", kYellow, words_for_cycles_left_out(leaks));
  }

  void leak_verdict(const LeakVerdict& leaks) {
    const bool is_blind = leaks.growth == monitoring::Growth::none && leaks.smallest_visible > 0;
    if (leaks.growth == monitoring::Growth::leak)
      sentence("✗", kRed, words_for_leaks(leaks));
    else if (leaks.growth >= monitoring::Growth::grew_then_released)
      sentence("!", kYellow, words_for_leaks(leaks));
    else if (leaks.growth == monitoring::Growth::unknown)
      sentence("·", kYellow, words_for_leaks(leaks) + (live_at_end().empty() ? "" : " Not judged:"));
    else if (is_blind)
      sentence("·", kYellow, words_for_leaks(leaks));
    else
      sentence("✓", kGreen, words_for_leaks(leaks));
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
    heading("Allocated repeatedly: a pool would avoid these calls; sizes are totals");
    for (std::size_t i = 0; i < std::min(analysis_.reuse.size(), kRowsOfAHint); ++i) {
      const ReuseCandidate& candidate = analysis_.reuse[i];
      const std::string pool =
          candidate.pool_bytes ? fmt::format(", pool of {}", format_bytes({*candidate.pool_bytes})) : "";
      place(fmt::format("  {:>9} calls, {}{}  ", grouped(candidate.calls_saved),
                        format_bytes({candidate.bytes_not_churned}), pool),
            candidate.stack);
    }
  }

  void fragmentation() {
    if (const std::string why = words_for_no_fragmentation(report_.info); !why.empty()) {
      heading("Fragmentation");
      sentence("·", kYellow, why + ".");
    }
    if (!analysis_.fragmentation || analysis_.fragmentation->moments.empty()) return;
    const HeapFragmentation& fragmentation = *analysis_.fragmentation;
    const FragmentationMoment& moment = fragmentation.moments[fragmentation.largest];
    const FragmentationMoment& worst = fragmentation.moments[fragmentation.worst];
    if (moment.extent_bytes == 0) return;
    heading("Fragmentation");
    sentence(" ", "",
             fmt::format(
                 "When the heap was largest ({}), {} of its {} were holes ({}), the largest {}; rounding and "
                 "headers took {}.",
                 format_duration(moment.time), format_bytes({moment.free_bytes}),
                 format_bytes({moment.extent_bytes}), words_for_share(moment.external()),
                 format_bytes({moment.largest_free_bytes}), words_for_share(moment.internal())));
    if (worst.free_bytes > moment.free_bytes)
      sentence(" ", "",
               fmt::format("Holes took the most memory at {}: {} of {} ({}), the largest {}.",
                           format_duration(worst.time), format_bytes({worst.free_bytes}),
                           format_bytes({worst.extent_bytes}), words_for_share(worst.external()),
                           format_bytes({worst.largest_free_bytes})));
    if (!worst.blocker) return;
    const Blocker& blocker = *worst.blocker;
    sentence(" ", "",
             fmt::format("The largest hole would be {} without {} in {} at its end:",
                         format_bytes({blocker.freed_if_gone}), format_bytes({blocker.bytes}),
                         counted(blocker.blocks, "block")));
    const auto places = blocker.places();
    for (const BlockerPlace& part : places.first(std::min(places.size(), kRowsOfAHint)))
      place(fmt::format("  {:>9} in {}  ", format_bytes({part.bytes}), counted(part.blocks, "block")),
            part.stack);
  }

  void processes() {
    if (report_.others.empty()) return;
    heading(fmt::format("Other processes of the tree ({})", report_.others.size()));
    for (std::size_t i = 0; i < std::min(report_.others.size(), kRowsOfATable); ++i) {
      const ProcessFigures& process = report_.others[i];
      const bool known = process.problem.empty();
      const std::string figures = known ? fmt::format("  {:>9} pid {:<7} ", peak_of(process), process.pid)
                                        : fmt::format("  {:>9} ", kAbsent);
      line(figures + fit_to_width(known ? gpus_of(process) + process.command : process.problem,
                                  std::max(kShortestPlace, width_ - display_width(figures))));
    }
    and_more(static_cast<std::int64_t>(report_.others.size()), kRowsOfATable);
    if (!report_.add_others) return;
    const TreeFigures tree = tree_figures(report_);
    if (tree.sums.device_peak_bytes)
      sentence(" ", "",
               fmt::format("All {} processes: the GPU memory peaks add up to {}, but may not have occurred "
                           "at the same time.",
                           tree.processes, format_bytes({*tree.sums.device_peak_bytes})));
    if (!tree.sums.host_recorded) return;
    sentence(" ", "",
             fmt::format("All {} processes: {} in {} allocations, {} live at exit. The peaks add up to {}, "
                         "but may not have occurred at the same time.",
                         tree.processes, format_bytes({tree.sums.total_allocated_bytes}),
                         grouped(tree.sums.allocations), format_bytes({tree.sums.leaked_bytes}),
                         format_bytes({tree.sums.peak_bytes})));
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

  void problems() {
    const std::vector<std::string> sentences = missing_parts(report_.info, analysis_);
    if (sentences.empty()) return;
    heading("Missing data");
    constexpr std::size_t kShown = 6;
    for (std::size_t i = 0; i < std::min(sentences.size(), kShown); ++i) sentence("!", kYellow, sentences[i]);
    if (sentences.size() > kShown)
      line(fmt::format("  and {} more; --json has all", sentences.size() - kShown));
  }

  void next() {
    const std::string file = shell_word(report_.file);
    heading("Next");
    // A launcher or a shell: what counts is in another process.
    const ProcessFigures own = figures_of(report_.file, report_.info, analysis_);
    if (!report_.others.empty() && report_.others.front().size() > own.size())
      line(fmt::format("  headroom report {}", shell_word(report_.others.front().file)));
    line(fmt::format("  headroom report {} --html {}", file, shell_word(report_.file + ".html")));
    line(fmt::format("  headroom export {} --to {}", file,
                     analysis_.host_recorded ? "speedscope" : "perfetto"));
    line(fmt::format("  headroom report {} --json", file));
    if (!report_.others.empty() && !report_.add_others) line(fmt::format("  headroom report {} --all", file));
    if (!analysis_.full && !report_.info.command.empty()) {
      std::string command;
      for (const std::string& word : report_.info.command) command += " " + shell_word(word);
      // A program that requested no GPU memory: its host memory is the next thing to record.
      const std::string_view mode = analysis_.host_recorded     ? "--full "
                                    : analysis_.devices.empty() ? ""
                                                                : "--only gpu ";
      line(fmt::format("  headroom trace {}{}--{}", mode, flag_of_device_limits(report_.info), command));
    }
  }

  const RecordingReport& report_;
  const RecordingAnalysis& analysis_;
  const std::vector<SessionMemory> sessions_;
  const bool has_arena_;
  bool color_;
  int width_;
  std::string text_;
};

}  // namespace

std::string recording_to_terminal(const RecordingReport& report, bool color, int width) {
  return Screen(report, color, width).draw();
}

}  // namespace headroom::report
