// All verbs detect the kind of a file in the same way, with any order of keys and any leading bytes.
#include "report/input/input_kind.h"

#include <zlib.h>

#include "base/json.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using report::InputKind;
using report::known_kind;

const std::string kReport = "{\n  \"schema_version\": 1,\n  \"run_name\": \"a\",\n  \"models\": []\n}\n";
const std::string kSorted = "{\n  \"models\": [],\n  \"run_name\": \"a\",\n  \"schema_version\": 1\n}\n";
const std::string kSample = R"({"time_ns": 5, "ram_total_bytes": 8000, "ram_available_bytes": 4000})"
                            "\n";
const std::string kFootprint =
    "{\n  \"schema_version\": 1,\n  \"model_fingerprint\": \"ab\",\n  \"runtime_bytes\": 5\n}\n";

class InputKinds : public testing::Test {
 protected:
  std::optional<InputKind> kind(const std::string& text, const std::string& name = "file") {
    write_text(folder_ / name, text);
    return known_kind(folder_ / name);
  }
  TemporaryFolder folder_;
};

TEST_F(InputKinds, AreDetectedByContent) {
  EXPECT_EQ(kind(kReport), InputKind::run);
  EXPECT_EQ(kind(kSample), InputKind::watch_log);
  EXPECT_EQ(kind(kFootprint), InputKind::footprint);
  EXPECT_EQ(kind("anything", "a.hrec"), InputKind::recording) << "it is meant as one";
  EXPECT_EQ(known_kind(folder_ / "absent"), std::nullopt);
  EXPECT_EQ(known_kind(folder_.path()), std::nullopt);
}

TEST_F(InputKinds, AreDetectedWithAnyKeyOrderAndLeadingBytes) {
  EXPECT_EQ(kind(kSorted), InputKind::run);
  for (const std::string before : {"\n", " \r\n\n", "\xef\xbb\xbf", "\xef\xbb\xbf\n"}) {
    EXPECT_EQ(kind(before + kReport), InputKind::run);
    EXPECT_EQ(kind(before + kSorted), InputKind::run);
    EXPECT_EQ(kind(before + kSample + kSample), InputKind::watch_log);
  }
  // The memory total comes after the part that is read for detection.
  Json sample{{"processes", Json::array()}, {"ram_total_bytes", 8000}, {"time_ns", 5}};
  for (int i = 0; i < 100; ++i)
    sample["processes"].push_back({{"pid", i}, {"command", std::string(100, 'c')}});
  EXPECT_EQ(kind(sample.dump() + "\n" + sample.dump() + "\n"), InputKind::watch_log);
}

TEST_F(InputKinds, ADamagedFileIsStillDetected) {
  EXPECT_EQ(kind(kReport.substr(0, kReport.size() - 4)), InputKind::run);
  EXPECT_EQ(kind(kSample.substr(0, kSample.size() - 4)), InputKind::watch_log);
  EXPECT_EQ(kind(kFootprint.substr(0, kFootprint.size() - 3)), InputKind::footprint);
}

TEST_F(InputKinds, OtherDocumentsAreNotDetected) {
  for (const std::string line :
       {R"({"time_ns": 5, "level": "info", "text": "a program that counts so, too"})",
        R"({"text": "has \"run_name\" and \"schema_version\""})",
        R"({"time_ns": 5, "gpus": 3, "text": "a number of them"})"})
    EXPECT_EQ(kind(line + "\n"), std::nullopt) << line;
  EXPECT_EQ(kind("{\n \"a\": {\"run_name\": 1, \"schema_version\": 2}\n}\n"), std::nullopt);
  const std::string one_line = R"({"schema_version": 1, "run_name": "a", "models": []})"
                               "\n";
  EXPECT_EQ(kind(one_line), InputKind::run);
  EXPECT_EQ(kind(one_line + one_line), std::nullopt) << "a log that is a document a line";
  EXPECT_EQ(kind(R"({"model_fingerprint": "ab", "runtime_bytes": 5, "text": "a line of a log"})"
                 "\n{}\n"),
            std::nullopt);
  EXPECT_EQ(kind("{ start\n"), std::nullopt);
  EXPECT_EQ(kind(""), std::nullopt);
  EXPECT_EQ(kind("start\n" + kReport), std::nullopt) << "a log that has one";
}

TEST_F(InputKinds, AWatchLogMayBeCompressed) {
  const auto packed = [&](const std::string& text) {
    const std::string name = (folder_ / "packed.gz").string();
    gzFile file = gzopen(name.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    return known_kind(name);
  };
  EXPECT_EQ(packed(kSample + kSample), InputKind::watch_log);
  EXPECT_EQ(packed("start\nend\n"), std::nullopt);
  EXPECT_EQ(packed(R"({"level": "info", "processes": 3})"
                   "\n"),
            std::nullopt);
}

}  // namespace
}  // namespace headroom::test
