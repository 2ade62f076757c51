#include "history/run_history.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/text.h"
#include "base/timestamp.h"

namespace headroom::history {
namespace {

std::string text_of(const Cell& cell) { return cell.value_or(""); }
std::int64_t number_of(const Cell& cell) { return parse_number<std::int64_t>(text_of(cell)).value_or(0); }

constexpr const char* kColumns = "id, run_key, started_at, added_at, commit_sha, label, host";

KeptRun run_of(const std::vector<Cell>& row) {
  return {number_of(row[0]),
          text_of(row[1]),
          text_of(row[2]),
          text_of(row[3]),
          text_of(row[4]),
          text_of(row[5]),
          text_of(row[6]),
          {},
          {},
          {}};
}

// A short SHA and the whole one are the same commit.
template <class PlaceOf>
std::string but_commit(const std::string& commit, const PlaceOf& place_of) {
  constexpr std::size_t kShortest = 7;
  const bool is_sha =
      commit.size() >= kShortest && commit.find_first_not_of("0123456789abcdefABCDEF") == commit.npos;
  const std::string whole = place_of(commit);
  if (!is_sha) return fmt::format("commit_sha <> {}", whole);
  const std::string begin = place_of(commit);
  return fmt::format(
      "NOT (substr(commit_sha, 1, {0}) = {1} OR (length(commit_sha) >= {2} AND commit_sha = substr(CAST({3} "
      "AS "
      "TEXT), 1, length(commit_sha))))",
      commit.size(), whole, kShortest, begin);
}

// " WHERE …" of a choice; its values go behind those that are there.
std::string where_of(const RunChoice& choice, std::vector<Cell>& values) {
  std::vector<std::string> conditions;
  const auto place_of = [&](const std::string& value) {
    values.emplace_back(value);
    return fmt::format("${}", values.size());
  };
  const auto list_of = [&](const std::vector<std::string>& all) {
    std::vector<std::string> places;
    for (const std::string& value : all) places.push_back(place_of(value));
    return fmt::format("{}", fmt::join(places, ", "));
  };
  if (!choice.commits.empty())
    conditions.push_back(fmt::format("commit_sha IN ({})", list_of(choice.commits)));
  if (choice.label) conditions.push_back(fmt::format("label = {}", place_of(*choice.label)));
  if (choice.host) conditions.push_back(fmt::format("host = {}", place_of(*choice.host)));
  if (!choice.started_at.empty())
    conditions.push_back(fmt::format("started_at = {}", place_of(choice.started_at)));
  if (!choice.but_commit.empty()) conditions.push_back(but_commit(choice.but_commit, place_of));
  if (!choice.but_keys.empty())
    conditions.push_back(fmt::format("run_key NOT IN ({})", list_of(choice.but_keys)));
  if (!choice.models.empty())
    conditions.push_back(
        fmt::format("(EXISTS (SELECT 1 FROM headroom_figures WHERE run_id = id AND model IN ({})) OR NOT "
                    "EXISTS (SELECT 1 "
                    "FROM headroom_figures WHERE run_id = id))",
                    list_of(choice.models)));
  return conditions.empty() ? "" : fmt::format(" WHERE {}", fmt::join(conditions, " AND "));
}

// By when they were made; in a database that is text of several zones.
void sort_by_time(std::vector<KeptRun>& runs) {
  std::vector<std::pair<std::optional<std::int64_t>, std::size_t>> order;
  for (std::size_t i = 0; i < runs.size(); ++i) order.emplace_back(parse_timestamp(runs[i].started_at), i);
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : runs[a.second].id < runs[b.second].id;
  });
  std::vector<KeptRun> sorted;
  for (const auto& [time, i] : order) sorted.push_back(std::move(runs[i]));
  runs = std::move(sorted);
}

}  // namespace

bool is_same_commit(std::string_view a, std::string_view b) {
  constexpr std::size_t kShortest = 7;
  if (a == b) return !a.empty();
  if (a.size() > b.size()) std::swap(a, b);
  return a.size() >= kShortest && a.find_first_not_of("0123456789abcdefABCDEF") == a.npos && b.starts_with(a);
}

Result<RunHistory> RunHistory::open(const std::string& place, bool create) {
  auto database = open_database(place, create);
  if (!database) return forward_error(database);
  RunHistory history(std::move(*database));
  const std::string words = is_postgresql_url(place) ? without_password(place) : place;
  if (auto sound = history.check_schema(words, create); !sound) return forward_error(sound);
  return history;
}

