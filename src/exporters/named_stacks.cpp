#include "exporters/named_stacks.h"

#include <map>
#include <tuple>

#include "attribution/group_accounts.h"
#include "attribution/live_map.h"
#include "types/enum_names.h"

namespace headroom::exporters {

namespace {

class StackNamer {
 public:
  explicit StackNamer(const ExportInput& input) : input_(input) {}

  NamedStacks name(const StackAccounts& accounts) {
    result_.has_temporary = accounts.has_temporary;
    for (const StackAccount& account : accounts.accounts) {
      std::vector<std::uint32_t> frames;
      for (const attribution::LayerIndex layer : path_to(accounts.layers, account.layer))
        frames.push_back(frame_of(accounts.layers[layer].name, {}, true));
      const std::size_t layers = frames.size();
      add_functions(account.stack, frames);
      NamedStack& stack = stack_of(frames);
      stack.layers = layers;
      stack.layer = accounts.layers[account.layer].path;
      for (std::size_t i = 0; i < kMetrics; ++i) {
        attribution::add_wrapping(stack.amounts[i].blocks, account.amounts[i].blocks);
        attribution::add_wrapping(stack.amounts[i].bytes, account.amounts[i].bytes);
      }
    }
    return std::move(result_);
  }

  std::string text_of(StackId stack) {
    std::vector<std::uint32_t> frames;
    add_functions(stack, frames);
    return joined(result_, frames);
  }

 private:
  void add_functions(StackId stack, std::vector<std::uint32_t>& frames) {
    const std::span<const std::uint64_t> addresses = input_.recording.stacks().frames(stack);
    if (addresses.empty()) frames.push_back(frame_of("(no stack)", {}, false));
    // Deeper stacks were recorded without their outer frames.
    if (addresses.size() == recording::kMaxFrames)
      frames.push_back(frame_of("(callers left out)", {}, false));
    for (std::size_t i = addresses.size(); i-- > 0;) {
      const auto& functions = input_.symbolizer.frames_of(addresses[i], true);
      for (std::size_t k = functions.size(); k-- > 0;)
        frames.push_back(frame_of(functions[k].function,
                                  functions[k].file.empty() ? functions[k].module : functions[k].file,
                                  false));
    }
  }

  std::uint32_t frame_of(std::string_view name, std::string_view file, bool is_layer) {
    const auto next = static_cast<std::uint32_t>(result_.frames.size());
    const auto [found, is_new] =
        frame_index_.try_emplace({std::string(name), std::string(file), is_layer}, next);
    if (is_new) result_.frames.push_back({std::string(name), std::string(file), is_layer});
    return found->second;
  }

  NamedStack& stack_of(const std::vector<std::uint32_t>& frames) {
    const auto [found, is_new] = stack_index_.try_emplace(frames, result_.stacks.size());
    if (is_new) result_.stacks.emplace_back().frames = frames;
    return result_.stacks[found->second];
  }

  const ExportInput& input_;
  NamedStacks result_;
  std::map<std::tuple<std::string, std::string, bool>, std::uint32_t> frame_index_;
  std::map<std::vector<std::uint32_t>, std::size_t> stack_index_;
};

}  // namespace

std::string_view name_of(Metric metric) {
  return name_in({"peak", "leaked", "temporary", "allocated"}, metric);
}

NamedStacks name_stacks(const ExportInput& input) {
  const StackAccounts accounts = account_stacks(input.recording);
  prepare_symbols(input);
  return StackNamer(input).name(accounts);
}

std::string joined_stack(const ExportInput& input, StackId stack) { return StackNamer(input).text_of(stack); }

void prepare_symbols(const ExportInput& input) {
  const recording::StackTable& stacks = input.recording.stacks();
  std::vector<std::uint64_t> addresses;
  for (std::uint32_t i = 1; i < stacks.size(); ++i) {
    const auto frames = stacks.frames(StackId{i});
    addresses.insert(addresses.end(), frames.begin(), frames.end());
  }
  std::ranges::sort(addresses);
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  input.symbolizer.prepare(addresses, true);
}

std::string joined(const NamedStacks& named, std::span<const std::uint32_t> frames) {
  std::string text;
  for (const std::uint32_t frame : frames) {
    if (!text.empty()) text += ';';
    for (const char c : named.frames[frame].name)
      text += c == ';' ? ':' : static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return text;
}

std::vector<attribution::LayerIndex> path_to(const attribution::LayerTree& layers,
                                             attribution::LayerIndex layer) {
  std::vector<attribution::LayerIndex> path;
  for (; layer != 0; layer = layers[layer].parent) path.push_back(layer);
  std::ranges::reverse(path);
  return path;
}

StackAccounts account_stacks(recording::Recording& recording) {
  std::vector<StackAccount> accounts;
  const auto own_group = [&](attribution::LayerIndex layer, StackId stack) {
    accounts.push_back({.layer = layer, .stack = stack});
    return static_cast<std::uint32_t>(accounts.size() - 1);
  };
  attribution::GroupAccounts groups = attribution::account_groups(recording, {own_group});
  for (std::size_t i = 0; i < accounts.size(); ++i) {
    const attribution::GroupFigures& figures = groups.figures.front()[i];
    accounts[i][Metric::peak] = {figures.live.peak_blocks, figures.live.peak_bytes};
    accounts[i][Metric::leaked] = {figures.live.end_blocks, figures.live.end_bytes};
    accounts[i][Metric::temporary] = {figures.temporary_blocks, figures.temporary_bytes};
    accounts[i][Metric::allocated] = {figures.allocations, figures.allocated_bytes};
  }
  return {std::move(groups.layers), std::move(accounts), groups.has_temporary};
}

}  // namespace headroom::exporters
