// For the portable build. Debian's static libjpeg, libpng and libtiff are compiled for programs: a shared
// library cannot link their uses of a variable of glibc. The linker's --wrap=stderr gives them this variable
// instead. (Their functions that write to it are replaced: jpeg.cpp, png.cpp, tiff_file.cpp.)
#include <stdio.h>

extern FILE* __real_stderr;
__attribute__((visibility("hidden"))) FILE* __wrap_stderr;

__attribute__((constructor)) static void set_stderr(void) { __wrap_stderr = __real_stderr; }

// The functions of libjbig, which is under the GPL: the package does not bring it. libtiff calls them for a
// TIFF with JBIG compression, which then cannot be read.
#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN int jbg_dec_in(void) { return 1; }
HIDDEN int jbg_newlen(void) { return 1; }
HIDDEN const char* jbg_strerror(void) { return "this build has no JBIG decoder"; }
HIDDEN const unsigned char* jbg_dec_getimage(void) { return NULL; }
HIDDEN unsigned long jbg_dec_getsize(void) { return 0; }
HIDDEN void jbg_dec_init(void) {}
HIDDEN void jbg_dec_free(void) {}
HIDDEN void jbg_enc_init(void) {}
HIDDEN void jbg_enc_out(void) {}
HIDDEN void jbg_enc_free(void) {}
