#include "comparison/recording_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "attribution/live_map.h"
#include "attribution/peak_shares.h"
#include "comparison/compared_names.h"
#include "types/enum_names.h"

namespace headroom::comparison {
namespace {

using namespace attribution;

constexpr std::string_view kNoStack = "(no stack was taken)";
constexpr std::string_view kCallersLeftOut = "(callers left out)";
constexpr std::string_view kOutsideOfModules = "(outside of every module)";

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Numbers groups by their keys, in the order of their first use.
class Groups {
 public:
  std::uint32_t number_of(const NamedGroup& group) {
    const auto [found, is_new] = index_.emplace(group.key, static_cast<std::uint32_t>(groups_.size()));
    if (is_new) groups_.push_back(group);
    return found->second;
  }
  std::vector<NamedGroup> take(const std::vector<GroupFigures>& figures) {
    for (std::size_t i = 0; i < figures.size(); ++i) groups_[i].figures = figures[i];
    return std::move(groups_);
  }

 private:
  std::unordered_map<std::string, std::uint32_t> index_;
  std::vector<NamedGroup> groups_;
};

// The stacks of a recording as keys that are the same in another run and another build.
class StackKeys {
 public:
  StackKeys(const recording::Recording& recording, const FrameLookup& names,
            const std::set<std::string>& of_one_build)
      : recording_(recording),
        names_(names),
        of_one_build_(of_one_build),
        program_(file_name(recording.info().executable)) {}

  struct NamedStack {
    NamedGroup stack, module;
  };
  const NamedStack& of(StackId stack) {
    const auto [found, is_new] = by_id_.try_emplace(stack.index);
    if (is_new) found->second = name_stack(recording_.stacks().frames(stack));
    return found->second;
  }

 private:
  NamedStack name_stack(std::span<const std::uint64_t> addresses) const {
    NamedGroup stack, module;
    std::string last;
    const auto add = [&](const std::string& key, std::string_view name) {
      if (key == last) return;  // recursion, however deep it went
      last = key;
      stack.key += key + '\n';
      stack.frames.emplace_back(name);
    };
    for (const std::uint64_t address : addresses)
      for (const NamedFrame& frame : names_(address)) {
        const std::string function = function_of(frame);
        add(function + '\t' + module_key(frame.module), function);
      }
    if (addresses.empty()) add(std::string(kNoStack), kNoStack);
    // Deeper stacks were recorded without their outermost frames.
    if (addresses.size() == recording::kMaxFrames) add(std::string(kCallersLeftOut), kCallersLeftOut);

    module.name = responsible_module(recording_.info(), addresses);
    module.key = module_key(module.name);
    if (module.name.empty()) module.key = module.name = addresses.empty() ? kNoStack : kOutsideOfModules;
    return {std::move(stack), std::move(module)};
  }

  // The program's file may be renamed in its next version.
  std::string module_key(const std::string& module) const {
    return module == program_ && !module.empty() ? "(program)" : std::string(without_version(module));
  }
  // An unnamed place has another offset in another build, so only its module is compared.
  std::string function_of(const NamedFrame& frame) const {
    if (frame.named) return std::string(without_clone_suffix(frame.function));
    if (frame.module.empty()) return std::string(kOutsideOfModules);
    if (of_one_build_.contains(frame.module)) return frame.function;
    return frame.module + std::string(kFunctionUnknown);
  }

  const recording::Recording& recording_;
  const FrameLookup& names_;
  const std::set<std::string>& of_one_build_;
  std::string program_;
  std::unordered_map<std::uint32_t, NamedStack> by_id_;
};

// Numbered nodes are compared by their position among the nodes of their operator: the order of a graph is
// the same in each run.
std::vector<NamedGroup> named_layers(const std::vector<LayerFigures>& layers) {
  std::vector<NamedGroup> names;
  std::map<std::string, int, std::less<>> before;
  for (const LayerFigures& layer : layers) {
    const auto key = stem_of_counted_name(layer.key), path = stem_of_counted_name(layer.path);
    if (layer.source != recording::ScopeSource::node || !key || !path) {
      names.push_back({layer.key, layer.path, {}, {}});
      continue;
    }
    const int place = ++before[std::string(*key)];
    names.push_back({fmt::format("{}_token_#{}", *key, place), fmt::format("{} #{}", *path, place), {}, {}});
  }
  return names;
}

// The counts of a layer are exact and include memory that no stack or sample represents. The counts of the
// inner layers are subtracted.
std::vector<NamedGroup> layer_groups(const RecordingAnalysis& analysis, const GroupAccounts& accounts,
                                     std::vector<NamedGroup> groups) {
  const std::vector<GroupFigures>& figures = accounts.figures[0];
  std::unordered_map<std::string_view, std::size_t> by_key;
  for (std::size_t i = 0; i < groups.size(); ++i) by_key.emplace(analysis.layers[i].key, i);
  for (std::size_t i = 0; i < figures.size(); ++i)
    if (const auto found = by_key.find(accounts.layers[static_cast<LayerIndex>(i)].key);
        found != by_key.end())
      groups[found->second].figures = figures[i];
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].figures.allocations = analysis.layers[i].allocations;
    groups[i].figures.allocated_bytes = analysis.layers[i].allocated_bytes;
  }
  for (const LayerFigures& layer : analysis.layers) {
    if (!layer.parent) continue;
    add_wrapping(groups[*layer.parent].figures.allocations, -layer.allocations);
    add_wrapping(groups[*layer.parent].figures.allocated_bytes, -layer.allocated_bytes);
  }
  return groups;
}

