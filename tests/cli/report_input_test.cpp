// Errors of `headroom report`: a path that is neither a run nor an intact recording, and missing folders of
// symbols.
#include "cli/command.h"
#include "support/recording_builder.h"

namespace headroom::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ReportInput : public testing::Test {
 protected:
  CommandResult report(const std::string& path) { return run_headroom({"report", path}); }
  std::string recording() {
    const auto file = folder_ / "a.hrec";
    RecordingBuilder builder(file);
    builder.allocate(0, 1, 0x1000, 1 << 20, {});
    builder.finish();
    return file.string();
  }
  TemporaryFolder folder_;
};

TEST_F(ReportInput, ACutOffRecordingIsNotReadAsJson) {
  for (const std::size_t bytes : {0u, 4u, 12u}) {
    write_text(folder_ / "cut.hrec", std::string("HEADROOM and more").substr(0, bytes));
    const CommandResult result = report((folder_ / "cut.hrec").string());
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr("cut.hrec: it has " + std::to_string(bytes) +
                                            " bytes and a recording begins with 4096"),
                                  HasSubstr("record again")));
  }
  EXPECT_THAT(report((folder_ / "none.hrec").string()).err, HasSubstr("No such file"));
}

TEST_F(ReportInput, SuggestsARecordingOfAFolder) {
  EXPECT_THAT(report(folder_.path().string()).err,
              AllOf(HasSubstr("has no report.json: it is not a run of headroom bench"),
                    HasSubstr("name a run's folder")));
  const std::string file = recording();
  const CommandResult result = report(folder_.path().string());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("has no report.json: the folder has a recording; run headroom report "),
                    HasSubstr(file)));
}

TEST_F(ReportInput, TheNextStepsSuggestThePage) {
  EXPECT_THAT(report(recording()).out, HasSubstr("a.hrec --html "));
}

TEST_F(ReportInput, RejectsAMissingSymbolFolder) {
  const std::string file = recording(), absent = (folder_ / "absent").string();
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"report", file, "--symbols", absent},
        {"export", file, "--to", "csv", "--symbols", absent},
        {"diff", file, file, "--symbols", absent},
        {"symbols", file, "--out", (folder_ / "out").string(), "--symbols", absent}}) {
    const CommandResult result = run_headroom(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments.front();
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("--symbols " + absent + " is not a folder: No such file or directory"),
                      HasSubstr("headroom symbols wrote")))
        << arguments.front();
  }
  EXPECT_EQ(run_headroom({"report", file, "--symbols", file}).exit_code, 2) << "a file is not a folder";
}

}  // namespace
}  // namespace headroom::test
