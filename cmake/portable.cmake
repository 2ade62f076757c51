# Binaries for Debian 11 and later, JetPack 4 to 7 and Raspberry Pi OS: clang 22, lld and libc++ against Debian 11's
# libraries (scripts/fetch_portable_sysroot.sh). They need glibc 2.27 at most. HEADROOM_ARCHITECTURE: x86_64 or aarch64.
set(HEADROOM_ARCHITECTURE x86_64 CACHE STRING "Machine that the binaries run on: x86_64 or aarch64")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HEADROOM_ARCHITECTURE)
set(HEADROOM_PORTABLE ON)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${HEADROOM_ARCHITECTURE})
set(CMAKE_C_COMPILER clang-22)
set(CMAKE_CXX_COMPILER clang++-22)
set(CMAKE_AR ar)  # the host's; its index serves each machine
set(CMAKE_RANLIB ranlib)
set(CMAKE_C_COMPILER_TARGET ${HEADROOM_ARCHITECTURE}-linux-gnu)
set(CMAKE_CXX_COMPILER_TARGET ${HEADROOM_ARCHITECTURE}-linux-gnu)
get_filename_component(portable ${CMAKE_CURRENT_LIST_DIR}/../.deps/portable ABSOLUTE)
set(CMAKE_SYSROOT ${portable}/${HEADROOM_ARCHITECTURE})
if(NOT HEADROOM_ARCHITECTURE STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${HEADROOM_ARCHITECTURE} -L ${CMAKE_SYSROOT})
endif()
set(libcxx ${CMAKE_SYSROOT}/llvm)
# The sysroot's own clang folder has the target's runtime library (compiler-rt); the compiler's folder has its headers.
set(runtime "-resource-dir=${libcxx}/lib/clang/22 -isystem /usr/lib/llvm-22/lib/clang/22/include")
set(CMAKE_C_FLAGS_INIT "${runtime}")
set(CMAKE_CXX_FLAGS_INIT "-nostdinc++ -isystem ${libcxx}/include/c++/v1 ${runtime} -isystem ${portable}/include")
set(link "-fuse-ld=lld-22 --rtlib=compiler-rt --unwindlib=none -Wl,--build-id=sha1")
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "${link} -nostdlib++")
endforeach()
# The C++ library is static in each binary, and hidden in the libraries.
set(CMAKE_CXX_STANDARD_LIBRARIES_INIT
  "${libcxx}/lib/libc++.a ${libcxx}/lib/libc++abi.a ${libcxx}/lib/libunwind.a -lpthread -ldl -lm")
set(CMAKE_CXX_STANDARD_LIBRARIES ${CMAKE_CXX_STANDARD_LIBRARIES_INIT} CACHE STRING "")

set(CMAKE_FIND_ROOT_PATH ${CMAKE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