// The shares by their groups, which `named(share)` gives.
template <class Named>
std::vector<NamedGroup> mapped_groups(const std::vector<MappingShare>& shares, Named&& named) {
  std::map<std::string, NamedGroup> groups;
  for (const MappingShare& share : shares) {
    const NamedGroup& one = named(share);
    LiveFigures& live = groups.try_emplace(one.key, one).first->second.figures.live;
    add_wrapping(live.peak_bytes, share.at_peak_bytes);
    add_wrapping(live.end_bytes, share.end_bytes);
  }
  std::vector<NamedGroup> list;
  for (auto& [key, group] : groups) list.push_back(std::move(group));
  return list;
}

bool is_empty(const NamedGroup& group) {
  const GroupFigures& figures = group.figures;
  return figures.allocations == 0 && figures.allocated_bytes == 0 && figures.live.peak_bytes == 0 &&
         figures.live.end_bytes == 0;
}

bool counts_nodes(const RecordingAnalysis& analysis) {
  return std::ranges::all_of(analysis.layers, [](const LayerFigures& layer) { return layer.counts_known; });
}

// The layers for a comparison with samples, which have no counts of a graph's nodes: on both sides the row
// of the run has them.
std::vector<NamedGroup> with_counts_by_run(const GroupedRecording& recording) {
  std::vector<NamedGroup> groups = recording.groups[static_cast<std::size_t>(DiffBy::layer)];
  const std::vector<LayerFigures>& layers = recording.analysis.layers;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (layers[i].source != recording::ScopeSource::node || !layers[i].parent) continue;
    GroupFigures& run = groups[*layers[i].parent].figures;
    add_wrapping(run.allocations, groups[i].figures.allocations);
    add_wrapping(run.allocated_bytes, groups[i].figures.allocated_bytes);
    groups[i].counts_known = false;
  }
  return groups;
}

// The rows have the names of the newer recording.
std::vector<DiffRow> join(const std::vector<NamedGroup>& before, const std::vector<NamedGroup>& after) {
  std::map<std::string_view, std::pair<const NamedGroup*, const NamedGroup*>> pairs;
  for (const NamedGroup& group : before)
    if (!is_empty(group)) pairs[group.key].first = &group;
  for (const NamedGroup& group : after)
    if (!is_empty(group)) pairs[group.key].second = &group;
  std::vector<DiffRow> rows;
  for (const auto& [key, pair] : pairs) {
    const auto& [a, b] = pair;
    const NamedGroup& known = b != nullptr ? *b : *a;
    DiffRow& row = rows.emplace_back(DiffRow{known.name, known.frames, a != nullptr, b != nullptr, {}, {}});
    row.counts_known = (a == nullptr || a->counts_known) && (b == nullptr || b->counts_known);
    if (a != nullptr) row.before = a->figures;
    if (b != nullptr) row.after = b->figures;
  }
  std::ranges::stable_sort(rows, std::greater{}, [](const DiffRow& row) {
    return std::tuple(row.peak_change(), row.end_change(), row.allocated_change());
  });
  return rows;
}

std::optional<double> error_of_difference(std::optional<double> a, std::optional<double> b) {
  if (!a && !b) return std::nullopt;
  return std::hypot(a.value_or(0), b.value_or(0));
}

}  // namespace

std::string_view without_clone_suffix(std::string_view function) {
  constexpr std::array<std::string_view, 7> kSuffixes{" [clone ", ".constprop.", ".isra.", ".part.",
                                                      ".cold",    ".lto_priv.",  ".llvm."};
  for (const std::string_view suffix : kSuffixes)
    if (const auto at = function.find(suffix); at != std::string_view::npos && at > 0)
      function = function.substr(0, at);
  return function;
}

