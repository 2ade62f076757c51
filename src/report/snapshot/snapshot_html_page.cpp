// Embedded as html_page.cpp does it.
#include "report/snapshot/snapshot_html_page.h"

#ifndef HEADROOM_SNAPSHOT_PAGE
#error "html.cmake defines HEADROOM_SNAPSHOT_PAGE, the path of the built page"
#endif

asm(".section .rodata\n"
    ".global headroom_snapshot_page_begin\n"
    ".global headroom_snapshot_page_end\n"
    ".balign 16\n"
    "headroom_snapshot_page_begin:\n"
    ".incbin \"" HEADROOM_SNAPSHOT_PAGE
    "\"\n"
    "headroom_snapshot_page_end:\n"
    ".byte 0\n"
    ".text\n");

extern "C" {
extern const char headroom_snapshot_page_begin[];
extern const char headroom_snapshot_page_end[];
}

namespace headroom::report {

std::string_view snapshot_html_page() { return {headroom_snapshot_page_begin, headroom_snapshot_page_end}; }

}  // namespace headroom::report
