#include <vector>

#include "snapshot/pickle_data.h"
#include "support/test_support.h"

namespace headroom::snapshot {

namespace {

PickleValue text(PickleData& data, std::string_view word) { return data.add_text(word, PickleKind::text); }

TEST(PickleData, DictsWithTheSameKeysShareThem) {
  PickleData data;
  const PickleValue key_a = text(data, "a"), key_b = text(data, "b");
  std::vector<std::uint32_t> shapes;
  for (int i = 0; i < 3; ++i) {
    const PickleValue dict = data.add_object(PickleKind::dict);
    const PickleValue pairs[] = {key_a, data.add_integer(i), i == 2 ? key_a : key_b,
                                 data.add_integer(10 * i)};
    ASSERT_TRUE(data.set_items(dict, pairs));
    shapes.push_back(data.row(dict)->shape);
    EXPECT_EQ(data.integer(data.find(dict, data.text_id(key_a))), i == 2 ? 20 : i)
        << "the last of equal keys counts";
  }
  EXPECT_EQ(shapes[0], shapes[1]);
  EXPECT_NE(shapes[0], shapes[2]);
}

TEST(PickleData, FindsItemsSetInSeveralSteps) {
  PickleData data;
  const PickleValue dict = data.add_object(PickleKind::dict);
  const PickleValue one[] = {text(data, "a"), data.add_integer(1)};
  const PickleValue two[] = {text(data, "b"), data.add_integer(2), text(data, "a"), data.add_integer(3)};
  ASSERT_TRUE(data.set_items(dict, one));
  ASSERT_TRUE(data.set_items(dict, two));
  EXPECT_FALSE(data.row(dict).has_value());
  EXPECT_EQ(data.integer(data.find(dict, data.strings().intern("a"))), 3);
  EXPECT_EQ(data.integer(data.find(dict, data.strings().intern("b"))), 2);
  EXPECT_EQ(data.find(dict, data.strings().intern("c")).kind(), PickleKind::absent);
  EXPECT_EQ(data.find(one[1], data.strings().intern("a")).kind(), PickleKind::absent)
      << "the value is not a dict";
}

TEST(PickleColumns, ReadsTheSameKeysOfDictsOfAllShapes) {
  PickleData data;
  PickleColumns<3> columns(data, {"size", "addr", "frames"});
  const PickleValue list = data.add_object(PickleKind::list);
  const PickleValue both[] = {text(data, "addr"), data.add_integer(4096), text(data, "size"),
                              data.add_integer(512)};
  const PickleValue size[] = {text(data, "size"), data.add_integer(7), text(data, "frames"), list};
  for (int times = 0; times < 2; ++times) {
    for (const auto& pairs : {std::span<const PickleValue>(both), std::span<const PickleValue>(size)}) {
      const PickleValue dict = data.add_object(PickleKind::dict);
      ASSERT_TRUE(data.set_items(dict, pairs));
      const auto values = columns.read(dict);
      EXPECT_EQ(data.integer(values[0]), &pairs[0] == &both[0] ? 512 : 7);
      EXPECT_EQ(values[1].kind(), &pairs[0] == &both[0] ? PickleKind::integer : PickleKind::absent);
      EXPECT_EQ(values[2].kind(), &pairs[0] == &both[0] ? PickleKind::absent : PickleKind::list);
    }
    EXPECT_THAT(columns.read(list), testing::Each(PickleValue(PickleKind::absent, 0)));
  }
}

}  // namespace

}  // namespace headroom::snapshot
