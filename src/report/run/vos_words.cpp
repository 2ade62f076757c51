#include "report/run/vos_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/text.h"
#include "report/words.h"

namespace headroom::report {
namespace {

constexpr double kMebibyte = 1 << 20;

std::string in_mib(const std::optional<Bytes>& bytes) {
  return bytes ? fmt::format("{:.1f}", static_cast<double>(bytes->count) / kMebibyte) : std::string();
}

template <class Number>
std::string rounded(const std::optional<Number>& number, int digits) {
  return number ? fmt::format("{:.{}f}", *number, digits) : std::string();
}

// "-0.000" tells that an interval begins below 0.
std::string in_signed_mib(double bytes) { return fmt::format("{:+.3f}", bytes / kMebibyte); }

std::string interval_of(const GrowthSlope& growth) {
  return fmt::format("{} to {}", in_signed_mib(growth.low), in_signed_mib(growth.high));
}

}  // namespace

std::string words_for_slope(const std::optional<GrowthSlope>& growth) {
  return growth ? in_signed_mib(growth->slope) : std::string(kAbsent);
}

std::string words_for_growth(const GrowthSlope& growth, std::string_view step) {
  return fmt::format("{} MiB per {} ({})", in_signed_mib(growth.slope), step, interval_of(growth));
}

std::vector<std::string> words_for_leaks(const VosResult& vos) {
  std::vector<std::string> words;
  for (const VosLeak& leak : vos.leaks)
    words.push_back(
        fmt::format("{} leaks: {}", leak.memory == "gpu" ? "GPU memory" : "host memory",
                    words_for_growth(leak.growth, leak.level == "model" ? "load of the model" : leak.level)));
  return words;
}

std::string words_for_label(const VosResult& vos) {
  if (vos.label.empty()) return {};
  return vos.label +
         ". Such files run for time and memory only: J and F of their masks would not be the model's";
}

std::string words_for_prompt(const VosResult& vos, const std::optional<SourceMetadata>& source) {
  const std::string_view kind = name_of(vos.prompt);
  if (!source || source->prompted_by_file == 0) return std::string(kind);
  return source->prompted_by_mask == 0 ? "file" : fmt::format("{}, file", kind);
}

std::string longer_words_for_prompt(const VosResult& vos, const std::optional<SourceMetadata>& source) {
  const std::string_view kind = name_of(vos.prompt);
  if (!source || source->prompted_by_file == 0) return std::string(kind);
  if (source->prompted_by_mask == 0) return "prompts file";
  return fmt::format("{} for {}, prompts file for {}", kind, counted(source->prompted_by_mask, "object"),
                     source->prompted_by_file);
}

std::string words_for_input_sizes(const BenchResult& result) {
  std::set<int> sides;
  for (const ModelResult& model : result.models)
    if (model.vos && model.vos->side > 0) sides.insert(model.vos->side);
  std::string words;
  for (const int side : sides) words += fmt::format("{}{} × {}", words.empty() ? "" : ", ", side, side);
  return words;
}

std::string words_for_growth_intervals(const BenchResult& result) {
  std::string words;
  const auto add = [&](const std::string& name, const std::optional<GrowthSlope>& growth) {
    if (growth)
      words += fmt::format("{}{} {} ({})", words.empty() ? "" : "; ", name, words_for_slope(growth),
                           interval_of(*growth));
  };
  for (const ModelResult& model : result.models) {
    if (!model.vos) continue;
    add(model.name, model.vos->per_frame);
    add(model.name + " on the GPU", model.vos->gpu_per_frame);
  }
  return words.empty() ? words : "Growth in MiB per frame, with its 95 % interval: " + words;
}

std::string words_for_score(const std::optional<double>& score) {
  return score ? fmt::format("{:.1f} %", 100 * *score) : std::string(kAbsent);
}

std::vector<SizeRow> rows_by_size(const VosResult& vos) {
  std::vector<SizeRow> rows;
  for (const VosClip& clip : vos.clips) {
    auto row = std::ranges::find_if(rows, [&](const SizeRow& known) {
      return known.width == clip.width && known.height == clip.height && known.objects == clip.objects;
    });
    if (row == rows.end()) row = rows.insert(rows.end(), {clip.width, clip.height, clip.objects});
    ++row->clips;
    row->peak = std::max(row->peak, clip.peak);
    row->gpu_peak = std::max(row->gpu_peak, clip.gpu_peak);
  }
  std::ranges::sort(rows, {}, [](const SizeRow& row) {
    return std::tuple(std::int64_t{row.width} * row.height, row.width, row.objects);
  });
  return rows;
}

std::string to_reference_csv(const BenchResult& result) {
  std::string csv =
      "video,object,model,imgsz,frames,fps,latency_ms,gpu_peak_alloc_MiB,gpu_peak_reserved_MiB,cpu_peak_rss_"
      "MiB,"
      "J,JandF_proxy,overlay,cudnn_benchmark,setup_ms\r\n";
  for (const ModelResult& model : result.models) {
    if (!model.vos) continue;
    const bool is_tuned = !model.trials.empty();
    const std::string setup = model.model_load_time
                                  ? rounded(std::optional(model.model_load_time->milliseconds()), 1)
                                  : std::string();
    for (const VosObjectScore& score : model.vos->scores) {
      const auto clip = std::ranges::find_if(model.vos->clips, [&](const VosClip& one) {
        return one.video == score.video && (one.object.empty() || one.object == score.object);
      });
      if (clip == model.vos->clips.end()) continue;
      const auto latency = clip->fps ? std::optional(1000 / *clip->fps) : std::nullopt;
      // The ledger has one figure: what the runtime requested, which is what a PyTorch allocator reserves.
      csv += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},,{},{}\r\n", csv_field(score.video),
                         csv_field(score.object), csv_field(model.name), model.vos->side, clip->frames,
                         rounded(clip->fps, 2), rounded(latency, 1), "", in_mib(clip->gpu_peak),
                         in_mib(clip->peak), rounded(score.reference_j, 4),
                         rounded(score.reference_j_and_f, 4), is_tuned ? "True" : "False", setup);
    }
  }
  return csv;
}

}  // namespace headroom::report
