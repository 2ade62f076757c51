// Files that earlier versions wrote (tests/golden/earlier/COMMIT) are still read, with the same figures.
// Files of a later version are refused, and the message says which Headroom can open them.
#include <functional>

#include "base/text.h"
#include "cli/command.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

const fs::path kEarlier = test::source_path("tests/golden/earlier");

std::vector<std::string> cells_of(const std::string& text, char separator) {
  const auto views = split(text, separator);
  return {views.begin(), views.end()};
}

// A copy of a version's folder, with its files unpacked.
class EarlierFiles {
 public:
  explicit EarlierFiles(const fs::path& version) {
    fs::copy(version, path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    CommandOptions gzip;
    gzip.binary = "/bin/gzip";
    EXPECT_EQ(run_headroom({"-dr", path().string()}, gzip).exit_code, 0);
  }
  fs::path path() const { return folder_.path(); }
  CommandResult headroom(const std::string& arguments) const {
    CommandOptions options;
    options.folder = path();
    return run_headroom(cells_of(arguments, ' '), options);
  }

 private:
  TemporaryFolder folder_;
};

// The document of --json, or the last one of --jsonl.
Json document_of(const std::string& output) {
  if (const auto whole = parse_json(output)) return *whole;
  const auto last = parse_json(split(trim(output), '\n').back());
  return last ? *last : Json();
}

// Every key of `earlier` with its value is in `later`, which may have more keys.
void expect_contains(const Json& later, const Json& earlier, const std::string& where) {
  if (earlier.is_object()) {
    for (const auto& [key, value] : earlier.items()) {
      if (later.is_object() && later.contains(key))
        expect_contains(later[key], value, where + "/" + key);
      else
        ADD_FAILURE() << where << "/" << key << " is gone";
    }
  } else if (earlier.is_array() && later.is_array() && earlier.size() == later.size()) {
    for (std::size_t i = 0; i < earlier.size(); ++i)
      expect_contains(later[i], earlier[i], where + "/" + std::to_string(i));
  } else {
    EXPECT_EQ(later, earlier) << where;
  }
}

// A cell of expected.tsv; its first line describes the forms.
void expect_cell(const std::string& cell, const std::string& output, const fs::path& folder) {
  if (cell.starts_with("= ")) {
    const auto earlier = parse_json(read_text(folder / cell.substr(2)));
    ASSERT_TRUE(earlier.has_value()) << cell;
    expect_contains(document_of(output), *earlier, "");
    return;
  }
  const std::size_t equals = cell.find('=');
  if (!cell.starts_with('/') || equals == std::string::npos) {
    EXPECT_THAT(output, HasSubstr(cell));
    return;
  }
  const Json document = document_of(output);
  const Json::json_pointer pointer(cell.substr(0, equals));
  const auto expected = parse_json(cell.substr(equals + 1));
  ASSERT_TRUE(expected.has_value()) << cell;
  ASSERT_TRUE(document.contains(pointer)) << cell;
  EXPECT_EQ(document[pointer], *expected) << cell;
}

TEST(EarlierFiles, AreReadWithTheSameFigures) {
  int rows = 0;
  for (const auto& version : fs::directory_iterator(kEarlier)) {
    const EarlierFiles files(version.path());
    for (const std::string& line : cells_of(read_text(files.path() / "expected.tsv"), '\n')) {
      if (line.empty() || line.starts_with('#')) continue;
      const std::vector<std::string> cells = cells_of(line, '\t');
      SCOPED_TRACE(version.path().filename().string() + ": headroom " + cells[0]);
      const CommandResult result = files.headroom(cells[0]);
      EXPECT_EQ(std::to_string(result.exit_code), cells[1]) << result.out << result.err;
      const std::string& output = result.out.empty() ? result.err : result.out;
      for (std::size_t i = 2; i < cells.size(); ++i) expect_cell(cells[i], output, files.path());
      ++rows;
    }
  }
  EXPECT_GE(rows, 35);
}

// The same files with the version of a later format.
TEST(EarlierFiles, OfALaterFormatAreRefusedWithTheVersionToUse) {
  const auto replace = [](const std::string& before, const std::string& after) {
    return [=](std::string& content) {
      const std::size_t at = content.find(before);
      ASSERT_NE(at, std::string::npos);
      content.replace(at, before.size(), after);
    };
  };
  struct Case {
    const char* file;
    std::function<void(std::string&)> change;
    const char* arguments;
    const char* cause;
    const char* cure;
  };
  const auto later_recording = [](std::string& content) { content[8] = 2; };
  const auto later_schema = replace("\"schema_version\": 1", "\"schema_version\": 9");
  const char* const use_recorder = "use the version of Headroom that recorded it";
  const Case cases[] = {
      {"full.hrec", later_recording, "report full.hrec", "version 2", use_recorder},
      {"full.hrec", later_recording, "diff full.hrec killed.hrec", "version 2", use_recorder},
      {"full.hrec", later_recording, "export full.hrec --to speedscope --out -", "version 2", use_recorder},
      {"gpu.hrec", later_recording, "doctor gpu.hrec", "version 2", use_recorder},
      {"runs/first/report.json", later_schema, "report runs/first", "is 9", "use a newer Headroom"},
      {"runs/first/report.json", later_schema, "diff runs/first runs/second", "is 9", "use a newer Headroom"},
      {"runs/first/report.json", later_schema, "history add runs/first --db new.sqlite", "is 9",
       "use a newer Headroom"},
      {"runs/second/footprints/digits.json", later_schema, "plan budget.toml --footprints runs/second",
       "is 9", "use a newer Headroom"},
      {"history.sqlite", replace("schema_version1", "schema_version9"), "history list --db history.sqlite",
       "schema version 9", "update Headroom"},
  };
  const EarlierFiles files(kEarlier / "9f3521f2");
  for (const Case& each : cases) {
    SCOPED_TRACE(each.arguments);
    const std::string before = read_text(files.path() / each.file);
    std::string later = before;
    each.change(later);
    write_text(files.path() / each.file, later);
    const CommandResult result = files.headroom(each.arguments);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.err, AllOf(HasSubstr(each.cause), HasSubstr(each.cure)));
    write_text(files.path() / each.file, before);
  }
}

// Logs have no version: a reader skips keys that it does not know.
TEST(EarlierFiles, KeysOfALaterWatchLogAreSkipped) {
  const EarlierFiles files(kEarlier / "9f3521f2");
  const std::string log = read_text(files.path() / "watch.jsonl");
  write_text(files.path() / "watch.jsonl", "{\"later_key\":[1]," + log.substr(1));
  const CommandResult result = files.headroom("top --replay watch.jsonl --once");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("sample 20 of 20"));
}

}  // namespace
}  // namespace headroom::test