Status RunHistory::check_schema(const std::string& place, bool create) {
  // Who makes the tables holds the lock from before it looks: of two that come first one makes them.
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
    // In a team's PostgreSQL other tables are at home; a file is the history's own.
    if (!database_->is_postgresql() && !tables->empty())
      return input_error(fmt::format("{} is no history of Headroom", place),
                         "it is a database of something else", "name another file with --db");
    if (!create)
      return input_error(fmt::format("there is no history in {}", place), "nothing was added to it yet",
                         "headroom history add RUN");
    if (auto made = make_tables(); !made) return made;
  }
  auto version = database_->query("SELECT value FROM headroom_history WHERE name = 'schema_version'");
  if (!version) return forward_error(version);
  const std::int64_t found = version->empty() ? 0 : number_of(version->front()[0]);
  if (found != kSchemaVersion)
    return input_error(fmt::format("the history {} has schema version {}", place, found),
                       fmt::format("this Headroom knows version {}", kSchemaVersion),
                       found > kSchemaVersion ? "update Headroom" : "name another with --db");
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
  for (const KeptFigure& figure : run.figures) {
    auto kept = database_->query(
        database_->is_postgresql()
            ? "INSERT INTO headroom_figures VALUES ($1::bigint, $2, $3, $4::double precision)"
            : "INSERT INTO headroom_figures VALUES (CAST($1 AS integer), $2, $3, CAST($4 AS real))",
        {made->front()[0], figure.model, figure.metric, fmt::format("{}", figure.value)});
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
  const bool are_one = std::all_of(forms.begin(), forms.end(), [&](const std::string& a) {
    return std::all_of(forms.begin(), forms.end(),
                       [&](const std::string& b) { return is_same_commit(a, b); });
  });
  if (are_one) return forms;
  return usage_error(fmt::format("the commit {} is ambiguous", named),
                     fmt::format("the history has {}", fmt::join(forms, ", ")), "give more of its name");
}

Result<std::size_t> RunHistory::add(const std::vector<KeptRun>& runs) {
  if (auto begun = database_->begin_writing(); !begun) return forward_error(begun);
  std::size_t added = 0;
  for (const KeptRun& run : runs) {
    auto inserted = insert(run);
    if (!inserted) {
      (void)database_->query("ROLLBACK");
      return forward_error(inserted);
    }
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
  std::reverse(runs.begin(), runs.end());
  return runs;
}

Result<std::vector<KeptRun>> RunHistory::load(const RunChoice& choice) {
  std::vector<Cell> values;
  const std::string where = where_of(choice, values);
  auto rows = database_->query(fmt::format("SELECT {} FROM headroom_runs{}", kColumns, where), values);
  if (!rows) return forward_error(rows);
  std::vector<KeptRun> runs;
  for (const auto& row : *rows) runs.push_back(run_of(row));
  if (const auto until = parse_timestamp(choice.until))
    std::erase_if(runs, [&](const KeptRun& run) { return parse_timestamp(run.started_at) > until; });
  sort_by_time(runs);
  if (choice.last && runs.size() > static_cast<std::size_t>(*choice.last))
    runs.erase(runs.begin(), runs.end() - *choice.last);
  if (runs.empty()) return runs;
  std::map<std::int64_t, KeptRun*> by_id;
  for (KeptRun& run : runs) by_id[run.id] = &run;
  std::vector<std::int64_t> ids;
  for (const auto& [id, run] : by_id) ids.push_back(id);
  auto reports = database_->query(fmt::format(
      "SELECT id, report, fingerprints FROM headroom_runs WHERE id IN ({})", fmt::join(ids, ", ")));
  if (!reports) return forward_error(reports);
  for (const auto& row : *reports) {
    KeptRun& run = *by_id.at(number_of(row[0]));
    run.report = text_of(row[1]);
    run.fingerprints = text_of(row[2]);
  }
  auto figures = database_->query(
      fmt::format("SELECT run_id, model, metric, value FROM headroom_figures WHERE run_id IN ({})",
                  fmt::join(ids, ", ")));
  if (!figures) return forward_error(figures);
  for (const auto& figure : *figures)
    by_id.at(number_of(figure[0]))
        ->figures.push_back(
            {text_of(figure[1]), text_of(figure[2]), parse_number<double>(text_of(figure[3])).value_or(0)});
  // Another program may have removed one meanwhile.
  std::erase_if(runs, [](const KeptRun& run) { return run.report.empty(); });
  return runs;
}

Result<std::vector<std::string>> RunHistory::labels(const RunChoice& choice) {
  std::vector<Cell> values;
  const std::string where = where_of(choice, values);
  auto rows = database_->query(
      fmt::format("SELECT DISTINCT label FROM headroom_runs{} ORDER BY label", where), values);
  if (!rows) return forward_error(rows);
  std::vector<std::string> labels;
  for (const auto& row : *rows) labels.push_back(text_of(row[0]));
  return labels;
}

Result<std::vector<KeptRun>> RunHistory::figures(const std::string& metric, const std::string& model,
                                                 const RunChoice& choice) {
  std::vector<Cell> values;
  std::string where = where_of(choice, values);
  values.emplace_back(metric);
  where += fmt::format("{} metric = ${}", where.empty() ? " WHERE" : " AND", values.size());
  if (!model.empty()) {
    values.emplace_back(model);
    where += fmt::format(" AND model = ${}", values.size());
  }
  auto rows = database_->query(fmt::format("SELECT {}, model, value FROM headroom_figures JOIN headroom_runs "
                                           "ON id = run_id{} ORDER BY id, model",
                                           kColumns, where),
                               values);
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
  if (!rows || !absent.empty()) {
    (void)database_->query("ROLLBACK");
    if (!rows) return forward_error(rows);
    return absent;
  }
  for (const std::string& sql : statements)
    if (auto done = database_->query(fmt::format("{} IN ({})", sql, chosen), values); !done) {
      (void)database_->query("ROLLBACK");
      return forward_error(done);
    }
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
