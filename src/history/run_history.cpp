#include "history/run_history.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "base/units.h"
#include "base/utf8.h"

namespace headroom::history {
namespace {

std::string text_of(const Cell& cell) { return cell.value_or(""); }
std::int64_t number_of(const Cell& cell) { return parse_number<std::int64_t>(text_of(cell)).value_or(0); }

constexpr const char* kColumns = "id, run_key, started_at, added_at, commit_sha, label, host";

KeptRun run_of(const std::vector<Cell>& row) {
  return {.id = number_of(row[0]),
          .key = text_of(row[1]),
          .started_at = text_of(row[2]),
          .added_at = text_of(row[3]),
          .commit = text_of(row[4]),
          .label = text_of(row[5]),
          .host = text_of(row[6])};
}

// Builds the WHERE clause of a statement, with its placeholders and values.
class Where {
 public:
  void is(std::string_view column, const std::optional<std::string>& value) {
    if (value) conditions_.push_back(fmt::format("{} = {}", column, place_of(*value)));
  }
  void is_one_of(std::string_view column, const std::vector<std::string>& all) {
    if (!all.empty()) conditions_.push_back(fmt::format("{} IN ({})", column, places_of(all)));
  }
  void has_figures_of(const std::vector<std::string>& models) {
    if (models.empty()) return;
    conditions_.push_back(
        fmt::format("(EXISTS (SELECT 1 FROM headroom_figures WHERE run_id = id AND model IN ({})) OR NOT "
                    "EXISTS (SELECT 1 FROM headroom_figures WHERE run_id = id))",
                    places_of(models)));
  }
  // " WHERE …", or an empty string.
  std::string text() const {
    return conditions_.empty() ? "" : fmt::format(" WHERE {}", fmt::join(conditions_, " AND "));
  }
  const std::vector<Cell>& values() const { return values_; }

 private:
  std::string place_of(const std::string& value) {
    values_.emplace_back(value);
    return fmt::format("${}", values_.size());
  }
  std::string places_of(const std::vector<std::string>& all) {
    std::vector<std::string> places;
    for (const std::string& value : all) places.push_back(place_of(value));
    return fmt::format("{}", fmt::join(places, ", "));
  }

