// Embedded as html_page.cpp does it.
#include "report/plan/plan_html_page.h"

#ifndef HEADROOM_PLAN_PAGE
#error "html.cmake defines HEADROOM_PLAN_PAGE, the path of the built page"
#endif

asm(".section .rodata\n"
    ".global headroom_plan_page_begin\n"
    ".global headroom_plan_page_end\n"
    ".balign 16\n"
    "headroom_plan_page_begin:\n"
    ".incbin \"" HEADROOM_PLAN_PAGE
    "\"\n"
    "headroom_plan_page_end:\n"
    ".byte 0\n"
    ".text\n");

extern "C" {
extern const char headroom_plan_page_begin[];
extern const char headroom_plan_page_end[];
}

namespace headroom::report {

std::string_view plan_html_page() { return {headroom_plan_page_begin, headroom_plan_page_end}; }

}  // namespace headroom::report
