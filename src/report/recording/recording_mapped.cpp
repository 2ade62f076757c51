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
constexpr std::size_t kPlaces = 5, kOthers = 3, kSharesInJson = 50;
constexpr int kShortestPlace = 10;

struct ModuleShare {
  std::string name;  // empty where it is not known
  MappingShare share;
};

// By whose code asked for it, as module_figures() has it for the heap; the largest first.
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

// The tables by layer, module and place. Of one moment it is what the shares have at the end.
class Tables {
 public:
  enum class Of { whole_recording, one_moment };

  Tables(const RecordingReport& report, const std::vector<MappingShare>& stacks,
         const std::vector<MappingShare>& layers, std::int64_t whole, Of of, int width)
      : report_(report), stacks_(stacks), layers_(layers), whole_(whole), of_(of), width_(width) {}

  std::vector<std::string> draw() {
    layers();
    modules();
    places();
    return std::move(lines_);
  }

 private:
  void line(std::string text) { lines_.push_back(std::move(text)); }

  void head(std::string_view by) {
    if (of_ == Of::one_moment)
      line(fmt::format("  by {}", by));
    else
      line(fmt::format("{:>11}        {:>9}  by {}", "at its peak", "at end", by));
  }
  // `name(room)`: in at most `room` columns.
  template <class Name>
  void row(const MappingShare& share, Name name) {
    const std::int64_t bytes = of_ == Of::one_moment ? share.end_bytes : share.at_peak_bytes;
    std::string figures = fmt::format(
        "  {:>9} {:>3.0f} %  ", format_bytes({bytes}),
        100 * static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(1, whole_)));
    if (of_ == Of::whole_recording) figures += fmt::format("{:>9}  ", format_bytes({share.end_bytes}));
    line(figures + name(std::max(kShortestPlace, width_ - display_width(figures))));
  }
  void and_more(std::size_t all, std::size_t most) {
    if (all > most) line(fmt::format("  and {} more", all - most));
  }

  void layers() {
    // Everything outside of any layer says nothing.
    if (layers_.empty() || (layers_.size() == 1 && layers_[0].index == 0)) return;
    head("layer");
    for (std::size_t i = 0; i < std::min(kOthers, layers_.size()); ++i)
      row(layers_[i], [&](int room) {
        const std::string& path = layer_path(report_, layers_[i]);
        return fit_path_to_width(path.empty() ? "(outside of any layer)" : path, room);
      });
    and_more(layers_.size(), kOthers);
  }

  void modules() {
    const std::vector<ModuleShare> modules = module_shares(report_, stacks_);
    if (modules.size() < 2) return;  // one module says nothing
    head("module");
    for (std::size_t i = 0; i < std::min(kOthers, modules.size()); ++i)
      row(modules[i].share, [&](int room) {
        return fit_to_width(modules[i].name.empty() ? "(unknown)" : modules[i].name, room);
      });
    and_more(modules.size(), kOthers);
  }

  void places() {
    head("place");
    for (std::size_t i = 0; i < std::min(kPlaces, stacks_.size()); ++i)
      row(stacks_[i], [&](int room) { return one_line_stack(report_, StackId{stacks_[i].index}, room); });
    and_more(stacks_.size(), kPlaces);
  }

  const RecordingReport& report_;
  const std::vector<MappingShare>&stacks_, &layers_;
  std::int64_t whole_;
  Of of_;
  int width_;
  std::vector<std::string> lines_;
};

// A row of JSON: what names the share, and its bytes.
Json share_json(const MappingShare& share) {
  return {{"at_peak_bytes", share.at_peak_bytes}, {"at_end_bytes", share.end_bytes}};
}
Json share_at_moment_json(const MappingShare& share) { return {{"bytes", share.end_bytes}}; }

void add_shares(Json& json, const RecordingReport& report, const std::vector<MappingShare>& stacks,
                const std::vector<MappingShare>& layers, Json (*bytes_of)(const MappingShare&)) {
  Json& stack_rows = json["stacks"] = Json::array();
  for (std::size_t i = 0; i < std::min(kSharesInJson, stacks.size()); ++i) {
    Json object = bytes_of(stacks[i]);
    object["frames"] = frames_of(report, StackId{stacks[i].index});
    stack_rows.push_back(std::move(object));
  }
  Json& layer_rows = json["layers"] = Json::array();
  for (std::size_t i = 0; i < std::min(kSharesInJson, layers.size()); ++i) {
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

std::vector<std::string> mapped_lines(const RecordingReport& report, int width) {
  if (!has_much_mapped(report.analysis)) return {};
  const MappedFigures& mapped = report.analysis.mapped;
  constexpr int kIndent = 2;
  std::vector<std::string> lines{
      "  " + wrap(fmt::format("At most {}, at {}; {} at the end. These are whole pages, touched or not, "
                              "without those that malloc maps for the heap.",
                              format_bytes({mapped.peak_bytes}), format_duration(mapped.peak_time),
                              format_bytes({mapped.end_bytes})),
                  width - kIndent, kIndent)};
  if (mapped.reserved_peak_bytes > 0)
    lines.push_back(
        "  " +
        wrap(fmt::format("At most {} of addresses were also reserved without access, which uses no memory.",
                         format_bytes({mapped.reserved_peak_bytes})),
             width - kIndent, kIndent));
  for (std::string& row :
       Tables(report, mapped.stacks, mapped.layers, mapped.peak_bytes, Tables::Of::whole_recording, width)
           .draw())
    lines.push_back(std::move(row));
  return lines;
}

std::vector<std::string> mapped_lines(const RecordingReport& report, const LiveRows& rows, int width) {
  const MappedRows& mapped = rows.mapped;
  if (!is_much(mapped.bytes, rows.bytes.value)) return {};
  return Tables(report, mapped.by_stack, mapped.by_layer, mapped.bytes, Tables::Of::one_moment, width).draw();
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
