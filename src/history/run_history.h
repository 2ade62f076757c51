// Runs that are kept: by commit and time, with all of their figures. The schema has a version; what is of
// another, or of something else, is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "history/database.h"

namespace headroom::history {

inline constexpr int kSchemaVersion = 1;

struct KeptFigure {
  std::string model, metric;
  double value = 0;
};

struct KeptRun {
  std::int64_t id = 0;  // counted up in the order of adding
  std::string key;      // of the report's content: the same run is kept once
  std::string started_at, added_at, commit, label, host;
  std::string report;        // report.json, one line
  std::string fingerprints;  // of the models' files: a line each, "a1b2… NAME"
  std::vector<KeptFigure> figures;
};

// Which runs; what is not given is of all.
struct RunChoice {
  std::optional<std::int64_t> last;  // the newest of them
  std::vector<std::string> commits;  // of one of these, as forms_of_commit() names them
  std::optional<std::string> label, host;
  std::set<std::string> models;  // runs that have a figure of one of them, or none at all (it failed)
  std::string but_commit;        // nor what is_same_commit() takes for it
  std::set<std::string> but_keys;
  std::set<std::string> started_at;  // at one of these, as the reports have it
  std::string until = {};            // a timestamp: made then or before
};

// A short SHA, of seven hex digits or more, and the whole one are the same commit; an empty one is none.
bool is_same_commit(std::string_view a, std::string_view b);

class RunHistory {
 public:
  // `create`: also where there is none yet. Errors: as open_database(), another schema, or a database that
  // holds something else.
  static Result<RunHistory> open(const std::string& place, bool create);

  // As which names the history keeps a commit: by its own, by shorter and longer forms of its SHA, or, where
  // it has none of these, by the one that begins so. None where there is no such commit; an error that names
  // them where there are several.
  Result<std::vector<std::string>> forms_of_commit(const std::string& named);

  // All of them or none; returns how many were not there before.
  Result<std::size_t> add(const std::vector<KeptRun>& runs);
  // The last `count` (of all: absent), oldest first, without reports and figures.
  Result<std::vector<KeptRun>> list(std::optional<std::int64_t> count = std::nullopt);
  // With reports and figures, oldest first.
  Result<std::vector<KeptRun>> load(const RunChoice& choice);
  // Their commit and label are changed, each where it is given; returns those of `ids` that are not there,
  // and then nothing was changed.
  Result<std::vector<std::int64_t>> relabel(const std::vector<std::int64_t>& ids,
                                            const std::optional<std::string>& commit,
                                            const std::optional<std::string>& label);
  // All of them or none; returns those that are not there.
  Result<std::vector<std::int64_t>> remove(const std::vector<std::int64_t>& ids);
  // One metric of one model (of all: empty) of every run of a label and a host, oldest first; each run has
  // that figure alone.
  Result<std::vector<KeptRun>> figures(const std::string& metric, const std::string& model = {},
                                       const std::optional<std::string>& label = {},
                                       const std::optional<std::string>& host = {});

 private:
  explicit RunHistory(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  Status check_schema(bool create);
  Status make_tables();
  Result<bool> insert(const KeptRun& run);
  Status insert_figures(std::int64_t id, const std::vector<KeptFigure>& figures);
  // Without reports and figures, oldest first.
  Result<std::vector<KeptRun>> choose(const RunChoice& choice);
  // Gives runs their reports and figures; those that another program has removed meanwhile go.
  Status fill(std::vector<KeptRun>& runs);
  // Does it to all of `ids` in one transaction, or, where some are not there, to none: returns those.
  Result<std::vector<std::int64_t>> change_all(const std::vector<std::int64_t>& ids,
                                               const std::vector<std::string>& statements,
                                               const std::vector<Cell>& values);

  std::unique_ptr<Database> database_;
};

}  // namespace headroom::history
