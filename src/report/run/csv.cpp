// summary.csv by RFC 4180: CRLF after each record, quotes around a field that holds a comma, a quote or a
// line break, quotes inside doubled. An absent figure is an empty field.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>

#include "base/text.h"
#include "report/run/run_words.h"
#include "report/run/views.h"

namespace headroom::report {

namespace {

std::string cell(std::string_view text) { return csv_field(text); }
std::string cell(std::int64_t value) { return std::to_string(value); }
std::string cell(double value) { return fmt::format("{}", value); }
std::string cell(bool value) { return value ? "true" : "false"; }
std::string cell(Bytes value) { return std::to_string(value.count); }
std::string cell(Nanoseconds value) { return std::to_string(value.count); }
template <class T>
std::string cell(const std::optional<T>& value) {
  return value ? cell(*value) : std::string();
}

// Header and rows come from one list of columns: `column` is called once for each, in order.
void columns_of_latency(auto& column, const std::string& stage,
                        const std::optional<LatencySummary>& latency) {
  const auto figure = [&](auto LatencySummary::*member) {
    return latency ? cell((*latency).*member) : std::string();
  };
  column(stage + "_mean_ns", figure(&LatencySummary::mean_ns));
  column(stage + "_sd_ns", figure(&LatencySummary::sd_ns));
  column(stage + "_min_ns", figure(&LatencySummary::min));
  column(stage + "_p50_ns", figure(&LatencySummary::p50));
  column(stage + "_p90_ns", figure(&LatencySummary::p90));
  column(stage + "_p99_ns", figure(&LatencySummary::p99));
  column(stage + "_max_ns", figure(&LatencySummary::max));
  column(stage + "_p90_bound_ns", figure(&LatencySummary::p90_bound));
  column(stage + "_p99_bound_ns", figure(&LatencySummary::p99_bound));
}

// `has_vos`: some model of the run has results of --task vos.
void columns_of(auto& column, const ModelResult& model, const std::optional<Limit>& limit, bool has_vos) {
  column("name", cell(model.name));
  column("status", cell(name_of(model.status)));
  column("backend", cell(model.backend));
  column("backend_version", cell(model.backend_version));
  column("task", cell(model.task));
  column("input", cell(model.input));
  column("frames", cell(model.frames));
  column("fps", cell(model.fps));
  column("pipeline_fps", cell(model.pipeline_fps));
  columns_of_latency(column, "inference", model.inference);
  columns_of_latency(column, "decode", model.decode);
  columns_of_latency(column, "preprocess", model.preprocess);
  columns_of_latency(column, "postprocess", model.postprocess);
  columns_of_latency(column, "end_to_end", model.end_to_end);
  column("runtime_load_time_ns", cell(model.runtime_load_time));
  column("model_load_time_ns", cell(model.model_load_time));
  column("warmup_time_ns", cell(model.warmup_time));
  const auto& found = model.detections;
  column("detections_per_frame_mean", found ? cell(found->mean) : "");
  column("detections_per_frame_min", found ? cell(found->min) : "");
  column("detections_per_frame_max", found ? cell(found->max) : "");
  column("start_bytes", cell(model.memory.start));
  column("runtime_bytes", cell(model.memory.runtime));
  column("loaded_bytes", cell(model.memory.loaded));
  column("load_peak_bytes", cell(model.memory.load_peak));
  column("run_mean_bytes", cell(model.memory.run_mean));
  column("run_peak_bytes", cell(model.memory.run_peak));
  column("residual_bytes", cell(model.memory.residual));
  column("frames_bytes", cell(model.memory.frames));
  column("cgroup_peak_bytes", cell(model.memory.cgroup_peak));
  column("pss_run_peak_bytes", cell(model.memory.pss_run_peak));
  column("limit_peak_bytes", cell(limit_peak(model.memory, limit)));
  column("file_size_bytes", cell(model.file_size));
  column("cpu_percent", cell(model.cpu_percent));
  column("limit_bytes", limit ? cell(limit->bytes) : "");
  column("limit_type", limit ? cell(name_of(limit->type)) : "");
  column("within_limit", cell(model.memory.within_limit));
  column("violations", cell(model.memory.violations));
  column("settings", cell(model.settings.describe()));
  column("died_in", model.died_in ? cell(name_of(*model.died_in)) : "");
  column("error", cell(model.error));
  column("path", cell(model.path));
  if (!has_vos) return;
  const VosResult vos = model.vos.value_or(VosResult{});
  column("j_and_f", cell(vos.j_and_f));
  column("j_mean", cell(vos.j));
  column("f_mean", cell(vos.f));
  column("growth_per_frame_bytes", vos.per_frame ? cell(vos.per_frame->slope) : "");
  column("vos_label", vos.label);
}

constexpr std::size_t kColumns = 6;
// 31 years: sums of a frame's times cannot overflow.
constexpr std::int64_t kLongest = 1'000'000'000'000'000'000;

std::optional<FrameTimes> frame_of(std::string_view line) {
  std::array<std::optional<std::int64_t>, kColumns> fields;
  for (std::size_t i = 0; i < kColumns; ++i) {
    const std::size_t comma = line.find(',');
    if (comma == std::string_view::npos && i + 1 < kColumns) return std::nullopt;
    const std::string_view field = line.substr(0, comma);
    fields[i] = parse_number<std::int64_t>(field);
    const bool may_be_absent = i + 1 == kColumns && field.empty();
    if (!may_be_absent && (!fields[i] || *fields[i] < 0 || *fields[i] > kLongest)) return std::nullopt;
    line = comma == std::string_view::npos ? std::string_view() : line.substr(comma + 1);
  }
  FrameTimes frame{{*fields[0]}, {*fields[1]}, {*fields[2]}, {*fields[3]}, *fields[4]};
  if (fields[5]) frame.device = Nanoseconds{*fields[5]};
  return frame;
}

}  // namespace

std::string to_csv(const BenchResult& result) {
  std::vector<std::string> record;
  const auto add_title = [&](std::string title, const std::string&) { record.push_back(std::move(title)); };
  const auto add_cell = [&](const std::string&, std::string text) { record.push_back(std::move(text)); };
  const bool has_vos =
      std::ranges::any_of(result.models, [](const ModelResult& model) { return model.vos.has_value(); });
  columns_of(add_title, ModelResult{}, std::nullopt, has_vos);
  std::string csv = fmt::format("{}\r\n", fmt::join(record, ","));
  for (const ModelResult* model : in_reading_order(result.models)) {
    record.clear();
    columns_of(add_cell, *model, result.limit, has_vos);
    csv += fmt::format("{}\r\n", fmt::join(record, ","));
  }
  return csv;
}

void append_csv(std::string& text, std::span<const FrameTimes> frames) {
  for (const FrameTimes& frame : frames) {
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},", frame.decode.count, frame.preprocess.count,
                   frame.inference.count, frame.postprocess.count, frame.findings);
    if (frame.device) fmt::format_to(std::back_inserter(text), "{}", frame.device->count);
    text += '\n';
  }
}

Result<std::vector<FrameTimes>> read_frame_times(std::string_view text, std::string_view name) {
  const std::string fix = "measure the run again, or remove the file";
  std::size_t end = text.find('\n');
  const std::string_view columns = kFrameTimesHeader.substr(0, kFrameTimesHeader.size() - 1);
  if (end == std::string_view::npos || !text.substr(0, end).starts_with(columns))
    return input_error(fmt::format("no frame times in {}", name),
                       fmt::format("the first line is not {}", columns), fix);
  std::vector<FrameTimes> frames;
  for (std::size_t line = 2; end + 1 < text.size(); ++line) {
    const std::size_t start = end + 1;
    end = text.find('\n', start);
    if (end == std::string_view::npos) end = text.size();
    const auto frame = frame_of(text.substr(start, end - start));
    if (!frame)
      return input_error(fmt::format("invalid frame in {}:{}", name, line), "expected six numbers", fix);
    frames.push_back(*frame);
  }
  return frames;
}

}  // namespace headroom::report
