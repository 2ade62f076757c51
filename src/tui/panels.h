// The panels of `headroom top`. Each draws from a row on and returns the row behind it.
#pragma once

#include <string>
#include <vector>

#include "tui/top_view.h"

namespace headroom::tui {

// Three digits and a binary unit, at most 8 columns: "8.21 GiB", "512 MiB".
std::string short_size(Bytes bytes);
// "2.04 GHz", "729 MHz".
std::string short_clock(double hertz);
// In the colour of its height.
Ink ink_of_percent(double percent, Ink usual);
// A bar of eighths: `columns` wide, a share of it filled.
std::string bar_text(double share, int columns, bool ascii);
// Pieces behind each other with two spaces between them, in at most `lines` rows; what there is no room for
// is counted at the end.
int put_flow(Canvas& canvas, int row, const std::vector<Spans>& pieces, int lines);

int draw_memory(Canvas& canvas, int row, const TopPicture& picture, const TopChoice& choice);
int draw_gpus(Canvas& canvas, int row, const TopPicture& picture, const TopChoice& choice, int most);
int draw_machine(Canvas& canvas, int row, const TopPicture& picture, const TopChoice& choice, int lines);
int draw_alerts(Canvas& canvas, int row, const TopPicture& picture, int most);
// `height` rows with the captions.
int draw_charts(Canvas& canvas, int row, const TopPicture& picture, const TopChoice& choice, int height);
// From `row` to `end`, its header in the first.
void draw_processes(Canvas& canvas, int row, int end, const TopPicture& picture, const TopChoice& choice);
void draw_help(Canvas& canvas);
// The last row.
void draw_keys(Canvas& canvas, const TopChoice& choice);

}  // namespace headroom::tui
