// The history of runs, with commit, time and all figures. The schema has a version: a database with another
// version, or of another program, is rejected.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "history/database.h"

namespace headroom::history {

inline constexpr int kSchemaVersion = 1;

struct KeptFigure {
  std::string model, metric;
  double value = 0;
};

struct KeptRun {
  std::int64_t id = 0;  // increases in the order of adding
  std::string key;      // hash of the report's content: the same run is stored once
  std::string started_at, added_at, commit, label, host;
  std::string report = {};        // report.json, one line
  std::string fingerprints = {};  // of the model files, one line each: "a1b2… NAME"
  std::vector<KeptFigure> figures = {};
};

// A selection of runs. Unset fields select all.
struct RunChoice {
  std::optional<std::int64_t> last;  // only this many, the newest by start time
  std::vector<std::string> commits;  // one of these, as forms_of_commit() returns them
  std::optional<std::string> label, host;
  std::set<std::string> models;  // runs with a figure of one of these, and runs without figures (failed)
  std::string except_commit;     // not this commit, by is_same_commit()
  std::set<std::string> except_keys;
  std::set<std::string> started_at;  // one of these times, as in the reports
  std::string until = {};            // timestamp: started then or before
};

// A full SHA and its short form of at least seven hex digits are the same commit. An empty name is no commit.
bool is_same_commit(std::string_view a, std::string_view b);

class RunHistory {
 public:
  // `create`: create a missing history. Errors: those of open_database(), another schema version, or a
  // database of another program.
  static Result<RunHistory> open(const std::string& place, bool create);

  // The names under which the history stores a commit: the given name, and shorter and longer forms of its
  // SHA. If there are none, the stored commit that begins with the name. Empty if there is no such commit.
  // Error: several commits match.
  Result<std::vector<std::string>> forms_of_commit(const std::string& named);

  // Adds all runs or, on an error, none. Returns the number of runs that are new.
  Result<std::size_t> add(const std::vector<KeptRun>& runs);
  // The last `count` runs that were added (default: all), in the order of adding, without reports and
  // figures.
  Result<std::vector<KeptRun>> list(std::optional<std::int64_t> count = std::nullopt);
  // The selected runs with reports and figures, sorted by start time, oldest first.
  Result<std::vector<KeptRun>> load(const RunChoice& choice);
  // Changes commit and label (each if given). If some of `ids` do not exist, changes nothing and returns
  // those.
  Result<std::vector<std::int64_t>> relabel(const std::vector<std::int64_t>& ids,
                                            const std::optional<std::string>& commit,
                                            const std::optional<std::string>& label);
  // Removes all runs. If some do not exist, removes none and returns those.
  Result<std::vector<std::int64_t>> remove(const std::vector<std::int64_t>& ids);
  // One metric of one model (empty: all models), for the runs of a label and a host (absent: all). Sorted by
  // start time, oldest first. Each returned run contains only that figure.
  Result<std::vector<KeptRun>> figures(const std::string& metric, const std::string& model = {},
                                       const std::optional<std::string>& label = {},
                                       const std::optional<std::string>& host = {});

 private:
  explicit RunHistory(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  // Ends the transaction without changes, because of an error.
  template <class Failed>
  tl::unexpected<Error> roll_back(Failed& failed) {
    (void)database_->query("ROLLBACK");
    return forward_error(failed);
  }
  Status check_schema(bool create);
  Status make_tables();
  Result<bool> insert(const KeptRun& run);
  // Adds reports and figures to runs. Drops runs that another program removed in the meantime.
  Status fill(std::vector<KeptRun>& runs);
  // Runs the statements for all `ids` in one transaction. If some do not exist, changes nothing and returns
  // those.
  Result<std::vector<std::int64_t>> change_all(const std::vector<std::int64_t>& ids,
                                               const std::vector<std::string>& statements,
                                               const std::vector<Cell>& values);

  std::unique_ptr<Database> database_;
};

}  // namespace headroom::history
