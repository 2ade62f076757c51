#include "report/recording/recording_mapped.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "attribution/peak_shares.h"
#include "base/display_width.h"
#include "base/text.h"
#include "report/recording/stack_text.h"

namespace headroom::report {
namespace {

using namespace attribution;

constexpr std::int64_t kMuch = 1 << 20, kPartOfHeap = 100;
constexpr std::size_t kPlaces = 5, kOthers = 3, kMappedSharesInJson = 50;

struct ModuleShare {
  std::string name;  // empty where it is not known
  MappingShare share;
};

// By the module whose code requested the memory, as module_figures() does for the heap; the largest first.
std::vector<ModuleShare> module_shares(const RecordingReport& report,
                                       const std::vector<MappingShare>& stacks) {
  std::map<std::string, MappingShare> by_name;
  for (const MappingShare& stack : stacks) {
    MappingShare& share =
        by_name[responsible_module(report.info, report.stacks.frames(StackId{stack.index}))];
    add_wrapping(share.at_peak_bytes, stack.at_peak_bytes);
    add_wrapping(share.end_bytes, stack.end_bytes);
  }
  std::vector<std::string> names;
  std::vector<MappingShare> shares;
  for (const auto& [name, share] : by_name) {
    shares.push_back(share);
    shares.back().index = static_cast<std::uint32_t>(names.size());
    names.push_back(name);
  }
  sort_shares(shares);
  std::vector<ModuleShare> modules;
  for (const MappingShare& share : shares) modules.push_back({names[share.index], share});
  return modules;
}

const std::string& layer_path(const RecordingReport& report, const MappingShare& share) {
  return report.analysis.layers[share.index].path;
}

// The tables by layer, module and place. Those of one moment show what the shares have at the end.
class MappedTables {
 public:
  enum class Of { whole_recording, one_moment };

  MappedTables(ScreenLines& screen, const RecordingReport& report, std::int64_t whole, Of of)
      : screen_(screen), report_(report), whole_(whole), of_(of) {}

  void draw(const std::vector<MappingShare>& stacks, const std::vector<MappingShare>& layers) {
    // One row for everything outside of any layer shows nothing new, and neither does one module.
    if (layers.size() > 1 || (layers.size() == 1 && layers[0].index != 0))
      table(
          "layer", layers.size(), kOthers,
          [&](std::size_t i, int room) {
            const std::string& path = layer_path(report_, layers[i]);
            return fit_path_to_width(path.empty() ? "(outside of any layer)" : path, room);
          },
          [&](std::size_t i) { return layers[i]; });
    const std::vector<ModuleShare> modules = module_shares(report_, stacks);
    if (modules.size() > 1)
      table(
          "module", modules.size(), kOthers,
          [&](std::size_t i, int room) {
            return fit_to_width(modules[i].name.empty() ? "(unknown)" : modules[i].name, room);
          },
          [&](std::size_t i) { return modules[i].share; });
    table(
        "place", stacks.size(), kPlaces,
        [&](std::size_t i, int room) { return one_line_stack(report_, StackId{stacks[i].index}, room); },
        [&](std::size_t i) { return stacks[i]; });
  }

 private:
  // `name(i, room)`: of row i, in at most `room` columns.
  template <class Name, class Share>
  void table(std::string_view by, std::size_t rows, std::size_t most, Name name, Share share) {
    screen_.line(of_ == Of::one_moment
                     ? fmt::format("  by {}", by)
                     : fmt::format("{:>11}        {:>9}  by {}", "at its peak", "at end", by));
    const std::size_t shown = std::min(rows, most);
    for (std::size_t i = 0; i < shown; ++i)
      screen_.row(figures(share(i)), [&](int room) { return name(i, room); });
    screen_.and_more(rows, shown);
  }

  std::string figures(const MappingShare& share) const {
    if (of_ == Of::one_moment) return share_figures(share.end_bytes, whole_);
    return share_figures(share.at_peak_bytes, whole_) +
           fmt::format("{:>9}  ", format_bytes({share.end_bytes}));
  }

