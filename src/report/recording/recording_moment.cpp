#include "report/recording/recording_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "attribution/peak_shares.h"
#include "base/text.h"
#include "base/utf8.h"
#include "report/recording/recording_html.h"
#include "report/recording/recording_parts.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"
#include "report/text_layout.h"
#include "report/words.h"

namespace headroom::report {
namespace {

using namespace attribution;

constexpr std::size_t kRowsOfAMoment = 5, kStacks = 50, kAllRows = ~std::size_t{0};

struct RowsByModule {
  std::vector<std::string> names;
  std::vector<LiveRow> rows;

  RowsByModule(const RecordingReport& report, const LiveRows& all) {
    std::map<std::string, LiveRow> by_name;
    for (std::uint32_t i = 0; i < all.by_stack.size(); ++i)
      if (all.by_stack[i].blocks != 0)
        by_name[responsible_module(report.info, report.stacks.frames(StackId{i}))].add(all.by_stack[i]);
    for (const auto& [name, row] : by_name) {
      names.push_back(name);
      rows.push_back(row);
    }
  }
};

std::int64_t bytes_of(const LiveRow& row) { return row.bytes; }

class MomentScreen {
 public:
  MomentScreen(const RecordingReport& report, const LiveRows& rows, bool color, int width)
      : report_(report), rows_(rows), screen_(color, width) {}

  std::string draw() {
    screen_.title(one_line_command(report_.info));
    screen_.wrapped(fmt::format("Live at {} of {}: {}", format_duration(rows_.time),
                                format_duration(report_.analysis.duration), what_was_live()));
    if (!report_.info.closed) screen_.line("The process was killed or is still running.");
    for (const std::string& part : missing_parts(report_.info, report_.analysis))
      screen_.wrapped("! " + part, 2);
    if (report_.analysis.host_recorded) {
      heap();
      add_mapped(screen_, report_, rows_);
    }
    add_devices(screen_, report_, rows_.devices);
    return std::move(screen_).text();
  }

 private:
  std::string what_was_live() const {
    if (!report_.analysis.host_recorded) return std::string(kGpuMemoryOnly);
    return fmt::format("{} in {}{}", words_for(rows_.bytes), words_for_count(rows_.blocks, "block"),
                       words_for_older_blocks(rows_.bytes));
  }

  void heap() {
    if (report_.analysis.layers.size() > 1)
      table(has_arena(report_.info, report_.analysis)
                ? "By layer (of a node: arena growth while the node ran)"
                : "By layer",
            rows_.by_layer, [&](std::size_t layer, int room) {
              return fit_path_to_width(name_of_layer(report_, static_cast<std::uint32_t>(layer)), room);
            });
    table("By place", rows_.by_stack, [&](std::size_t stack, int room) {
      return one_line_stack(report_, StackId{static_cast<std::uint32_t>(stack)}, room);
    });
    const RowsByModule modules(report_, rows_);
    table("By module", modules.rows, [&](std::size_t module, int room) {
      return fit_to_width(modules.names[module].empty() ? "(unknown)" : modules.names[module], room);
    });
    table("By size of the allocation", rows_.by_class,
          [](std::size_t bits, int) { return words_for_size_class(bits); });
    table("By thread that allocated", rows_.by_thread, [&](std::size_t index, int room) {
      return fit_to_width(words_for_thread(report_.info, index), room);
    });
  }

  // `name(i, room)`: of row i, in at most `room` columns.
  template <class Rows, class Name>
  void table(std::string_view title, const Rows& rows, Name name) {
    const std::vector<std::size_t> order = ranked(rows, bytes_of, kAllRows);
    if (order.empty()) return;
    screen_.heading(title);
    for (const std::size_t i : first_of(order, kRowsOfAMoment))
      screen_.row(share_figures(rows[i].bytes, rows_.bytes.value,
                                rows_.bytes.standard_error ? error_column(rows[i].standard_error()) : ""),
                  [&](int room) { return name(i, room); });
    screen_.and_more(order.size(), kRowsOfAMoment);
  }

  const RecordingReport& report_;
  const LiveRows& rows_;
  ScreenLines screen_;
};

void set(Json& object, const LiveRow& row) {
  object["bytes"] = row.bytes;
  object["blocks"] = row.blocks;
  set_if(object, "bytes_standard_error", row.standard_error());
}

// The rows that hold anything, the largest first; `describe(object, i)` adds what names row i.
template <class Rows, class Describe>
Json rows_json(const Rows& rows, std::size_t most, Describe describe) {
  return json_list(ranked(rows, bytes_of, most), [&](std::size_t i) {
    Json object;
    describe(object, i);
    set(object, rows[i]);
    return object;
  });
}

void add_heap(Json& json, const RecordingReport& report, const LiveRows& rows) {
  report::set(json, "live_bytes", rows.bytes);
  report::set(json, "live_blocks", rows.blocks);
  json["layers"] = rows_json(rows.by_layer, kAllRows, [&](Json& object, std::size_t layer) {
    object["layer_name"] = report.analysis.layers[layer].path;
  });
  json["stacks"] = rows_json(rows.by_stack, kStacks, [&](Json& object, std::size_t stack) {
    object["frames"] = frames_of(report, StackId{static_cast<std::uint32_t>(stack)});
  });
  const RowsByModule modules(report, rows);
  json["modules"] = rows_json(modules.rows, kAllRows, [&](Json& object, std::size_t module) {
    set_if(object, "module", modules.names[module]);
  });
  json["size_classes"] = rows_json(rows.by_class, kAllRows, [](Json& object, std::size_t bits) {
    object["smallest_bytes"] = smallest_of_class(bits);
    object["largest_bytes"] = largest_of_class(bits);
  });
  json["threads"] = rows_json(rows.by_thread, kAllRows, [&](Json& object, std::size_t thread) {
    object = thread_json(report.info, ThreadIndex{static_cast<std::uint32_t>(thread)});
  });
  json["mapped"] = mapped_json(report, rows.mapped);
}

}  // namespace

std::string moment_to_terminal(const RecordingReport& report, const LiveRows& rows, bool color, int width) {
  return MomentScreen(report, rows, color, width).draw();
}

Json moment_to_json(const RecordingReport& report, const LiveRows& rows) {
  Json json;
  json["schema_version"] = kRecordingReportSchemaVersion;
  json["file"] = report.file;
  json["command"] = report.info.command;
  json["time_seconds"] = rows.time.seconds();
  json["duration_seconds"] = report.analysis.duration.seconds();
  json["host_recorded"] = report.analysis.host_recorded;
  json["full"] = report.analysis.full;
  json["complete"] = report.analysis.complete;
  json["problems"] = report.analysis.problems;
  json["notes"] = report.info.notes;
  json["dropped_events"] = report.analysis.dropped_events;
  if (report.analysis.host_recorded) add_heap(json, report, rows);
  if (!rows.devices.empty()) json["devices"] = devices_json(report, rows.devices);
  return json;
}

}  // namespace headroom::report
