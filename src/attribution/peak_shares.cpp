#include "attribution/peak_shares.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "attribution/live_counter.h"

namespace headroom::attribution {
namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool passes_allocations_on(std::string_view module) {
  constexpr std::array<std::string_view, 12> kPassersOn{
      "libc.so", "libc-",      "libc++", "libstdc++",   "libgcc_s",    "ld-linux",
      "ld-",     "libpthread", "ld.so",  "libjemalloc", "libtcmalloc", "libheadroom_trace"};
  return module.starts_with("libmimalloc") ||
         std::any_of(kPassersOn.begin(), kPassersOn.end(),
                     [&](std::string_view name) { return module.starts_with(name); });
}

// The file name of the module that holds the call before this return address; empty where there is none.
std::string_view module_at(const recording::RecordingInfo& info, std::uint64_t return_address) {
  const std::uint64_t call = return_address - 1;
  // Of modules that were loaded at one place after another, the last.
  for (auto module = info.modules.rbegin(); module != info.modules.rend(); ++module)
    if (call >= module->start && call < module->end) return file_name(module->path);
  return {};
}

}  // namespace

std::string responsible_module(const recording::RecordingInfo& info, std::span<const std::uint64_t> frames) {
  std::string_view outermost;
  for (const std::uint64_t frame : frames) {
    const std::string_view module = module_at(info, frame);
    if (module.empty()) continue;
    if (!passes_allocations_on(module)) return std::string(module);
    outermost = module;
  }
  return std::string(outermost);
}

std::optional<std::uint64_t> responsible_frame(const recording::RecordingInfo& info,
                                               std::span<const std::uint64_t> frames) {
  for (const std::uint64_t frame : frames)
    if (const std::string_view module = module_at(info, frame);
        !module.empty() && !passes_allocations_on(module))
      return frame;
  return std::nullopt;
}

std::span<const std::uint64_t> frames_within_module(const recording::RecordingInfo& info,
                                                    std::span<const std::uint64_t> frames) {
  std::string_view within;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const std::string_view module = module_at(info, frames[i]);
    if (module.empty() || passes_allocations_on(module)) continue;
    if (within.empty()) within = module;
    if (module != within) return frames.first(i);
  }
  return frames;
}

std::vector<PeakShare> peak_shares(const recording::RecordingInfo& info, const recording::StackTable& stacks,
                                   const RecordingAnalysis& analysis) {
  std::vector<PeakShare> shares;
  std::int64_t tracing = 0;
  for (std::size_t i = 1; i < analysis.layers.size(); ++i) {
    const LayerFigures& layer = analysis.layers[i];
    tracing += layer.tracing_peak_bytes;
    const std::int64_t bytes = layer.self.peak_bytes - layer.tracing_peak_bytes;
    if (bytes != 0) shares.push_back({ShareKind::layer, layer.path, bytes, layer.self.peak_variance});
  }
  if (tracing != 0) shares.push_back({ShareKind::tracing, "", tracing});
  std::map<std::string, PeakShare> by_module;
  for (const StackFigures& stack : analysis.stacks)
    if (stack.outside_peak_bytes != 0) {
      PeakShare& share = by_module[responsible_module(info, stacks.frames(stack.stack))];
      share.bytes += stack.outside_peak_bytes;
      share.variance += stack.outside_peak_variance;
    }
  for (auto& [module, share] : by_module) {
    share.kind = module.empty() ? ShareKind::unnamed : ShareKind::module;
    share.name = module;
    shares.push_back(share);
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const PeakShare& a, const PeakShare& b) { return a.bytes > b.bytes; });
  return shares;
}

std::vector<ModuleFigures> module_figures(const recording::RecordingInfo& info,
                                          const recording::StackTable& stacks,
                                          const RecordingAnalysis& analysis) {
  std::map<std::string, LiveFigures> by_name;
  for (const StackFigures& stack : analysis.stacks) {
    if (stack.live.peak_bytes == 0 && stack.live.end_bytes == 0) continue;
    by_name[responsible_module(info, stacks.frames(stack.stack))].add(stack.live);
  }
  std::vector<ModuleFigures> modules;
  for (const auto& [name, live] : by_name) modules.push_back({name, live});
  std::stable_sort(modules.begin(), modules.end(), [](const ModuleFigures& a, const ModuleFigures& b) {
    return std::pair(a.live.peak_bytes, a.live.end_bytes) > std::pair(b.live.peak_bytes, b.live.end_bytes);
  });
  return modules;
}

}  // namespace headroom::attribution
