// The screen at the end of `headroom bench`: the main figures, the verdict and warnings.

#include <fmt/format.h>
#include <algorithm>

#include "base/utf8.h"
#include "report/run/run_words.h"
#include "report/run/views.h"
#include "report/run/vos_words.h"
#include "report/text_layout.h"
#include "report/words.h"
#include "types/enum_names.h"

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
std::string p50_cell(const std::optional<LatencySummary>& latency) {
  return latency ? in_milliseconds(latency->p50) : std::string(kAbsent);
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

Column column_of(const Models& models, std::string title, int goes, auto cell) {
  Column column{std::move(title), goes};
  for (const ModelResult* model : models) column.cells.push_back(cell(*model));
  return column;
}

Column name_column(const Models& models) {
  Column names = column_of(models, "MODEL", 0, [](const ModelResult& model) { return model.name; });
  names.to_the_right = false;
  return names;
}

std::vector<Column> name_and_status(const Models& models) {
  Column states = column_of(models, "STATUS", 0, short_status_of);
  for (const ModelResult* model : models)  // ok, over, prepared, fallen, cut_short, not_reached, skipped
    states.paints.push_back(
        name_in({kGreen, kRed, kGreen, kRed, kYellow, kYellow, kYellow}, outcome_of(*model)));
  states.to_the_right = false;
  return {name_column(models), states};
}

// A table below a line that explains its columns.
std::string explained(std::string_view legend, const std::vector<Column>& columns, bool color, int width) {
  return wrap(legend, width, 0) + "\n\n" + table_of(columns, color);
}

bool is_marked(const std::string& cell) { return cell.ends_with(kUnboundedMark); }

// Digits stay below digits: a cell without a mark gets its place all the same.
Column percentile_column(const Models& models, std::string title, int goes, auto value, auto bound) {
  Column column = column_of(models, std::move(title), goes, [&](const ModelResult& model) {
    if (!model.inference) return std::string(kAbsent);
    const LatencySummary& latency = *model.inference;
    return in_milliseconds(latency.*value) + std::string(latency.*bound ? "" : kUnboundedMark);
  });
  if (std::ranges::none_of(column.cells, is_marked)) return column;
  column.title += ' ';
  for (std::string& cell : column.cells)
    if (!is_marked(cell)) cell += ' ';
  return column;
}

bool any_of(const Models& models, auto has) {
  return std::ranges::any_of(models, [&](const ModelResult* model) { return has(*model); });
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
  add("N", 4, [](const ModelResult& model) {
    return model.inference ? std::to_string(model.inference->n) : std::string(kAbsent);
  });
  add("FPS", 0, [](const ModelResult& model) { return words_for_rate(model.fps); });
  add("P50", 7, [](const ModelResult& model) { return p50_cell(model.inference); });
  columns.push_back(percentile_column(models, "P90", 2, &LatencySummary::p90, &LatencySummary::p90_bound));
  columns.push_back(percentile_column(models, "P99", 5, &LatencySummary::p99, &LatencySummary::p99_bound));
  if (finds)
    add("DET", 3, [](const ModelResult& model) {
      return model.detections ? words_for_average(model.detections->mean) : std::string(kAbsent);
    });
  add(by_group         ? "CHARGED"
      : by_reservation ? "RESERVED"
                       : "PEAK",
      0, [&](const ModelResult& model) {
        return in_mebibytes(against_limit ? counted_peak(model) : peak_of(model));
      });
  if (against_limit)
    add("LIMIT", 6, [&](const ModelResult& model) {
      const auto peak = counted_peak(model);
      return peak ? share_of(*peak, *limit) : std::string(kAbsent);
    });
  const auto board_share = [&](const ModelResult& model) {
    return share_of_board(peak_of(model), result.host);
  };
  if (any_of(models, [&](const ModelResult& model) { return board_share(model).has_value(); }))
    add("BOARD", 1, [&](const ModelResult& model) {
      const auto share = board_share(model);
      return share ? words_for_share(*share) : std::string(kAbsent);
    });
  fit_columns(columns, width, kWorthwhileName);

  const auto shown = [&](std::string_view title) {
    return std::ranges::any_of(columns, [&](const Column& column) { return column.title == title; });
  };
  std::string legend = "Latency in ms";
  if (shown("DET")) legend += ", DET: mean detections per frame";
  legend += by_group         ? ", CHARGED: peak in MiB charged to the limit"
            : by_reservation ? ", RESERVED: peak in MiB of reserved private memory, against the limit"
            : against_limit  ? ", PEAK: resident in MiB, against the limit"
                             : ", PEAK: resident in MiB";
  if (against_limit) legend += fmt::format(" of {}", format_bytes(limit->bytes));
  if (shown("BOARD"))
    legend +=
        fmt::format(", BOARD: resident peak in % of this machine's {}", format_bytes(result.host.ram_total));
  std::string text = explained(legend, columns, color, width);
  const bool marked = std::any_of(columns.begin() + 2, columns.end(), [](const Column& column) {
    return std::ranges::any_of(column.cells, is_marked);
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
  const bool on_gpu =
      std::ranges::any_of(model.trials, [](const TuneTrial& trial) { return trial.gpu_peak.has_value(); });
  const std::string legend = fmt::format(
      "Settings tried for {}: P50 in ms, peak{} in MiB. The first: {}. The others show only what they change",
      model.name, on_gpu ? " of GPU memory" : "", base.describe());
  return explained(legend, columns, color, width) + "\n";
}

std::string prepared_table(const Models& models, bool color, int width) {
  std::vector<Column> columns = name_and_status(models);
  const auto add = [&](std::string title, int goes, std::string ModelResult::*text_of) {
    columns.push_back(column_of(models, std::move(title), goes, [&](const ModelResult& model) {
      const std::string& text = model.*text_of;
      return text.empty() ? std::string(kAbsent) : text;
    }));
    columns.back().to_the_right = false;
  };
  add("TASK", 1, &ModelResult::task);
  add("INPUT", 2, &ModelResult::input);
  add("BACKEND", 3, &ModelResult::backend);
  fit_columns(columns, width, kWorthwhileName);
  std::string text = table_of(columns, color) + "\n";
  for (const ModelResult* model : models)
    if (!model->trials.empty()) text += trials_of(*model, color, width);
  return text;
}

std::string models_table(const BenchResult& result, bool color, int width) {
  if (result.models.empty()) return {};
  const Models models = in_reading_order(result.models);
  return any_prepared(result.models) ? prepared_table(models, color, width)
                                     : measured_table(result, models, color, width);
}

std::string phases_table(const BenchResult& result, bool color, int width) {
  Models models = in_reading_order(result.models);
  std::erase_if(models, [](const ModelResult* model) {
    return !model->memory.loaded && !peak_of(*model);  // it never had a model in memory
  });
  if (models.empty()) return {};
  std::vector<Column> columns{name_column(models)};
  const bool prepared = any_prepared(result.models);
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
  return explained(legend, columns, color, width) + "\n";
}

std::string gpu_table(const BenchResult& result, bool color, int width) {
  Models models = in_reading_order(result.models);
  std::erase_if(models, [](const ModelResult* model) { return model->gpu_memory.empty(); });
  if (models.empty()) return {};
  std::vector<Column> columns{name_column(models),
                              column_of(models, "DEVICE", 1, [](const ModelResult& model) {
                                return model.gpu_memory.front().device;
                              })};
  columns[1].to_the_right = false;
  columns.push_back(
      column_of(models, "P50", 2, [](const ModelResult& model) { return p50_cell(model.device_time); }));
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
  constexpr std::string_view kLegend =
      "GPU: latency in ms by the GPU's clock, memory by phase in MiB. PROCESS: the driver's figure, with "
      "context and modules";
  return explained(kLegend, columns, color, width) + "\n";
}

// A column of the table of kinds: memory of these kinds in a model's heap at its peak.
struct KindsColumn {
  std::string title;
  std::vector<MemoryKind> kinds;
  bool stays_long = false;  // as long as there is room for more of a name than its title

  Bytes sum_of(const ModelResult& model) const {
    Bytes sum;
    for (const MemoryShare& share : model.layers->shares)
      if (std::ranges::find(kinds, share.kind) != kinds.end()) sum += share.bytes;
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
      {"WEIGHTS", {MemoryKind::weights}, true},
      {"GRAPH", {MemoryKind::graph}},
      {"TENSORS", {MemoryKind::tensors}, true},
      {"ARENA SLACK", {MemoryKind::arena_rounding, MemoryKind::arena_unused}},
      {"WORKSPACE", {MemoryKind::workspace}},
      // Seldom: the arena grew after the profiled runs, or the profile tells of none.
      {"RUNS, NOT SPLIT", {MemoryKind::arena_later, MemoryKind::run_later, MemoryKind::run}},
      {"OTHER", {MemoryKind::module, MemoryKind::tracing, MemoryKind::unnamed}, true}};
  std::erase_if(parts, [&](const KindsColumn& part) {
    return part.title == "RUNS, NOT SPLIT" && part.largest_of(models).count == 0;
  });
  const auto goes = [&](const KindsColumn& part, bool is_last_try) {
    if (part.title == "OTHER" || (part.stays_long && !is_last_try)) return 0;
    const auto is_smaller = [&](const KindsColumn& other) {
      return other.largest_of(models) < part.largest_of(models);
    };
    return 1 + static_cast<int>(std::ranges::count_if(parts, is_smaller));
  };
  std::vector<Column> columns;
  std::string folded;
  for (std::size_t left = 0; left != parts.size();) {
    left = parts.size();
    const bool is_last_try = std::ranges::all_of(parts, &KindsColumn::stays_long);
    columns = {name_column(models)};
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
      if (std::ranges::any_of(columns, is_it)) return false;
      folded += (folded.empty() ? "" : ", ") + part.title;
      gone.insert(gone.end(), part.kinds.begin(), part.kinds.end());
      return true;
    });
    // OTHER may be wider then, and leave room for less.
    parts.back().kinds.insert(parts.back().kinds.end(), gone.begin(), gone.end());
  }
  const std::string legend = "Heap at its peak in MiB, from a separate traced run" +
                             (folded.empty() ? "" : "; OTHER includes " + folded);
  return explained(legend, columns, color, width) + "\n";
}

std::string vos_table(const BenchResult& result, bool color, int width) {
  Models models = in_reading_order(result.models);
  std::erase_if(models, [](const ModelResult* model) { return !model->vos || model->vos->clips.empty(); });
  if (models.empty()) return {};
  std::vector<Column> columns{name_column(models)};
  const auto add = [&](std::string title, int goes, auto cell) {
    columns.push_back(column_of(models, std::move(title), goes,
                                [&](const ModelResult& model) { return cell(*model.vos); }));
  };
  const auto score = [](std::optional<double> VosResult::*figure) {
    return [figure](const VosResult& vos) { return words_for_score(vos.*figure); };
  };
  if (std::ranges::any_of(models, [](const ModelResult* model) { return !model->vos->label.empty(); }))
    add("ALGORITHM", 5, [](const VosResult& vos) {
      return std::string(vos.label.empty() ? "reference" : "not the reference");
    });
  add("PROMPT", 3, [&](const VosResult& vos) { return words_for_prompt(vos, result.source); });
  add("J&F", 0, score(&VosResult::j_and_f));
  add("J", 0, score(&VosResult::j));
  add("F", 0, score(&VosResult::f));
  add("REF J&F", 4, score(&VosResult::reference_j_and_f));
  add("GROWTH", 1, [](const VosResult& vos) { return words_for_slope(vos.per_frame); });
  add("BANK", 2, [](const VosResult& vos) { return words_for(vos.bank); });
  fit_columns(columns, width, kWorthwhileName);
  const auto has = [&](std::string_view title) {
    return std::ranges::find(columns, title, &Column::title) != columns.end();
  };
  std::string legend = "Accuracy of masks, means over objects";
  if (has("REF J&F")) legend += "; REF J&F: by the reference benchmark's protocol";
  if (has("GROWTH")) legend += "; GROWTH: MiB a frame";
  if (has("BANK")) legend += "; BANK: memory bank";
  return explained(legend, columns, color, width) + "\n";
}

constexpr int kNarrowest = 40;  // narrower terminals get lines that the terminal wraps

// A sign and a sentence with one full stop; a runtime's error message may bring its own.
std::string sentence(std::string_view sign, std::string_view paint, const std::string& text, bool color,
                     int width) {
  const std::string_view end = text.ends_with('.') || text.ends_with(':') ? "" : ".";
  return fmt::format("{} {}\n", sign == " " ? " " : painted(sign, paint, color),
                     wrap(fmt::format("{}{}", text, end), width - 2, 2));
}

// In the account of the limit, where there is one.
std::string words_for_pipeline_peak(const BenchResult& result) {
  std::string resident = format_bytes(*result.pipeline->peak) + " resident";
  const auto counted = limit_peak(result.pipeline->memory, result.limit);
  if (counted && counts_by_reservation(*result.limit))
    return fmt::format("{} reserved against the limit, {}", format_bytes(*counted), resident);
  if (!counted || !counts_by_group(*result.limit)) return resident;
  return fmt::format("{} charged to the limit, {}", format_bytes(*counted), resident);
}

std::int64_t sum_of(const PoolResult& pool, std::int64_t PooledModel::*figure) {
  std::int64_t sum = 0;
  for (const PooledModel& model : pool.models) sum += model.*figure;
  return sum;
}

std::vector<std::string> remarks_of(const BenchResult& result) {
  std::vector<std::string> remarks = words_for_shares(result);
  for (std::string& line : words_for_runtimes(result)) remarks.push_back(std::move(line));
  if (std::string growth = words_for_growth_intervals(result); !growth.empty())
    remarks.push_back(std::move(growth));
  const auto of_board = [&](const std::optional<Bytes>& peak) {
    const auto share = share_of_board(peak, result.host);
    return share ? fmt::format(" ({} of this machine's memory)", words_for_share(*share)) : std::string();
  };
  if (result.parallel && result.parallel->joint_peak)
    remarks.push_back(
        fmt::format("All at once: joint peak {}{}{}{}, sum of individual peaks {}",
                    result.parallel->joint_peak_is_lower_bound ? "at least " : "",
                    format_bytes(*result.parallel->joint_peak),
                    result.parallel->joint_peak_source == "pss_samples" ? " resident (PSS)" : "",
                    of_board(result.parallel->joint_peak), words_for(result.parallel->sum_of_peaks)));
  // The ledgers count all granted memory, so their sum is too low only if a model died early.
  const auto died = [](const ModelResult& model) { return model.status != ModelStatus::ok; };
  const bool some_died = result.parallel && std::ranges::any_of(result.parallel->together, died);
  if (result.parallel)
    for (const JointGpuMemory& gpu : result.parallel->gpu_memory)
      remarks.push_back(fmt::format(
          "All at once on {}: joint peak {}{}{}", gpu.device, some_died ? "at least " : "",
          words_for(gpu.joint_peak),
          gpu.sum_of_peaks ? ", sum of individual peaks " + format_bytes(*gpu.sum_of_peaks) : ""));
  if (const auto& pipeline = result.pipeline; pipeline && pipeline->peak)
    remarks.push_back(
        fmt::format("Pipeline of {}: {}, peak {}{}", counted(std::ssize(pipeline->models), "model"),
                    pipeline->fps ? words_for_rate(pipeline->fps) + " FPS"
                                  : std::string(words_for_outcome(pipeline->status, pipeline->error)),
                    words_for_pipeline_peak(result), of_board(pipeline->peak)));
  if (result.pool && result.pool->frame)
    remarks.push_back(fmt::format(
        "Pool of {} for {}{}: {} FPS, {} for {}, peak {}{}", format_bytes(result.pool->budget),
        counted(std::ssize(result.pool->models), "model"),
        result.pool->threads > 1 ? fmt::format(" and {} threads", result.pool->threads) : "",
        words_for_rate(result.pool->fps), counted(sum_of(*result.pool, &PooledModel::loads), "load"),
        counted(sum_of(*result.pool, &PooledModel::requests), "request"), words_for(result.pool->peak),
        of_board(result.pool->peak)));
  // A model that was only prepared has its trials in a table of their own.
  for (const ModelResult& model : result.models)
    if (const std::string tuning = describe_tuning(model);
        !tuning.empty() && outcome_of(model) != Outcome::prepared)
      remarks.push_back(fmt::format("{}: {}", model.name, tuning));
  return remarks;
}

std::vector<std::string> warnings_of(const BenchResult& result) {
  std::vector<std::string> warnings = result.warnings;
  // A hard limit that the machine's memory can reach needs no explanation here.
  const auto& limit = result.limit;
  if (limit && (limit->type != LimitType::hard || is_above_memory(*limit, result.host)))
    if (const std::string notes = notes_on(*limit, result.host); !notes.empty()) warnings.push_back(notes);
  if (const std::string noise = words_for_noise(result); !noise.empty()) warnings.push_back(noise);
  for (const ModelResult& model : result.models)
    for (const std::string& warning : model.warnings)
      if (!is_about_variation(warning)) warnings.push_back(model.name + ": " + warning);
  for (const ModelResult& model : result.models)
    if (model.vos) {
      if (const std::string label = words_for_label(*model.vos); !label.empty())
        warnings.push_back(model.name + ": " + label);
      for (const std::string& leak : words_for_leaks(*model.vos))
        warnings.push_back(model.name + ": " + leak);
      if (!model.vos->left_out.empty())
        warnings.push_back(
            fmt::format("{}: {} left out, because {} would not fit under the limit; the report has the "
                        "estimates",
                        model.name, counted(std::ssize(model.vos->left_out), "video"),
                        model.vos->left_out.size() == 1 ? "it" : "they"));
    }
  if (result.source && !result.source->skipped.empty())
    warnings.push_back(fmt::format("{} of the source could not be used; the report lists {}",
                                   counted(std::ssize(result.source->skipped), "item"),
                                   result.source->skipped.size() == 1 ? "it" : "them"));
  return warnings;
}

}  // namespace

std::string to_terminal(const BenchResult& result, bool color, int width) {
  width = std::max(width, kNarrowest);
  std::string text;
  if (!result.complete)
    text += sentence("!", kYellow, "This run was interrupted. Results so far:", color, width);
  text += models_table(result, color, width);
  text += phases_table(result, color, width);
  text += gpu_table(result, color, width);
  text += kinds_table(result, color, width);
  text += vos_table(result, color, width);

  const Verdict verdict = verdict_of(result);
  text += sentence(name_in({"✓", "·", "✗"}, verdict.tone), name_in({kGreen, kYellow, kRed}, verdict.tone),
                   verdict.sentence, color, width);
  for (const std::string& detail : verdict.details) text += sentence(" ", "", detail, color, width);
  for (const std::string& remark : remarks_of(result)) text += sentence("·", kYellow, remark, color, width);
  for (const std::string& warning : warnings_of(result))
    text += sentence("!", kYellow, warning, color, width);
  return text;
}

}  // namespace headroom::report
