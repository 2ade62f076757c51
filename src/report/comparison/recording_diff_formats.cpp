// JSON, CSV and Markdown of a comparison of recordings. docs/diff.md lists the keys.

#include <fmt/format.h>

#include <limits>

#include "report/comparison/recording_diff.h"
#include "report/recording/recording_views.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"
#include "report/text_layout.h"

namespace headroom::report {
namespace {

using namespace attribution;
using namespace comparison;

void set_figure(Json& object, const std::string& key, const Figure& figure) {
  object[key] = figure.value;
  set_if(object, key + "_standard_error", figure.standard_error);
  set_if(object, key + "_at_most", figure.at_most);
  if (figure.at_least) object[key + "_at_least"] = figure.value;
}

Json side_json(const DiffSide& side) {
  const RecordingAnalysis& analysis = side.recording.analysis;
  Json json;
  json["file"] = side.file;
  json["command"] = side.info.command;
  json["pid"] = side.info.pid;
  json["started_realtime_ns"] = side.info.started_realtime_ns;
  json["full"] = analysis.full;
  json["complete"] = analysis.complete;
  json["ended_by_itself"] = side.info.closed;
  json["problems"] = problems_of(side.info, analysis);
  json["notes"] = side.info.notes;
  json["dropped_events"] = analysis.dropped_events;
  json["duration_seconds"] = analysis.duration.seconds();
  json["allocations"] = analysis.allocations;
  json["total_allocated_bytes"] = analysis.total_allocated_bytes;
  set_figure(json, "peak_bytes", analysis.peak_bytes);
  json["peak_time_seconds"] = analysis.peak_time.seconds();
  set_figure(json, "leaked_bytes", analysis.leaked_bytes);
  set_if(json, "average_lifetime_ns", side.recording.average_lifetime);
  json["mapped_peak_bytes"] = analysis.mapped.peak_bytes;
  return json;
}

Json change_json(const RecordingDiff& diff) {
  Json json;
  const auto set_change = [&](const std::string& key, const FigureChange& figure) {
    json[key] = figure.change();
    set_if(json, key + "_standard_error", figure.standard_error());
  };
  set_change("peak_bytes", diff.peak_bytes);
  if (diff.peak_bytes.before.value != 0)
    json["peak_percent"] = 100 * static_cast<double>(diff.peak_bytes.change()) /
                           static_cast<double>(diff.peak_bytes.before.value);
  json["peak_differs"] = diff.peak_bytes.differs();
  set_change("leaked_bytes", diff.leaked_bytes);
  set_change("allocations", diff.allocations);
  set_change("total_allocated_bytes", diff.allocated_bytes);
  return json;
}

Json figures_json(const GroupFigures& figures, bool counts_known) {
  Json json;
  json["peak_bytes"] = figures.most_bytes;
  json["at_peak_bytes"] = figures.live.peak_bytes;
  json["at_peak_blocks"] = figures.live.peak_blocks;
  json["at_end_bytes"] = figures.live.end_bytes;
  json["at_end_blocks"] = figures.live.end_blocks;
  set_if(json, "at_peak_bytes_standard_error", figures.live.peak_standard_error());
  set_if(json, "at_end_bytes_standard_error", figures.live.end_standard_error());
  if (counts_known) {
    json["allocations"] = figures.allocations;
    json["allocated_bytes"] = figures.allocated_bytes;
  }
  set_if(json, "average_lifetime_ns", figures.average_lifetime());
  json["estimated"] = figures.sampled;
  return json;
}

Json named_row(const DiffRow& row, DiffBy by) {
  if (by == DiffBy::stack) return {{"frames", row.frames}};
  return {{by == DiffBy::layer ? "layer_name" : "module", row.name}};
}

Json row_json(const DiffRow& row, DiffBy by) {
  Json json = named_row(row, by);
  json["change"] = {{"peak_bytes", row.after.most_bytes - row.before.most_bytes},
                    {"at_peak_bytes", row.peak_change()},
                    {"at_end_bytes", row.end_change()}};
  set_if(json["change"], "at_peak_bytes_standard_error", row.peak_standard_error());
  set_if(json["change"], "at_end_bytes_standard_error", row.end_standard_error());
  if (row.counts_known) {
    json["change"]["allocations"] = row.after.allocations - row.before.allocations;
    json["change"]["allocated_bytes"] = row.allocated_change();
  }
  json["before"] = row.in_before ? figures_json(row.before, row.counts_known) : Json();
  json["after"] = row.in_after ? figures_json(row.after, row.counts_known) : Json();
  return json;
}

// A side that lacks the row is null.
Json mapped_json(const DiffRow& row, DiffBy by) {
  Json json = named_row(row, by);
  const auto side = [](std::int64_t at_peak, std::int64_t at_end) {
    return Json{{"at_peak_bytes", at_peak}, {"at_end_bytes", at_end}};
  };
  json["change"] = side(row.peak_change(), row.end_change());
  json["before"] = row.in_before ? side(row.before.live.peak_bytes, row.before.live.end_bytes) : Json();
  json["after"] = row.in_after ? side(row.after.live.peak_bytes, row.after.live.end_bytes) : Json();
  return json;
}

std::vector<DiffBy> chosen_groupings(const DiffReport& report) {
  if (report.choice.by) return {*report.choice.by};
  return {kDiffBy.begin(), kDiffBy.end()};
}

std::vector<const DiffRow*> json_rows_of(const std::vector<DiffRow>& rows, const DiffChoice& choice) {
  return chosen_rows(rows, choice.at_least.value_or(0),
                     choice.top.value_or(std::numeric_limits<std::size_t>::max()));
}

// The rows of each grouping, and the number of those that were left out.
void set_rows(Json& json, const DiffReport& report, bool is_mapped) {
  for (const DiffBy by : chosen_groupings(report)) {
    const auto& all = is_mapped ? report.diff.mapped_by(by) : report.diff.by(by);
    const auto rows = json_rows_of(all, report.choice);
    const std::string key = std::string(name_of(by)) + "s";
    Json& list = json[key] = Json::array();
    for (const DiffRow* row : rows) list.push_back(is_mapped ? mapped_json(*row, by) : row_json(*row, by));
    json[key + "_left_out"] = all.size() - rows.size();
  }
}

Json process_change_json(const ProcessFigures* process) {
  if (process == nullptr) return {};
  return {{"file", process->file},
          {"pid", process->pid},
          {"complete", process->complete},
          {"allocations", process->allocations},
          {"total_allocated_bytes", process->total_allocated_bytes},
          {"peak_bytes", process->peak_bytes},
          {"leaked_bytes", process->leaked_bytes}};
}

// RFC 4180, as the other CSVs.
std::string json_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

constexpr std::size_t kRowsOfAMarkdownTable = 5;
constexpr int kWidestPlace = 120;

void add_figures(std::string& text, const RecordingDiff& diff) {
  MarkdownTable table(1, {"heap", "A", "B", "change", ""});
  const auto add = [&](std::string name, const FigureChange& figure) {
    table.add({std::move(name), figure_words(figure.before), figure_words(figure.after),
               signed_bytes(figure.change()), signed_percent(figure.before.value, figure.after.value)});
  };
  add("peak", diff.peak_bytes);
  add("at the end", diff.leaked_bytes);
  add("allocated", diff.allocated_bytes);
  text += table.text();
}

void add_rows(std::string& text, const DiffReport& report, DiffBy by, std::string_view title) {
  MarkdownTable table(1, {std::string(title), "A", "B", "change"});
  for (const DiffRow* row : chosen_rows(report.diff.by(by), report.choice.at_least.value_or(1),
                                        report.choice.top.value_or(kRowsOfAMarkdownTable))) {
    const std::string name = row->frames.empty() ? (row->name.empty() ? "(outside of any layer)" : row->name)
                                                 : one_line_stack(row->frames, kWidestPlace);
    const std::int64_t before = row->before.live.peak_bytes, after = row->after.live.peak_bytes;
    table.add({code(name), row->in_before ? format_bytes({before}) : "new",
               row->in_after ? format_bytes({after}) : "gone", signed_bytes(after - before)});
  }
  if (!table.empty()) text += table.text();
}

}  // namespace

Json diff_to_json(const DiffReport& report) {
  Json json;
  json["schema_version"] = kRecordingDiffSchemaVersion;
  json["kind"] = "recordings";
  json["verdict"] = diff_verdict(report);
  json["caveats"] = diff_caveats(report);
  json["before"] = side_json(report.before);
  json["after"] = side_json(report.after);
  json["change"] = change_json(report.diff);
  set_rows(json, report, false);
  set_gate(json, report.gate, report.not_judged);
  json["mapped"] = Json::object();
  set_rows(json["mapped"], report, true);
  if (report.before.others.empty() && report.after.others.empty()) return json;
  Json& processes = json["other_processes"] = Json::array();
  for (const ProcessPair& pair : paired_processes(report))
    processes.push_back({{"command", (pair.after != nullptr ? pair.after : pair.before)->command},
                         {"change", {{"peak_bytes", pair.peak_change()}}},
                         {"before", process_change_json(pair.before)},
                         {"after", process_change_json(pair.after)}});
  if (report.choice.add_others) {
    const PeakSums sums = sums_of_peaks(report);
    json["tree"] = {{"sum_of_peaks_before_bytes", sums.before}, {"sum_of_peaks_after_bytes", sums.after}};
  }
  return json;
}

std::string diff_to_csv(const DiffReport& report) {
  std::string text = "by,name";
  constexpr std::string_view kFigures[] = {"peak_bytes",  "at_peak_bytes",   "at_end_bytes",
                                           "allocations", "allocated_bytes", "average_lifetime_ns"};
  for (const std::string_view figure : kFigures) text += fmt::format(",{0}_before,{0}_after", figure);
  text += "\r\n";
  for (const DiffBy by : chosen_groupings(report))
    for (const DiffRow* row : json_rows_of(report.diff.by(by), report.choice)) {
      text += fmt::format(
          "{},{}", name_of(by),
          json_cell(by == DiffBy::stack ? fmt::format("{}", fmt::join(row->frames, " < ")) : row->name));
      const Json before = figures_json(row->before, row->counts_known),
                 after = figures_json(row->after, row->counts_known);
      for (const std::string_view figure : kFigures)
        for (const Json* side : {&before, &after}) {
          const auto value = get_integer(*side, figure);
          text += "," + (value ? std::to_string(*value) : "");
        }
      text += "\r\n";
    }
  return text;
}

std::string diff_to_markdown(const DiffReport& report) {
  std::string text = fmt::format("**{}**\n\n", escaped(diff_verdict(report)));
  add_gate(text, report.gate, report.not_judged);
  add_figures(text, report.diff);
  if (report.choice.by) {
    add_rows(text, report, *report.choice.by, fmt::format("{}, at the peak", name_of(*report.choice.by)));
  } else {
    const auto layers = [](const DiffSide& side) { return side.recording.analysis.layers.size(); };
    if (layers(report.before) > 1 || layers(report.after) > 1)
      add_rows(text, report, DiffBy::layer, "layer, at the peak");
    add_rows(text, report, DiffBy::stack, "place, at the peak");
  }
  add_list(text, "Missing data", diff_caveats(report));
  text += fmt::format("A: {}  \nB: {}\n", code(report.before.file), code(report.after.file));
  return text;
}

}  // namespace headroom::report
