// summary.csv by RFC 4180: CRLF after each record, quotes around a field that holds a comma, a quote or a
// line break, quotes inside doubled. An absent figure is an empty field.
#include <fmt/format.h>

#include "report/run/outcome.h"
#include "report/run/views.h"

namespace headroom::report {
namespace {

std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}
std::string cell(std::string_view text) { return cell(std::string(text)); }
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
  const auto figure = [&](auto pick) { return latency ? cell(pick(*latency)) : std::string(); };
  column(stage + "_mean_ns", figure([](const LatencySummary& l) { return l.mean_ns; }));
  column(stage + "_sd_ns", figure([](const LatencySummary& l) { return l.sd_ns; }));
  column(stage + "_min_ns", figure([](const LatencySummary& l) { return l.min; }));
  column(stage + "_p50_ns", figure([](const LatencySummary& l) { return l.p50; }));
  column(stage + "_p90_ns", figure([](const LatencySummary& l) { return l.p90; }));
  column(stage + "_p99_ns", figure([](const LatencySummary& l) { return l.p99; }));
  column(stage + "_max_ns", figure([](const LatencySummary& l) { return l.max; }));
  column(stage + "_p90_bound_ns", figure([](const LatencySummary& l) { return l.p90_bound; }));
  column(stage + "_p99_bound_ns", figure([](const LatencySummary& l) { return l.p99_bound; }));
}

void columns_of(auto& column, const ModelResult& model, const std::optional<Limit>& limit) {
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
}

}  // namespace

std::string to_csv(const BenchResult& result) {
  std::string header;
  const auto add = [](std::string& record, const std::string& text) {
    if (!record.empty()) record += ',';
    record += text;
  };
  const auto add_title = [&](const std::string& title, const std::string&) { add(header, title); };
  columns_of(add_title, ModelResult{}, std::nullopt);

  std::string csv = header + "\r\n";
  for (const ModelResult* model : in_reading_order(result.models)) {
    std::string record;
    bool first = true;
    const auto add_cell = [&](const std::string&, const std::string& text) {
      if (!first) record += ',';
      first = false;
      record += text;
    };
    columns_of(add_cell, *model, result.limit);
    csv += record + "\r\n";
  }
  return csv;
}

}  // namespace headroom::report
