# Foreign libraries, each with the module that uses it. scripts/install_dependencies.sh installs them.

find_package(Threads REQUIRED)
if(HEADROOM_CORE_ONLY OR HEADROOM_PORTABLE)
  # Header-only: nothing of the target's architecture is needed but its C and C++ libraries.
  add_library(headroom_fmt INTERFACE)
  target_compile_definitions(headroom_fmt INTERFACE FMT_HEADER_ONLY)
  # For machines where these headers are not installed: a folder that scripts/pack_core_headers.sh filled elsewhere.
  set(HEADROOM_CORE_HEADERS "" CACHE PATH "Folder with include/ (fmt, spdlog, nlohmann, tl) and googletest/; empty: the system's")
  if(HEADROOM_CORE_HEADERS)
    target_include_directories(headroom_fmt SYSTEM INTERFACE ${HEADROOM_CORE_HEADERS}/include)
  endif()
  add_library(headroom_spdlog INTERFACE)
  target_compile_definitions(headroom_spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
  target_link_libraries(headroom_spdlog INTERFACE Threads::Threads)
else()
  find_package(fmt 9 REQUIRED)
  find_package(spdlog 1.10 REQUIRED)
  add_library(headroom_fmt ALIAS fmt::fmt)
  add_library(headroom_spdlog ALIAS spdlog::spdlog)
  find_package(nlohmann_json 3.11 REQUIRED)
  find_package(CLI11 2.1 REQUIRED)
endif()

# Only the tests and benchmarks use OpenCV: they compare pictures and preprocessing with its results.
if((HEADROOM_TESTS OR HEADROOM_BENCHMARKS) AND NOT HEADROOM_CORE_ONLY AND NOT HEADROOM_PORTABLE)
  # Debian ships OpenCV's CMake files only with the package of all modules (VTK, Qt and all); three small ones do.
  find_path(HEADROOM_OPENCV_INCLUDE opencv2/imgcodecs.hpp PATH_SUFFIXES opencv4 REQUIRED)
  add_library(headroom_opencv INTERFACE)
  target_include_directories(headroom_opencv SYSTEM INTERFACE ${HEADROOM_OPENCV_INCLUDE})
  foreach(module core imgproc imgcodecs)
    find_library(HEADROOM_OPENCV_${module} opencv_${module} REQUIRED)
    target_link_libraries(headroom_opencv INTERFACE ${HEADROOM_OPENCV_${module}})
  endforeach()
endif()

if(NOT HEADROOM_CORE_ONLY)
  find_package(ZLIB 1.2 REQUIRED)  # exports
  # Pictures. The portable build links static libraries; libtiff then needs the libraries of its compressions.
  find_path(HEADROOM_JPEG_INCLUDE jpeglib.h REQUIRED)
  find_path(HEADROOM_PNG_INCLUDE png.h REQUIRED)
  find_path(HEADROOM_WEBP_INCLUDE webp/decode.h REQUIRED)
  find_path(HEADROOM_TIFF_INCLUDE tiffio.h REQUIRED)
  find_path(HEADROOM_AGG_INCLUDE agg_rasterizer_scanline_aa.h PATH_SUFFIXES agg2 REQUIRED)
  add_library(headroom_picture_libraries INTERFACE)
  target_include_directories(headroom_picture_libraries SYSTEM INTERFACE
    ${HEADROOM_JPEG_INCLUDE} ${HEADROOM_PNG_INCLUDE} ${HEADROOM_WEBP_INCLUDE} ${HEADROOM_TIFF_INCLUDE} ${HEADROOM_AGG_INCLUDE})
  set(libraries tiff webp png16 jpeg)
  if(HEADROOM_PORTABLE)
    list(APPEND libraries zstd lzma deflate)  # instead of jbig: pictures/static_libraries.c
  endif()
  foreach(library agg_pic ${libraries})
    find_library(HEADROOM_PICTURES_${library} ${library} REQUIRED)
    target_link_libraries(headroom_picture_libraries INTERFACE ${HEADROOM_PICTURES_${library}})
  endforeach()
  target_link_libraries(headroom_picture_libraries INTERFACE ZLIB::ZLIB)

  # The screen of headroom top: ncurses with wide characters, and terminfo where that is a library of its own.
  find_path(HEADROOM_NCURSES_INCLUDE ncurses.h PATH_SUFFIXES ncursesw REQUIRED)
  find_library(HEADROOM_NCURSES ncursesw REQUIRED)
  find_library(HEADROOM_TINFO NAMES tinfow tinfo ncursesw REQUIRED)
  add_library(headroom_ncurses INTERFACE)
  target_include_directories(headroom_ncurses SYSTEM INTERFACE ${HEADROOM_NCURSES_INCLUDE})
  target_link_libraries(headroom_ncurses INTERFACE ${HEADROOM_NCURSES} ${HEADROOM_TINFO})

  # The history of runs. (PostgreSQL's libpq is opened at run time.)
  find_path(HEADROOM_SQLITE_INCLUDE sqlite3.h REQUIRED)
  find_library(HEADROOM_SQLITE sqlite3 REQUIRED)
  add_library(headroom_sqlite INTERFACE)
  target_include_directories(headroom_sqlite SYSTEM INTERFACE ${HEADROOM_SQLITE_INCLUDE})
  target_link_libraries(headroom_sqlite INTERFACE ${HEADROOM_SQLITE})

  # Symbolisation: libdw and libelf (ELF, DWARF), libiberty (demangling of C++ and Rust).
  find_path(HEADROOM_ELFUTILS_INCLUDE elfutils/libdwfl.h REQUIRED)
  find_path(HEADROOM_LIBIBERTY_INCLUDE libiberty/demangle.h REQUIRED)
  find_library(HEADROOM_DW libdw.so REQUIRED)  # shared: elfutils is under the LGPL
  find_library(HEADROOM_ELF libelf.so REQUIRED)
  find_library(HEADROOM_IBERTY iberty REQUIRED)
  add_library(headroom_elfutils INTERFACE)
  target_include_directories(headroom_elfutils SYSTEM INTERFACE ${HEADROOM_ELFUTILS_INCLUDE})
  target_link_libraries(headroom_elfutils INTERFACE ${HEADROOM_DW} ${HEADROOM_ELF})
  add_library(headroom_libiberty INTERFACE)
  target_include_directories(headroom_libiberty SYSTEM INTERFACE ${HEADROOM_LIBIBERTY_INCLUDE})
  target_link_libraries(headroom_libiberty INTERFACE ${HEADROOM_IBERTY})
endif()

# ONNX Runtime: headers only; the plug-in opens the library at run time.
set(HEADROOM_ONNXRUNTIME_INCLUDE ${HEADROOM_DEPS_DIR}/onnxruntime/include)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(HEADROOM_ONNXRUNTIME_LIBRARY ${HEADROOM_DEPS_DIR}/onnxruntime/lib/arm64/libonnxruntime.so.1)
else()
  set(HEADROOM_ONNXRUNTIME_LIBRARY ${HEADROOM_DEPS_DIR}/onnxruntime/lib/x64/libonnxruntime.so.1)
endif()
