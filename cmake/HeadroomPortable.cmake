# The portable build (cmake/portable.cmake): every binary gets replacements for functions of glibc after 2.27, and finds
# the libraries of the package from wherever it is installed.
add_library(headroom_old_glibc STATIC src/base/old_glibc.c)
link_libraries($<BUILD_INTERFACE:headroom_old_glibc>)
foreach(function exp exp2 log log2 pow fcntl64 pthread_cond_clockwait)
  add_link_options(-Wl,--wrap=${function})
endforeach()
# DT_RPATH, which also holds for the libraries that a library needs.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib/headroom:$ORIGIN")
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
add_link_options(-Wl,--disable-new-dtags)
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
