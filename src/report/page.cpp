#include "report/page.h"

#include <fmt/format.h>
#include <array>

// Embeds a page with the assembler's .incbin: no generated source, and the same on x86-64 and aarch64.
// html.cmake defines HEADROOM_PAGES, the folder of the built pages.
#define HEADROOM_EMBED_PAGE(name)                        \
  asm(".pushsection .rodata\n"                           \
      ".global headroom_" #name "_page, headroom_" #name \
      "_page_end\n"                                      \
      "headroom_" #name                                  \
      "_page:\n"                                         \
      ".incbin \"" HEADROOM_PAGES "/" #name              \
      ".html\"\n"                                        \
      "headroom_" #name                                  \
      "_page_end:\n"                                     \
      ".byte 0\n"                                        \
      ".popsection\n");                                  \
  extern "C" const char headroom_##name##_page[], headroom_##name##_page_end[]

HEADROOM_EMBED_PAGE(report);
HEADROOM_EMBED_PAGE(recording);
HEADROOM_EMBED_PAGE(snapshot);
HEADROOM_EMBED_PAGE(plan);
HEADROOM_EMBED_PAGE(live);
HEADROOM_EMBED_PAGE(history);
HEADROOM_EMBED_PAGE(watch);

namespace headroom::report {

std::string_view empty_page(Page page) {
  // In the order of Page.
  static const std::array<std::string_view, 7> kPages{{{headroom_report_page, headroom_report_page_end},
                                                       {headroom_recording_page, headroom_recording_page_end},
                                                       {headroom_snapshot_page, headroom_snapshot_page_end},
                                                       {headroom_plan_page, headroom_plan_page_end},
                                                       {headroom_live_page, headroom_live_page_end},
                                                       {headroom_history_page, headroom_history_page_end},
                                                       {headroom_watch_page, headroom_watch_page_end}}};
  return kPages.at(static_cast<std::size_t>(page));
}

std::string page_with_data(Page page, const std::vector<PageData>& data) {
  constexpr std::string_view kMarker = "<!--headroom:data-->";  // build.mjs checks that each page has it
  const std::string_view empty = empty_page(page);
  const std::size_t marker = empty.find(kMarker);
  std::size_t size = empty.size();
  for (const PageData& one : data) size += one.json.size() + one.json.size() / 64 + 100;
  std::string html;
  html.reserve(size);
  html += empty.substr(0, marker);
  for (const PageData& one : data) {
    html += fmt::format("<script type=\"application/json\" id=\"{}\"{}>", one.id, one.attributes);
    for (const char c : one.json) {
      if (c == '<')
        html += "\\u003c";
      else
        html += c;
    }
    html += "</script>\n";
  }
  html += empty.substr(marker + kMarker.size());
  return html;
}

}  // namespace headroom::report
