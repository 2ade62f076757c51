# The portable build (cmake/portable.cmake): every binary gets replacements for functions of glibc after 2.27, and finds
# the libraries of the package from wherever it is installed.
add_library(headroom_old_glibc STATIC src/base/old_glibc.c)
set_target_properties(headroom_old_glibc PROPERTIES C_VISIBILITY_PRESET hidden)
link_libraries($<BUILD_INTERFACE:headroom_old_glibc>)
foreach(function exp exp2 log log2 pow fcntl64 pthread_cond_clockwait)
  add_link_options(-Wl,--wrap=${function})
endforeach()
add_link_options(-Wl,--strip-all)  # cmake --install --strip would need a strip for the other machine
# The libraries contain the C++ library, which must not replace the one of the program that loads them. The preload
# libraries, which are linked as C, contain none.
set(is_cpp_library $<AND:$<LINK_LANGUAGE:CXX>,$<NOT:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>>>)
add_link_options($<${is_cpp_library}:-Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/exports.map>)
# DT_RPATH, which also holds for the libraries that a library needs.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
add_link_options(-Wl,--disable-new-dtags)
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
