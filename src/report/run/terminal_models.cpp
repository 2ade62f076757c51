#include "report/run/terminal_models.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/display_width.h"
#include "report/run/limit_words.h"
#include "report/run/outcome.h"
#include "report/run/tuning_words.h"
#include "report/terminal_table.h"
#include "report/words.h"

namespace headroom::report {
namespace {

constexpr int kWorthwhileName = 16;
constexpr int kWorthwhileSettings = 30;  // the longest setting has 24 characters
constexpr int kRoomForKeptAs = 64;       // where a table is narrower, its words stand behind the settings

using Models = std::vector<const ModelResult*>;

// One unit for a whole column, named above the table: figures compare down it, and names get the space.
std::string in_milliseconds(Nanoseconds time) {
  const double ms = time.milliseconds();
  return fmt::format("{:.{}f}", ms, ms < 9.9995 ? 3 : ms < 99.995 ? 2 : 1);
}
std::string in_milliseconds(const std::optional<Nanoseconds>& time) {
  return time ? in_milliseconds(*time) : std::string(kAbsent);
}
std::string in_mebibytes(const std::optional<Bytes>& bytes) {
  if (!bytes) return std::string(kAbsent);
  return fmt::format("{:.1f}", static_cast<double>(bytes->count) / (1 << 20));
}

std::string short_status_of(const ModelResult& model) {
  const Outcome outcome = outcome_of(model);
  if (outcome == Outcome::over) return "over";
  return std::string(outcome == Outcome::fallen ? name_of(model.status) : words_for_outcome(model));
}

std::string_view paint_of_status(const ModelResult& model) {
  switch (outcome_of(model)) {
    case Outcome::ok:
    case Outcome::prepared:
      return kGreen;
    case Outcome::over:
    case Outcome::fallen:
      return kRed;
    case Outcome::cut_short:
    case Outcome::not_reached:
    case Outcome::skipped:
      return kYellow;
  }
  return kYellow;
}

Column column_of(const Models& models, std::string title, int goes, auto cell) {
  Column column{std::move(title), goes};
  for (const ModelResult* model : models) column.cells.push_back(cell(*model));
  return column;
}

std::vector<Column> name_and_status(const Models& models) {
  Column names = column_of(models, "MODEL", 0, [](const ModelResult& model) { return model.name; });
  Column states = column_of(models, "STATUS", 0, short_status_of);
  for (const ModelResult* model : models) states.paints.push_back(paint_of_status(*model));
  names.to_the_right = states.to_the_right = false;
  return {names, states};
}

bool is_marked(const std::string& cell) { return cell.ends_with(kUnboundedMark); }

// Digits stay below digits: a cell without a mark gets its place all the same.
Column percentile_column(const Models& models, std::string title, int goes, auto value, auto bound) {
  Column column = column_of(models, std::move(title), goes, [&](const ModelResult& model) {
    if (!model.inference) return std::string(kAbsent);
    return in_milliseconds(value(*model.inference)) +
           std::string(bound(*model.inference) ? "" : kUnboundedMark);
  });
  if (std::none_of(column.cells.begin(), column.cells.end(), is_marked)) return column;
  column.title += ' ';
  for (std::string& cell : column.cells)
    if (!is_marked(cell)) cell += ' ';
  return column;
}

bool any_of(const Models& models, auto has) {
  return std::any_of(models.begin(), models.end(), [&](const ModelResult* model) { return has(*model); });
}

std::string measured_table(const BenchResult& result, const Models& models, bool color, int width) {
  const std::optional<Limit>& limit = result.limit;
  const auto counted_peak = [&](const ModelResult& model) { return limit_peak(model.memory, limit); };
  const bool against_limit =
      any_of(models, [&](const ModelResult& model) { return counted_peak(model).has_value(); });
  const bool by_group = against_limit && counts_by_group(*limit);
  const bool by_reservation = against_limit && counts_by_reservation(*limit);
  const bool finds = any_of(models, [](const ModelResult& model) { return model.detections.has_value(); });

  std::vector<Column> columns = name_and_status(models);
  const auto add = [&](std::string title, int goes, auto cell) {
    columns.push_back(column_of(models, std::move(title), goes, cell));
  };
  add("N", 3, [](const ModelResult& model) {
    return model.inference ? std::to_string(model.inference->n) : std::string(kAbsent);
  });
  add("FPS", 0, [](const ModelResult& model) { return words_for_rate(model.fps); });
  add("P50", 6, [](const ModelResult& model) {
    return model.inference ? in_milliseconds(model.inference->p50) : std::string(kAbsent);
  });
  columns.push_back(percentile_column(
      models, "P90", 1, [](const LatencySummary& l) { return l.p90; },
      [](const LatencySummary& l) { return l.p90_bound; }));
  columns.push_back(percentile_column(
      models, "P99", 4, [](const LatencySummary& l) { return l.p99; },
      [](const LatencySummary& l) { return l.p99_bound; }));
  if (finds)
    add("DET", 2, [](const ModelResult& model) {
      return model.detections ? words_for_average(model.detections->mean) : std::string(kAbsent);
    });
  add(by_group         ? "CHARGED"
      : by_reservation ? "RESERVED"
                       : "PEAK",
      0, [&](const ModelResult& model) {
        return in_mebibytes(against_limit ? counted_peak(model) : peak_of(model));
      });
  if (against_limit)
    add("LIMIT", 5, [&](const ModelResult& model) {
      const auto peak = counted_peak(model);
      return peak ? share_of(*peak, *limit) : std::string(kAbsent);
    });
  fit_columns(columns, width, kWorthwhileName);

  const auto shown = [&](std::string_view title) {
    return std::any_of(columns.begin(), columns.end(),
                       [&](const Column& column) { return column.title == title; });
  };
  std::string legend = "Latency in ms";
  if (shown("DET")) legend += ", DET: mean detections per frame";
  if (by_group)
    legend += fmt::format(", CHARGED: peak in MiB charged to the limit of {}", format_bytes(limit->bytes));
  else if (by_reservation)
    legend += fmt::format(", RESERVED: peak in MiB of reserved private memory, against the limit of {}",
                          format_bytes(limit->bytes));
  else if (against_limit)
    legend += fmt::format(", PEAK: resident in MiB, against the limit of {}", format_bytes(limit->bytes));
  else
    legend += ", PEAK: resident in MiB";
  std::string text = wrap(legend, width, 0) + "\n\n" + table_of(columns, color);
  const bool marked = std::any_of(columns.begin() + 2, columns.end(), [](const Column& column) {
    return std::any_of(column.cells.begin(), column.cells.end(), is_marked);
  });
  if (marked) text += wrap(fmt::format("{} {}", kUnboundedMark, kUnboundedFootnote), width, 2) + "\n";
  return text + "\n";
}

std::string trials_of(const ModelResult& model, bool color, int width) {
  const RuntimeSettings& base = model.trials.front().settings;
  const bool has_room = width >= kRoomForKeptAs;
  std::vector<Column> columns{{"SETTINGS", 0, false}, {"STATUS", 2, false}, {"P50", 0}, {"PEAK", 1}};
  if (has_room) columns.push_back({"KEPT AS", 0, false});
  for (const TuneTrial& trial : model.trials) {
    const std::string change = difference(trial.settings, base);
    columns[0].cells.push_back(&trial == &model.trials.front() ? "the first"
                               : change.empty()                ? trial.settings.describe()
                                                               : change);
    columns[1].cells.emplace_back(trial.within_limit == false ? "over" : name_of(trial.status));
    columns[2].cells.push_back(in_milliseconds(trial.p50));
    columns[3].cells.push_back(in_mebibytes(trial.counted_peak()));
    const std::string kept = kept_as(model, trial);
    if (has_room)
      columns[4].cells.push_back(kept);
    else if (!kept.empty())
      columns[0].cells.back() += fmt::format(" ({})", kept);
  }
  fit_columns(columns, width, kWorthwhileSettings, TooLong::goes_on_below);
  const bool on_gpu = std::any_of(model.trials.begin(), model.trials.end(),
                                  [](const TuneTrial& trial) { return trial.gpu_peak.has_value(); });
  return wrap(fmt::format("Settings tried for {}: P50 in ms, peak{} in MiB. The first: {}. The others show "
                          "only what they change",
                          model.name, on_gpu ? " of GPU memory" : "", base.describe()),
              width, 0) +
         "\n\n" + table_of(columns, color) + "\n";
}

std::string prepared_table(const Models& models, bool color, int width) {
  std::vector<Column> columns = name_and_status(models);
  const auto add = [&](std::string title, int goes, auto text_of) {
    columns.push_back(column_of(models, std::move(title), goes, [&](const ModelResult& model) {
      const std::string& text = text_of(model);
      return text.empty() ? std::string(kAbsent) : text;
    }));
    columns.back().to_the_right = false;
  };
  add("TASK", 1, [](const ModelResult& model) -> const std::string& { return model.task; });
  add("INPUT", 2, [](const ModelResult& model) -> const std::string& { return model.input; });
  add("BACKEND", 3, [](const ModelResult& model) -> const std::string& { return model.backend; });
  fit_columns(columns, width, kWorthwhileName);
  std::string text = table_of(columns, color) + "\n";
  for (const ModelResult* model : models)
    if (!model->trials.empty()) text += trials_of(*model, color, width);
  return text;
}

}  // namespace

std::string models_table(const BenchResult& result, bool color, int width) {
  if (result.models.empty()) return {};
  const Models models = in_reading_order(result.models);
  const bool prepared =
      any_of(models, [](const ModelResult& model) { return outcome_of(model) == Outcome::prepared; });
  return prepared ? prepared_table(models, color, width) : measured_table(result, models, color, width);
}

std::string phases_table(const BenchResult& result, bool color, int width) {
  Models models = in_reading_order(result.models);
  std::erase_if(models, [](const ModelResult* model) {
    return !model->memory.loaded && !peak_of(*model);  // it never had a model in memory
  });
  if (models.empty()) return {};
  std::vector<Column> columns{
      column_of(models, "MODEL", 0, [](const ModelResult& model) { return model.name; })};
  columns.front().to_the_right = false;
  const bool prepared =
      any_of(models, [](const ModelResult& model) { return outcome_of(model) == Outcome::prepared; });
  const auto add = [&](std::string title, int goes, std::optional<Bytes> ModelMemory::*figure) {
    const auto has = [&](const ModelResult& model) { return (model.memory.*figure).has_value(); };
    if (prepared && !any_of(models, has)) return;  // a warm-up has no mean and nothing is unloaded
    columns.push_back(column_of(models, std::move(title), goes, [&](const ModelResult& model) {
      return in_mebibytes(model.memory.*figure);
    }));
  };
  add("START", 1, &ModelMemory::start);
  add("RUNTIME", 2, &ModelMemory::runtime);
  add("LOADED", 5, &ModelMemory::loaded);
  add("LOAD PEAK", 0, &ModelMemory::load_peak);
  add("RUN MEAN", 3, &ModelMemory::run_mean);
  add("RUN PEAK", 0, &ModelMemory::run_peak);
  add("UNLOADED", 4, &ModelMemory::residual);
  fit_columns(columns, width, kWorthwhileName);
  const std::string_view legend =
      prepared ? "Resident memory by phase in MiB, during the warm-up of the setup phase"
               : "Resident memory by phase in MiB";
  return wrap(legend, width, 0) + "\n\n" + table_of(columns, color) + "\n";
}

std::string gpu_table(const BenchResult& result, bool color, int width) {
  Models models = in_reading_order(result.models);
  std::erase_if(models, [](const ModelResult* model) { return model->gpu_memory.empty(); });
  if (models.empty()) return {};
  std::vector<Column> columns{
      column_of(models, "MODEL", 0, [](const ModelResult& model) { return model.name; }),
      column_of(models, "DEVICE", 1,
                [](const ModelResult& model) { return model.gpu_memory.front().device; })};
  columns[0].to_the_right = columns[1].to_the_right = false;
  columns.push_back(column_of(models, "P50", 2, [](const ModelResult& model) {
    return model.device_time ? in_milliseconds(model.device_time->p50) : std::string(kAbsent);
  }));
  const auto add = [&](std::string title, int goes, std::optional<Bytes> GpuMemory::*figure) {
    columns.push_back(column_of(models, std::move(title), goes, [&](const ModelResult& model) {
      return in_mebibytes(model.gpu_memory.front().*figure);
    }));
  };
  add("LOADED", 4, &GpuMemory::loaded);
  add("LOAD PEAK", 0, &GpuMemory::load_peak);
  add("RUN PEAK", 0, &GpuMemory::run_peak);
  add("UNLOADED", 5, &GpuMemory::residual);
  add("PROCESS", 3, &GpuMemory::process_running);
  fit_columns(columns, width, kWorthwhileName);
  return wrap(
             "GPU: latency in ms by the GPU's clock, memory by phase in MiB. PROCESS: the driver's figure, "
             "with context and modules",
             width, 0) +
         "\n\n" + table_of(columns, color) + "\n";
}

// A column of the table of kinds: memory of these kinds in a model's heap at its peak.
struct KindsColumn {
  std::string title;
  std::vector<MemoryKind> kinds;

