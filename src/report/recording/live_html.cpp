// Embedded as html_page.cpp does it.
#include "report/recording/live_html.h"

#ifndef HEADROOM_LIVE_PAGE
#error "html.cmake defines HEADROOM_LIVE_PAGE, the path of the built page"
#endif

asm(".section .rodata\n"
    ".global headroom_live_page_begin\n"
    ".global headroom_live_page_end\n"
    ".balign 16\n"
    "headroom_live_page_begin:\n"
    ".incbin \"" HEADROOM_LIVE_PAGE
    "\"\n"
    "headroom_live_page_end:\n"
    ".byte 0\n"
    ".text\n");

extern "C" {
extern const char headroom_live_page_begin[];
extern const char headroom_live_page_end[];
}

namespace headroom::report {

std::string_view live_page() { return {headroom_live_page_begin, headroom_live_page_end}; }

}  // namespace headroom::report