  std::vector<std::string> conditions_;
  std::vector<Cell> values_;
};

// Splits names into batches, one for each statement: SQLite's time for variables grows with the square of
// their number, and PostgreSQL allows 65,535. Without names there is one empty batch.
std::vector<std::vector<std::string>> batches_of(const std::set<std::string>& names) {
  constexpr std::size_t kMostNames = 250;
  std::vector<std::vector<std::string>> parts(1);
  for (const std::string& name : names) {
    if (parts.back().size() == kMostNames) parts.emplace_back();
    parts.back().push_back(name);
  }
  return parts;
}

// The conditions that SQL does not check: sets of any size, times of several time zones, and commits by more
// than their text.
bool matches(const RunChoice& choice, const KeptRun& run) {
  if (!choice.started_at.empty() && !choice.started_at.contains(run.started_at)) return false;
  if (choice.except_keys.contains(run.key) || is_same_commit(run.commit, choice.except_commit)) return false;
  const auto until = parse_timestamp(choice.until);
  return !until || parse_timestamp(run.started_at) <= until;
}

// Sorts by start time. SQL cannot sort it: the database stores it as text of several time zones.
void sort_by_time(std::vector<KeptRun>& runs) {
  std::vector<std::pair<std::optional<std::int64_t>, std::size_t>> order;
  for (std::size_t i = 0; i < runs.size(); ++i) order.emplace_back(parse_timestamp(runs[i].started_at), i);
  std::ranges::sort(order, [&](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : runs[a.second].id < runs[b.second].id;
  });
  std::vector<KeptRun> sorted;
  for (const auto& [time, i] : order) sorted.push_back(std::move(runs[i]));
  runs = std::move(sorted);
}

}  // namespace

bool is_same_commit(std::string_view a, std::string_view b) {
  constexpr std::size_t kShortest = 7;
  constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
  if (a == b) return !a.empty();
  if (a.size() > b.size()) std::swap(a, b);
  // The rest must be hex digits too: "1a2b3c4-dirty" and "1a2b3c4" are different commits.
  return a.size() >= kShortest && b.starts_with(a) && b.find_first_not_of(kHexDigits) == b.npos;
}

Result<RunHistory> RunHistory::open(const std::string& place, bool create) {
  auto database = open_database(place, create);
  if (!database) return forward_error(database);
  RunHistory history(std::move(*database));
  if (auto sound = history.check_schema(create); !sound) return forward_error(sound);
  return history;
}

Status RunHistory::check_schema(bool create) {
  const std::string& place = database_->name();
  // Lock before checking for the tables, so that only one of two first programs creates them.
  if (create)
    if (auto begun = database_->begin_writing(); !begun) return begun;
  auto tables = database_->query(
      database_->is_postgresql()
          ? "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()"
          : "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
  if (!tables) return forward_error(tables);
  const auto has = [&](std::string_view name) {
    return std::any_of(tables->begin(), tables->end(), [&](const auto& row) { return row[0] == name; });
  };
  if (!has("headroom_history")) {
    // A PostgreSQL database may contain other tables. A file belongs to the history alone.
    if (!database_->is_postgresql() && !tables->empty())
      return input_error(fmt::format("{} is not a Headroom history", place),
                         "it is a database of another program", "use another file with --db");
    for (const char* own : {"headroom_runs", "headroom_figures"})
      if (has(own))
        return input_error(fmt::format("{} is not a Headroom history", place),
                           fmt::format("its table {} belongs to another program", own),
                           "use another database with --db");
    if (!create)
      return input_error(fmt::format("no history in {}", place), "no run was added yet",
                         "use headroom history add RUN");
    if (auto made = make_tables(); !made) return made;
  }
  auto version = database_->query("SELECT value FROM headroom_history WHERE name = 'schema_version'");
  if (!version) return forward_error(version);
  const std::int64_t found = version->empty() ? 0 : number_of(version->front()[0]);
  if (found != kSchemaVersion)
    return input_error(fmt::format("the history {} has schema version {}", place, found),
                       fmt::format("this Headroom supports version {}", kSchemaVersion),
                       found > kSchemaVersion ? "update Headroom" : "use another --db");
  if (create)
    if (auto done = database_->query("COMMIT"); !done) return forward_error(done);
  return {};
}

Status RunHistory::make_tables() {
  const std::string id =
      database_->is_postgresql() ? "bigserial PRIMARY KEY" : "integer PRIMARY KEY AUTOINCREMENT";
  for (const std::string& sql :
       {std::string("CREATE TABLE headroom_history (name text PRIMARY KEY, value text NOT NULL)"),
        fmt::format(
            "CREATE TABLE headroom_runs (id {}, run_key text NOT NULL UNIQUE, started_at text NOT NULL, "
            "added_at text NOT NULL, commit_sha text NOT NULL, label text NOT NULL, host text NOT NULL, "
            "report text NOT NULL, fingerprints text NOT NULL)",
            id),
        std::string(
            "CREATE TABLE headroom_figures (run_id bigint NOT NULL REFERENCES headroom_runs (id), model "
            "text NOT NULL, metric text NOT NULL, value double precision NOT NULL, PRIMARY KEY (run_id, "
            "model, metric))"),
        std::string("CREATE INDEX headroom_figures_by_metric ON headroom_figures (metric, model)"),
        fmt::format("INSERT INTO headroom_history VALUES ('schema_version', '{}')", kSchemaVersion)})
    if (auto made = database_->query(sql); !made) return forward_error(made);
  return {};
}

Result<bool> RunHistory::insert(const KeptRun& run) {
  auto made = database_->query(
      "INSERT INTO headroom_runs (run_key, started_at, added_at, commit_sha, label, host, report, "
      "fingerprints) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (run_key) DO NOTHING RETURNING id",
      {run.key, run.started_at, run.added_at, run.commit, run.label, run.host, run.report, run.fingerprints});
  if (!made) return forward_error(made);
  if (made->empty()) return false;
  const std::int64_t id = number_of(made->front()[0]);
  const std::vector<KeptFigure>& figures = run.figures;
  // Inserts several rows per statement: other programs wait meanwhile, and each statement is a round trip to
  // a server.
  constexpr std::size_t kMostRows = 80;
  for (std::size_t begin = 0; begin < figures.size(); begin += kMostRows) {
    std::vector<std::string> rows;
    std::vector<Cell> values;
    for (std::size_t i = begin; i < std::min(begin + kMostRows, figures.size()); ++i) {
      rows.push_back(fmt::format("({}, CAST(${} AS text), CAST(${} AS text), CAST(${} AS double precision))",
                                 id, values.size() + 1, values.size() + 2, values.size() + 3));
      values.insert(values.end(), {figures[i].model, figures[i].metric, fmt::format("{}", figures[i].value)});
    }
    auto kept = database_->query(fmt::format("INSERT INTO headroom_figures VALUES {}", fmt::join(rows, ", ")),
                                 values);
    if (!kept) return forward_error(kept);
  }
  return true;
}

Result<std::vector<std::string>> RunHistory::forms_of_commit(const std::string& named) {
  auto rows = database_->query("SELECT DISTINCT commit_sha FROM headroom_runs ORDER BY commit_sha");
  if (!rows) return forward_error(rows);
  std::vector<std::string> forms, longer;
  for (const auto& row : *rows) {
    const std::string kept = text_of(row[0]);
    if (is_same_commit(kept, named)) forms.push_back(kept);
    if (kept.starts_with(named)) longer.push_back(kept);
  }
  if (forms.empty()) forms = std::move(longer);
  const bool is_one_commit = std::ranges::all_of(forms, [&](const std::string& a) {
    return std::ranges::all_of(forms, [&](const std::string& b) { return is_same_commit(a, b); });
  });
  if (is_one_commit) return forms;
  constexpr std::size_t kShown = 5;
  std::vector<std::string> shown;
  for (const std::string& form : forms)
    if (shown.size() < kShown) shown.push_back(without_control_characters(form));
  const std::size_t more = forms.size() - shown.size();
  return usage_error(fmt::format("the commit {} is ambiguous", named),
                     fmt::format("the history has {}{}", fmt::join(shown, ", "),
                                 more == 0 ? "" : fmt::format(" and {} more", more)),
                     "use a longer name");
}

Result<std::size_t> RunHistory::add(const std::vector<KeptRun>& runs) {
  if (auto begun = database_->begin_writing(); !begun) return forward_error(begun);
  std::size_t added = 0;
  for (const KeptRun& run : runs) {
    auto inserted = insert(run);
    if (!inserted) return roll_back(inserted);
    if (*inserted) ++added;
  }
  if (auto done = database_->query("COMMIT"); !done) return forward_error(done);
  return added;
}

Result<std::vector<KeptRun>> RunHistory::list(std::optional<std::int64_t> count) {
  auto rows = database_->query(fmt::format("SELECT {} FROM headroom_runs ORDER BY id DESC{}", kColumns,
                                           count ? fmt::format(" LIMIT {}", *count) : ""));
  if (!rows) return forward_error(rows);
  std::vector<KeptRun> runs;
  for (const auto& row : *rows) runs.push_back(run_of(row));
  std::ranges::reverse(runs);
  return runs;
}

Result<std::vector<KeptRun>> RunHistory::load(const RunChoice& choice) {
  std::map<std::int64_t, KeptRun> by_id;  // a run may be found by several batches
  for (const std::vector<std::string>& models : batches_of(choice.models)) {
    Where where;
    where.is_one_of("commit_sha", choice.commits);
    where.is("label", choice.label);
    where.is("host", choice.host);
    where.has_figures_of(models);
    auto rows = database_->query(fmt::format("SELECT {} FROM headroom_runs{}", kColumns, where.text()),
                                 where.values());
    if (!rows) return forward_error(rows);
    for (const auto& row : *rows)
      if (KeptRun run = run_of(row); matches(choice, run)) by_id.emplace(run.id, std::move(run));
  }
  std::vector<KeptRun> runs;
  for (auto& [id, run] : by_id) runs.push_back(std::move(run));
  sort_by_time(runs);
  if (choice.last && runs.size() > static_cast<std::size_t>(*choice.last))
    runs.erase(runs.begin(), runs.end() - *choice.last);
  if (auto filled = fill(runs); !filled) return forward_error(filled);
  return runs;
}

Status RunHistory::fill(std::vector<KeptRun>& runs) {
  if (runs.empty()) return {};
  std::map<std::int64_t, KeptRun*> by_id;
  for (KeptRun& run : runs) by_id[run.id] = &run;
  std::vector<std::int64_t> ids;
  for (const auto& [id, run] : by_id) ids.push_back(id);
  // Read figures before reports: a run that is removed in between then has no report and is dropped below.
  auto figures = database_->query(
      fmt::format("SELECT run_id, model, metric, value FROM headroom_figures WHERE run_id IN ({})",
                  fmt::join(ids, ", ")));
  if (!figures) return forward_error(figures);
  for (const auto& figure : *figures)
    by_id.at(number_of(figure[0]))
        ->figures.push_back(
            {text_of(figure[1]), text_of(figure[2]), parse_number<double>(text_of(figure[3])).value_or(0)});
  auto reports = database_->query(fmt::format(
      "SELECT id, report, fingerprints FROM headroom_runs WHERE id IN ({})", fmt::join(ids, ", ")));
  if (!reports) return forward_error(reports);
  for (const auto& row : *reports) {
    KeptRun& run = *by_id.at(number_of(row[0]));
    run.report = text_of(row[1]);
    run.fingerprints = text_of(row[2]);
  }
  std::erase_if(runs, [](const KeptRun& run) { return run.report.empty(); });
  return {};
}

Result<std::vector<KeptRun>> RunHistory::figures(const std::string& metric, const std::string& model,
                                                 const std::optional<std::string>& label,
                                                 const std::optional<std::string>& host) {
  Where where;
  where.is("metric", metric);
  if (!model.empty()) where.is("model", model);
  where.is("label", label);
  where.is("host", host);
  auto rows = database_->query(fmt::format("SELECT {}, model, value FROM headroom_figures JOIN headroom_runs "
                                           "ON id = run_id{} ORDER BY id, model",
                                           kColumns, where.text()),
                               where.values());
  if (!rows) return forward_error(rows);
  std::vector<KeptRun> runs;
  for (const auto& row : *rows) {
    KeptRun run = run_of(row);
    run.figures.push_back({text_of(row[7]), metric, parse_number<double>(text_of(row[8])).value_or(0)});
    runs.push_back(std::move(run));
  }
  sort_by_time(runs);
  return runs;
}

Result<std::vector<std::int64_t>> RunHistory::change_all(const std::vector<std::int64_t>& ids,
                                                         const std::vector<std::string>& statements,
                                                         const std::vector<Cell>& values) {
  if (auto begun = database_->begin_writing(); !begun) return forward_error(begun);
  const std::string chosen = fmt::format("{}", fmt::join(ids, ", "));
  auto rows = database_->query(fmt::format("SELECT id FROM headroom_runs WHERE id IN ({})", chosen));
  std::vector<std::int64_t> absent = ids;
  if (rows)
    for (const auto& row : *rows) std::erase(absent, number_of(row[0]));
  if (!rows) return roll_back(rows);
  if (!absent.empty()) {
    (void)database_->query("ROLLBACK");
    return absent;
  }
  for (const std::string& sql : statements)
    if (auto done = database_->query(fmt::format("{} IN ({})", sql, chosen), values); !done)
      return roll_back(done);
  if (auto done = database_->query("COMMIT"); !done) return forward_error(done);
  return absent;
}

Result<std::vector<std::int64_t>> RunHistory::relabel(const std::vector<std::int64_t>& ids,
                                                      const std::optional<std::string>& commit,
                                                      const std::optional<std::string>& label) {
  std::vector<std::string> changes;
  std::vector<Cell> values;
  for (const auto& [column, value] : {std::pair("commit_sha", &commit), std::pair("label", &label)})
    if (*value) {
      values.emplace_back(**value);
      changes.push_back(fmt::format("{} = ${}", column, values.size()));
    }
  return change_all(ids, {fmt::format("UPDATE headroom_runs SET {} WHERE id", fmt::join(changes, ", "))},
                    values);
}

Result<std::vector<std::int64_t>> RunHistory::remove(const std::vector<std::int64_t>& ids) {
  return change_all(ids, {"DELETE FROM headroom_figures WHERE run_id", "DELETE FROM headroom_runs WHERE id"},
                    {});
}

}  // namespace headroom::history
