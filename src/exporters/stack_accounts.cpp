#include "exporters/stack_accounts.h"

#include "attribution/group_accounts.h"

namespace headroom::exporters {

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