  Bytes sum_of(const ModelResult& model) const {
    Bytes sum;
    for (const MemoryShare& share : model.layers->shares)
      if (std::find(kinds.begin(), kinds.end(), share.kind) != kinds.end()) sum += share.bytes;
    return sum;
  }
  Bytes largest_of(const Models& models) const {
    Bytes largest;
    for (const ModelResult* model : models) largest = std::max(largest, sum_of(*model));
    return largest;
  }
};

// The columns of a row add up to the heap's peak, so what there is no room for is part of OTHER: the kinds of
// which every model holds the least.
std::string kinds_table(const BenchResult& result, bool color, int width) {
  Models models = in_reading_order(result.models);
  std::erase_if(models, [](const ModelResult* model) { return !model->layers; });
  if (models.empty()) return {};
  std::vector<KindsColumn> parts{
      {"WEIGHTS", {MemoryKind::weights}},
      {"GRAPH", {MemoryKind::graph}},
      {"TENSORS", {MemoryKind::tensors}},
      {"ARENA SLACK", {MemoryKind::arena_rounding, MemoryKind::arena_unused}},
      {"WORKSPACE", {MemoryKind::workspace}},
      // Seldom: the arena grew after the profiled runs, or the profile tells of none.
      {"RUNS, NOT SPLIT", {MemoryKind::arena_later, MemoryKind::run_later, MemoryKind::run}},
      {"OTHER", {MemoryKind::module, MemoryKind::tracing, MemoryKind::unnamed}}};
  std::erase_if(parts, [&](const KindsColumn& part) {
    return part.title == "RUNS, NOT SPLIT" && part.largest_of(models).count == 0;
  });
  // Weights and tensors stay as long as there is room for more of a name than its title.
  const auto stays_long = [](const KindsColumn& part) {
    return part.title == "WEIGHTS" || part.title == "TENSORS" || part.title == "OTHER";
  };
  const auto goes = [&](const KindsColumn& part, bool is_last_try) {
    if (part.title == "OTHER" || (stays_long(part) && !is_last_try)) return 0;
    const auto is_smaller = [&](const KindsColumn& other) {
      return other.largest_of(models) < part.largest_of(models);
    };
    return 1 + static_cast<int>(std::count_if(parts.begin(), parts.end(), is_smaller));
  };
  std::vector<Column> columns;
  std::string folded;
  for (std::size_t left = 0; left != parts.size();) {
    left = parts.size();
    const bool is_last_try = std::all_of(parts.begin(), parts.end(), stays_long);
    columns = {column_of(models, "MODEL", 0, [](const ModelResult& model) { return model.name; })};
    columns.front().to_the_right = false;
    for (const KindsColumn& part : parts)
      columns.push_back(column_of(models, part.title, goes(part, is_last_try), [&](const ModelResult& model) {
        return in_mebibytes(part.sum_of(model));
      }));
    columns.push_back(column_of(models, "HEAP PEAK", 0,
                                [](const ModelResult& model) { return in_mebibytes(model.layers->peak); }));
    fit_columns(columns, width, is_last_try ? display_width(columns.front().title) : kWorthwhileName);
    std::vector<MemoryKind> gone;
    std::erase_if(parts, [&](const KindsColumn& part) {
      const auto is_it = [&](const Column& column) { return column.title == part.title; };
      if (std::any_of(columns.begin(), columns.end(), is_it)) return false;
      folded += (folded.empty() ? "" : ", ") + part.title;
      gone.insert(gone.end(), part.kinds.begin(), part.kinds.end());
      return true;
    });
    // OTHER may be wider then, and leave room for less.
    parts.back().kinds.insert(parts.back().kinds.end(), gone.begin(), gone.end());
  }
  return wrap("Heap at its peak in MiB, from a separate traced run" +
                  (folded.empty() ? "" : "; OTHER includes " + folded),
              width, 0) +
         "\n\n" + table_of(columns, color) + "\n";
}

}  // namespace headroom::report
