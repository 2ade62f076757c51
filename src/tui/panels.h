// The panels of `headroom top`. Each function draws from `row` down and returns the next free row.
#pragma once

#include <string>
#include <vector>

#include "tui/top_view.h"

namespace headroom::tui {

// Three digits and a binary unit, at most 8 columns: "8.21 GiB", "512 MiB".
std::string short_size(Bytes bytes);
// Warning and critical colours for high values, else `usual`.
Ink ink_of_percent(double percent, Ink usual);
// A bar of `columns` cells, filled by `share` in steps of an eighth of a cell.
std::string bar_text(double share, int columns, bool ascii);
// Puts the pieces in a row with two spaces between them, on at most `lines` rows. " +N" at the end counts the
// pieces that do not fit.
int put_flow(Canvas& canvas, int row, const std::vector<Spans>& pieces, int lines);

int draw_memory(Canvas& canvas, int row, const TopPicture& picture, const TopChoice& choice);
int draw_gpus(Canvas& canvas, int row, const TopPicture& picture, const TopChoice& choice, int most);
int draw_machine(Canvas& canvas, int row, const TopPicture& picture, const TopChoice& choice, int lines);
int draw_alerts(Canvas& canvas, int row, const TopPicture& picture, int most);
// `height` includes the row of captions.
int draw_charts(Canvas& canvas, int row, const TopPicture& picture, const TopChoice& choice, int height);

}  // namespace headroom::tui