std::string_view without_version(std::string_view module) {
  const auto at = module.find(".so.");
  return at == std::string_view::npos ? module : module.substr(0, at + 3);
}

std::string_view name_of(DiffBy by) { return name_in({"layer", "stack", "module"}, by); }

std::set<std::string> modules_of_one_build(const recording::RecordingInfo& a,
                                           const recording::RecordingInfo& b) {
  const auto builds_of = [](const recording::RecordingInfo& info) {
    std::map<std::string, std::set<std::string>> builds;
    for (const recording::Module& module : info.modules)
      builds[file_name(module.path)].insert(module.build_id);
    return builds;
  };
  const auto of_a = builds_of(a), of_b = builds_of(b);
  std::set<std::string> same;
  for (const auto& [name, builds] : of_a)
    if (const auto found = of_b.find(name);
        found != of_b.end() && builds.size() == 1 && builds == found->second && !builds.contains(""))
      same.insert(name);
  return same;
}

GroupedRecording group_recording(recording::Recording& recording, const FrameLookup& names,
                                 const std::set<std::string>& of_one_build) {
  GroupedRecording result;
  result.analysis = analyze_recording(recording, {.timeline_points = 2});  // the timeline is not compared
  StackKeys keys(recording, names, of_one_build);
  Groups stacks, modules;
  const GroupAccounts accounts = account_groups(
      recording, {[](LayerIndex layer, StackId) { return layer; },
                  [&](LayerIndex, StackId stack) { return stacks.number_of(keys.of(stack).stack); },
                  [&](LayerIndex, StackId stack) { return modules.number_of(keys.of(stack).module); }});
  const std::vector<NamedGroup> layers = named_layers(result.analysis.layers);
  result.groups = {layer_groups(result.analysis, accounts, layers), stacks.take(accounts.figures[1]),
                   modules.take(accounts.figures[2])};
  const MappedFigures& mapped = result.analysis.mapped;
  const auto layer_of = [&](const MappingShare& share) -> const auto& { return layers[share.index]; };
  const auto names_of = [&](const MappingShare& share) -> const auto& {
    return keys.of(StackId{share.index});
  };
  result.mapped = {
      mapped_groups(mapped.layers, layer_of),
      mapped_groups(
          mapped.stacks, [&](const auto& share) -> const auto& { return names_of(share).stack; }),
      mapped_groups(
          mapped.stacks, [&](const auto& share) -> const auto& { return names_of(share).module; })};
  GroupFigures all;
  for (const GroupFigures& figures : accounts.figures[0]) {
    add_wrapping(all.released_blocks, figures.released_blocks);
    all.lived_ns += figures.lived_ns;
  }
  result.average_lifetime = all.average_lifetime();
  return result;
}

std::optional<double> FigureChange::standard_error() const {
  return error_of_difference(before.standard_error, after.standard_error);
}

std::optional<double> DiffRow::peak_standard_error() const {
  return error_of_difference(before.live.peak_standard_error(), after.live.peak_standard_error());
}

std::optional<double> DiffRow::end_standard_error() const {
  return error_of_difference(before.live.end_standard_error(), after.live.end_standard_error());
}

bool FigureChange::differs() const {
  return change() != 0 && std::abs(static_cast<double>(change())) >= 2 * standard_error().value_or(0);
}

RecordingDiff diff_recordings(const GroupedRecording& before, const GroupedRecording& after) {
  RecordingDiff diff;
  const RecordingAnalysis &a = before.analysis, &b = after.analysis;
  diff.peak_bytes = {a.peak_bytes, b.peak_bytes};
  diff.leaked_bytes = {a.leaked_bytes, b.leaked_bytes};
  diff.allocations = {{a.allocations, {}}, {b.allocations, {}}};
  diff.allocated_bytes = {{a.total_allocated_bytes, {}}, {b.total_allocated_bytes, {}}};
  for (const DiffBy by : kDiffBy) {
    const auto i = static_cast<std::size_t>(by);
    diff.mapped[i] = join(before.mapped[i], after.mapped[i]);
    if (by == DiffBy::layer && !(counts_nodes(a) && counts_nodes(b)))
      diff.rows[i] = join(with_counts_by_run(before), with_counts_by_run(after));
    else
      diff.rows[i] = join(before.groups[i], after.groups[i]);
  }
  return diff;
}

}  // namespace headroom::comparison
