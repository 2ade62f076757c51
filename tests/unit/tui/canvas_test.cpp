#include "tui/canvas.h"

#include "support/test_support.h"

namespace headroom::tui {
namespace {

TEST(Canvas, ClipsTextOutside) {
  Canvas canvas(4, 2);
  EXPECT_EQ(canvas.put(2, 0, "abc"), 4);
  canvas.put(0, 5, "x");
  canvas.put(-1, 0, "x");
  EXPECT_EQ(to_text(canvas, ColorDepth::none), "  ab\n\n");
}

TEST(Canvas, HandlesWideCombiningAndControlCharacters) {
  Canvas canvas(6, 1);
  canvas.put(0, 0, "日e\u0301\033x");
  EXPECT_EQ(canvas.at(1, 0).glyph, "");
  EXPECT_EQ(to_text(canvas, ColorDepth::none), "日e\u0301?x\n");
  Canvas narrow(1, 1);
  narrow.put(0, 0, "日");
  EXPECT_EQ(to_text(narrow, ColorDepth::none), "\n");
}

TEST(Canvas, WritesColoursByDepth) {
  Canvas canvas(4, 1);
  canvas.put(0, 0, "a", {Ink::critical, true});
  canvas.put(1, 0, "b");
  EXPECT_EQ(to_text(canvas, ColorDepth::none), "ab\n");
  EXPECT_EQ(to_text(canvas, ColorDepth::colors_16), "\033[0;1;31ma\033[0mb\n");
  EXPECT_EQ(to_text(canvas, ColorDepth::colors_256), "\033[0;1;38;5;203ma\033[0mb\n");
}

}  // namespace
}  // namespace headroom::tui
