// Embeds the page with the assembler's own .incbin: no generated source, and the same on x86-64 and aarch64.
#include "report/run/html_page.h"

#ifndef HEADROOM_REPORT_PAGE
#error "html.cmake defines HEADROOM_REPORT_PAGE, the path of the built page"
#endif

asm(".section .rodata\n"
    ".global headroom_report_page_begin\n"
    ".global headroom_report_page_end\n"
    ".balign 16\n"
    "headroom_report_page_begin:\n"
    ".incbin \"" HEADROOM_REPORT_PAGE
    "\"\n"
    "headroom_report_page_end:\n"
    ".byte 0\n"
    ".text\n");

extern "C" {
extern const char headroom_report_page_begin[];
extern const char headroom_report_page_end[];
}

namespace headroom::report {

std::string_view html_page() { return {headroom_report_page_begin, headroom_report_page_end}; }

}  // namespace headroom::report
