#include "report/recording/live_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "attribution/peak_shares.h"
#include "report/recording/ranking.h"

namespace headroom::report {
namespace {

using namespace attribution;

constexpr std::size_t kMostRows = 200;

std::string size_in_words(std::uint64_t size) {
  return size <= std::uint64_t{1} << 62 ? format_bytes({static_cast<std::int64_t>(size)})
                                        : fmt::format("{} B", size);
}

Json live_share_json(const std::vector<LiveMoment>& moments, const HeldAt& held_at,
                     const std::function<std::string(std::size_t)>& name) {
  std::vector<std::size_t> rows = leading_rows(moments.size(), held_at, kMostRows);
  std::sort(rows.begin(), rows.end());
  Json json = {{"name", Json::array()}, {"bytes", Json::array()}, {"other_bytes", Json::array()}};
  for (const std::size_t row : rows) json["name"].push_back(name(row));
  for (std::size_t m = 0; m < moments.size(); ++m) {
    Json bytes = Json::array();
    std::int64_t rest = moments[m].bytes;
    for (const std::size_t row : rows) {
      const std::int64_t held = std::max<std::int64_t>(0, figure_at(held_at(m), row));
      bytes.push_back(held);
      rest -= held;
    }
    json["bytes"].push_back(std::move(bytes));
    json["other_bytes"].push_back(std::max<std::int64_t>(0, rest));
  }
  return json;
}

Json modules_json(const RecordingReport& report, const std::vector<LiveMoment>& moments) {
  // Modules in the order in which stacks name them; most stacks are of few modules.
  std::map<std::string, std::size_t> number_of;
  std::vector<std::string> names;
  std::vector<std::size_t> module_of;  // [StackId]
  for (const LiveMoment& moment : moments)
    for (auto i = static_cast<std::uint32_t>(module_of.size()); i < moment.bytes_by_stack.size(); ++i) {
      const auto [found, is_new] = number_of.emplace(
          responsible_module(report.info, report.stacks.frames(StackId{i})), number_of.size());
      if (is_new) names.push_back(found->first);
      module_of.push_back(found->second);
    }
  std::vector<std::vector<std::int64_t>> sums;
  for (const LiveMoment& moment : moments) {
    std::vector<std::int64_t>& held = sums.emplace_back(names.size());
    for (std::size_t i = 0; i < moment.bytes_by_stack.size(); ++i)
      held[module_of[i]] += moment.bytes_by_stack[i];
  }
  return live_share_json(
      moments, [&](std::size_t m) -> const auto& { return sums[m]; },
      [&](std::size_t i) { return names[i].empty() ? "(unknown)" : names[i]; });
}

}  // namespace

std::int64_t figure_at(const std::vector<std::int64_t>& figures, std::size_t i) {
  return i < figures.size() ? figures[i] : 0;
}

std::uint64_t smallest_of_class(std::size_t bits) { return bits == 0 ? 0 : std::uint64_t{1} << (bits - 1); }
std::uint64_t largest_of_class(std::size_t bits) { return bits == 0 ? 0 : smallest_of_class(bits) * 2 - 1; }

std::string words_for_size_class(std::size_t bits) {
  return fmt::format("{} to {}", size_in_words(smallest_of_class(bits)),
                     size_in_words(largest_of_class(bits)));
}

std::string words_for_thread(const recording::RecordingInfo& info, std::size_t thread) {
  const bool known = thread < info.threads.size() && info.threads[thread].tid != 0;
  return known ? fmt::format("{} (tid {})", info.threads[thread].name, info.threads[thread].tid)
               : fmt::format("thread {}", thread);
}

std::vector<std::size_t> leading_rows(std::size_t moments, const HeldAt& held_at, std::size_t count) {
  std::vector<std::int64_t> most;
  for (std::size_t m = 0; m < moments; ++m) {
    const std::vector<std::int64_t>& held = held_at(m);
    most.resize(std::max(most.size(), held.size()));
    for (std::size_t i = 0; i < held.size(); ++i) most[i] = std::max(most[i], held[i]);
  }
  return ranked(
      most, [](std::int64_t bytes) { return bytes; }, count);
}

Json live_shares_json(const RecordingReport& report, const std::vector<LiveMoment>& moments) {
  return {{"module", modules_json(report, moments)},
          {"thread", live_share_json(
                         moments, [&](std::size_t m) -> const auto& { return moments[m].bytes_by_thread; },
                         [&](std::size_t i) { return words_for_thread(report.info, i); })},
          {"size", live_share_json(
                       moments, [&](std::size_t m) -> const auto& { return moments[m].bytes_by_class; },
                       words_for_size_class)}};
}

}  // namespace headroom::report