  ScreenLines& screen_;
  const RecordingReport& report_;
  std::int64_t whole_;
  Of of_;
};

// A row of JSON: what names the share, and its bytes.
Json share_json(const MappingShare& share) {
  return {{"at_peak_bytes", share.at_peak_bytes}, {"at_end_bytes", share.end_bytes}};
}
Json share_at_moment_json(const MappingShare& share) { return {{"bytes", share.end_bytes}}; }

void add_shares(Json& json, const RecordingReport& report, const std::vector<MappingShare>& stacks,
                const std::vector<MappingShare>& layers, Json (*bytes_of)(const MappingShare&)) {
  Json& stack_rows = json["stacks"] = Json::array();
  for (std::size_t i = 0; i < std::min(kMappedSharesInJson, stacks.size()); ++i) {
    Json object = bytes_of(stacks[i]);
    object["frames"] = frames_of(report, StackId{stacks[i].index});
    stack_rows.push_back(std::move(object));
  }
  Json& layer_rows = json["layers"] = Json::array();
  for (std::size_t i = 0; i < std::min(kMappedSharesInJson, layers.size()); ++i) {
    Json object = bytes_of(layers[i]);
    object["layer_name"] = layer_path(report, layers[i]);
    layer_rows.push_back(std::move(object));
  }
  Json& modules = json["modules"] = Json::array();
  for (const ModuleShare& module : module_shares(report, stacks)) {
    Json object = bytes_of(module.share);
    set_if(object, "module", module.name);
    modules.push_back(std::move(object));
  }
}

bool is_much(std::int64_t mapped, std::int64_t heap) {
  return mapped > 0 && (mapped >= kMuch || mapped >= heap / kPartOfHeap);
}

}  // namespace

bool has_much_mapped(const RecordingAnalysis& analysis) {
  return is_much(analysis.mapped.peak_bytes, analysis.peak_bytes.value);
}

void add_mapped(ScreenLines& screen, const RecordingReport& report) {
  if (!has_much_mapped(report.analysis)) return;
  const MappedFigures& mapped = report.analysis.mapped;
  screen.heading("Mapped by the program, not part of the heap");
  screen.indented(
      fmt::format("At most {}, at {}; {} at the end. These are whole pages, touched or not, "
                  "without those that malloc maps for the heap.",
                  format_bytes({mapped.peak_bytes}), format_duration(mapped.peak_time),
                  format_bytes({mapped.end_bytes})));
  if (mapped.reserved_peak_bytes > 0)
    screen.indented(
        fmt::format("At most {} of addresses were also reserved without access, which uses no memory.",
                    format_bytes({mapped.reserved_peak_bytes})));
  MappedTables(screen, report, mapped.peak_bytes, MappedTables::Of::whole_recording)
      .draw(mapped.stacks, mapped.layers);
}

void add_mapped(ScreenLines& screen, const RecordingReport& report, const LiveRows& rows) {
  const MappedRows& mapped = rows.mapped;
  if (!is_much(mapped.bytes, rows.bytes.value)) return;
  screen.heading(
      fmt::format("Mapped by the program, not part of the heap: {}", format_bytes({mapped.bytes})));
  MappedTables(screen, report, mapped.bytes, MappedTables::Of::one_moment)
      .draw(mapped.by_stack, mapped.by_layer);
}

Json mapped_json(const RecordingReport& report) {
  const MappedFigures& mapped = report.analysis.mapped;
  Json json = {{"maps", mapped.maps},
               {"unmaps", mapped.unmaps},
               {"total_bytes", mapped.mapped_bytes},
               {"peak_bytes", mapped.peak_bytes},
               {"peak_time_seconds", mapped.peak_time.seconds()},
               {"at_heap_peak_bytes", mapped.bytes_at_heap_peak},
               {"at_end_bytes", mapped.end_bytes},
               {"reserved_peak_bytes", mapped.reserved_peak_bytes},
               {"reserved_at_end_bytes", mapped.reserved_end_bytes}};
  add_shares(json, report, mapped.stacks, mapped.layers, share_json);
  return json;
}

Json mapped_json(const RecordingReport& report, const MappedRows& mapped) {
  Json json = {{"bytes", mapped.bytes}};
  add_shares(json, report, mapped.by_stack, mapped.by_layer, share_at_moment_json);
  return json;
}

}  // namespace headroom::report
