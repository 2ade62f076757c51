// Checks that docs/report.schema.json names every key that report.json can have. The golden reports contain
// only the keys of their runs; the report in this test contains all keys.
#include <gtest/gtest.h>

#include "report/run/report_fields.h"
#include "report/run/report_json.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {

// Sets every field of the report, and gives every list one element.
class FieldFiller {
 public:
  template <class T>
  void operator()(std::string_view, T& value) {
    fill(value);
  }
  template <class T>
  void unless_zero(std::string_view, T& value) {
    fill(value);
  }
  template <class Describe>
  void group(std::string_view, Describe describe_members) {
    describe_members(*this);
  }
  template <class T>
  void inlined(std::optional<T>& value, std::string_view) {
    fill(value);
  }

 private:
  template <class T>
  void fill(T& value) {
    if constexpr (is_optional<T>) {
      fill(value.emplace());
    } else if constexpr (is_list<T>) {
      value.resize(1);
      fill(value.front());
    } else if constexpr (std::same_as<T, std::string>) {
      value = "text";
    } else if constexpr (std::same_as<T, Bytes> || std::same_as<T, Nanoseconds>) {
      value.count = 1;
    } else if constexpr (std::is_enum_v<T>) {
      value = kLast<T>;
    } else if constexpr (std::is_arithmetic_v<T>) {
      value = T{1};
    } else {
      describe(*this, value);
    }
  }
};

// Resolves a reference in the schema.
const Json& resolved(const Json& schema, const Json& part) {
  const std::string reference = get_text(part, "$ref");
  if (reference.empty()) return part;
  constexpr std::string_view kDefinitions = "#/$defs/";
  return get_member(get_member(schema, "$defs"), reference.substr(kDefinitions.size()));
}

// Appends the place of each key in `value` that is missing in `part`.
void check(const Json& schema, const Json& given, const Json& value, const std::string& place,
           std::vector<std::string>& unknown) {
  const Json& part = resolved(schema, given);
  if (value.is_array() && !value.empty())
    return check(schema, get_member(part, "items"), value.front(), place + "[]", unknown);
  if (!value.is_object()) return;
  const Json& properties = get_member(part, "properties");
  for (const auto& [key, member] : value.items()) {
    const std::string at = place + "." + key;
    if (!properties.contains(key))
      unknown.push_back(at);
    else
      check(schema, properties[key], member, at, unknown);
  }
}

TEST(ReportSchema, NamesEveryKey) {
  BenchResult everything;
  FieldFiller filler;
  describe(filler, everything);
  everything.limit->mechanism = LimitMechanism::rlimit_data;  // adds the figures that depend on it
  const Json report = to_json(everything);
  const auto schema = parse_json(
      test::read_text(std::filesystem::path(test::source_path("docs/report.schema.json"))), "the schema");
  ASSERT_TRUE(schema);
  std::vector<std::string> unknown;
  check(*schema, *schema, report, "", unknown);
  EXPECT_EQ(unknown, std::vector<std::string>{});
  // Proves that the check descends: the trials of a model are three levels down.
  EXPECT_TRUE(get_member(get_member(report, "models")[0], "trials")[0].contains("within_limit"));
}

}  // namespace
}  // namespace headroom::report
