// Every view of every sample run against its golden file. After an intended change:
//   HEADROOM_UPDATE_GOLDEN=1 build/release/tests/report_test --gtest_filter='*Golden*'
// and read the difference with git before you commit it.
#include "base/json.h"
#include "report/run/report_json.h"
#include "report/run/views.h"
#include "sample_results.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {
class Golden : public testing::TestWithParam<NamedRun> {
 protected:
  void compare(const std::string& file, const std::string& text) {
    compare_with_golden("report/" + GetParam().name + "/" + file, text);
  }
};

TEST_P(Golden, ReportJson) { compare("report.json", to_text(report::to_json(GetParam().result))); }
TEST_P(Golden, ReportMarkdown) { compare("report.md", report::to_markdown(GetParam().result)); }
TEST_P(Golden, SummaryCsv) { compare("summary.csv", report::to_csv(GetParam().result)); }
TEST_P(Golden, Terminal) { compare("terminal.txt", report::to_terminal(GetParam().result, false, 80)); }

INSTANTIATE_TEST_SUITE_P(Runs, Golden, testing::ValuesIn(sample_runs()),
                         [](const auto& run) { return run.param.name; });

}  // namespace
}  // namespace headroom::test
