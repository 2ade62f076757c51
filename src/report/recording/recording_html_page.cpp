// Embedded as html_page.cpp does it.
#include "report/recording/recording_html_page.h"

#ifndef HEADROOM_RECORDING_PAGE
#error "html.cmake defines HEADROOM_RECORDING_PAGE, the path of the built page"
#endif

asm(".section .rodata\n"
    ".global headroom_recording_page_begin\n"
    ".global headroom_recording_page_end\n"
    ".balign 16\n"
    "headroom_recording_page_begin:\n"
    ".incbin \"" HEADROOM_RECORDING_PAGE
    "\"\n"
    "headroom_recording_page_end:\n"
    ".byte 0\n"
    ".text\n");

extern "C" {
extern const char headroom_recording_page_begin[];
extern const char headroom_recording_page_end[];
}

namespace headroom::report {

std::string_view recording_html_page() {
  return {headroom_recording_page_begin, headroom_recording_page_end};
}

}  // namespace headroom::report
