# How a module, a test, a fuzzer and a plug-in are declared. Every target gets the same warnings and sanitizers.

add_library(headroom_flags INTERFACE)
target_compile_options(headroom_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Wnull-dereference $<$<BOOL:${HEADROOM_WARNINGS_AS_ERRORS}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports false positives of these two inside std::string and fmt at -O2 and above (GCC bug 105329).
  target_compile_options(headroom_flags INTERFACE -Wno-restrict -Wno-null-dereference)
  if(CMAKE_UNITY_BUILD)  # g++ takes a source in a batch for a header, whose types must not contain anonymous ones
    target_compile_options(headroom_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
endif()
# g++ collects garbage whenever its heap has doubled from 128 MiB on. That takes some 6 % of its time. With enough memory for each
# process (1.4 GiB for a large batch) the collection is not needed.
cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
cmake_host_system_information(RESULT memory_mib QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR memory_mib_each "${memory_mib} / ${processors}")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND memory_mib_each GREATER_EQUAL 4096)
  target_compile_options(headroom_flags INTERFACE --param=ggc-min-heapsize=2000000)
endif()
target_include_directories(headroom_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
if(HEADROOM_SANITIZER STREQUAL "address")
  set(sanitizer_flags -fsanitize=address -fno-omit-frame-pointer)
  target_link_options(headroom_flags INTERFACE -fsanitize=undefined)
  target_compile_definitions(headroom_flags INTERFACE HEADROOM_LEAK_SANITIZER)  # comes with it
elseif(HEADROOM_SANITIZER STREQUAL "thread")
  set(sanitizer_flags -fsanitize=thread -fno-omit-frame-pointer)
endif()
if(HEADROOM_SANITIZER)
  target_compile_options(headroom_flags INTERFACE ${sanitizer_flags})
  target_link_options(headroom_flags INTERFACE ${sanitizer_flags})
  # For tests of things that a sanitizer replaces: malloc, the address space, the signals of a crash.
  target_compile_definitions(headroom_flags INTERFACE HEADROOM_SANITIZED)
endif()
# Test code is not instrumented: it then compiles in three fifths of the time, and no fuzzer drives it. AddressSanitizer is an
# exception, because tests compile the modules' headers.
set(is_no_test $<NOT:$<BOOL:$<TARGET_PROPERTY:HEADROOM_TEST>>>)
if(HEADROOM_SANITIZER STREQUAL "address")
  target_compile_options(headroom_flags INTERFACE $<${is_no_test}:-fsanitize=undefined> $<${is_no_test}:-fno-sanitize-recover=undefined>)
endif()
if(HEADROOM_FUZZERS AND HEADROOM_FUZZ_COVERAGE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(headroom_flags INTERFACE $<${is_no_test}:-fsanitize=fuzzer-no-link>)
endif()

# headroom_left_out(OPTION REASON): says why an optional part is not built; stops the configuration if OPTION is ON.
function(headroom_left_out option reason)
  if(${${option}} STREQUAL "ON")
    message(FATAL_ERROR "${option} is ON, but ${reason}")
  endif()
  message(STATUS "${option}: ${reason}; not built")
endfunction()

# headroom_module(NAME SOURCES a.cpp … [LINK headroom_base …] [NO_COMMON_HEADERS]): a static library headroom_NAME.
function(headroom_module name)
  cmake_parse_arguments(ARG "NO_COMMON_HEADERS" "" "SOURCES;LINK" ${ARGN})
  add_library(headroom_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(headroom_${name} PUBLIC headroom_flags ${ARG_LINK})
  if(TARGET headroom_common_headers AND NOT ARG_NO_COMMON_HEADERS)
    target_precompile_headers(headroom_${name} REUSE_FROM headroom_common_headers)
  endif()
endfunction()

# headroom_plugin(FILE_NAME SOURCES … LINK …): a shared library beside the binary, with only its entry point visible.
# cmake/HeadroomInstall.cmake installs all of them.
function(headroom_plugin name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} MODULE ${ARG_SOURCES})
  set_property(GLOBAL APPEND PROPERTY HEADROOM_PLUGINS ${name})
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(${name} PRIVATE headroom_flags ${ARG_LINK})
  if(NOT HEADROOM_SANITIZER)
    target_link_options(${name} PRIVATE -Wl,--no-undefined -Wl,--exclude-libs,ALL)
  endif()
endfunction()

# lld links tests in a third of the time. The program that users run is linked by the usual linker.
set(HEADROOM_LLD "")
if(NOT CMAKE_CROSSCOMPILING AND NOT HEADROOM_SANITIZER)
  find_program(HEADROOM_LLD_PROGRAM ld.lld)
  if(HEADROOM_LLD_PROGRAM)
    set(HEADROOM_LLD ON)
  endif()
endif()

# headroom_test(NAME SOURCES … LINK … [LABELS …] [APART | TOGETHER]): a GoogleTest program; each of its tests is a CTest test.
# Under AddressSanitizer a process takes 0.1 s to start, under an emulator 0.3 s. There the tests of a program run in eight processes, unless
# they are APART. TOGETHER means one process: for tests that share a slow set-up.
function(headroom_test name)
  cmake_parse_arguments(ARG "APART;TOGETHER" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests HEADROOM_TEST ON)
  target_link_libraries(${name} PRIVATE headroom_test_checks ${ARG_LINK})
  if(HEADROOM_LLD)
    target_link_options(${name} PRIVATE -fuse-ld=lld)
  endif()
  if(TARGET headroom_test_headers)
    target_precompile_headers(${name} REUSE_FROM headroom_test_headers)
  endif()
  set(labels "")
  if(ARG_LABELS)
    set(labels LABELS "${ARG_LABELS}")
  endif()
  if(ARG_TOGETHER OR ((HEADROOM_SANITIZER OR CMAKE_CROSSCOMPILING) AND NOT ARG_APART))
    set(shards 8)
    if(ARG_TOGETHER)
      set(shards 1)
    endif()
    math(EXPR last "${shards} - 1")
    foreach(shard RANGE ${last})
      math(EXPR number "${shard} + 1")
      set(test "${name} (${number} of ${shards})")  # run_tests.sh reads from the output how many tests ran
      add_test(NAME ${test} COMMAND ${name} --gtest_brief=1)
      # A hundred threads that allocate took 112 s of a processor under a sanitizer, and more than 240 beside others.
      set_tests_properties(${test} PROPERTIES TIMEOUT 1200 ${labels}
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${shard}")
    endforeach()
    return()
  endif()
  # "[  SKIPPED ]", without its brackets: CMake 4 cannot read back a property that ends in one, and one alone joins a list.
  set(timeout 240)
  if(HEADROOM_SANITIZER)  # beside others a session of ONNX Runtime takes many times as long there
    set(timeout 600)
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${timeout} SKIP_REGULAR_EXPRESSION ".  SKIPPED ." ${labels})
endfunction()

# headroom_gpu_test(NAME SOURCES … LINK …): a test that needs a GPU and skips, saying so, where there is none. It has the
# label `gpu` and is built by the target gpu_tests, which `make test-gpu` builds alone.
function(headroom_gpu_test name)
  headroom_test(${name} ${ARGN} LABELS gpu)
  add_dependencies(gpu_tests ${name})
endfunction()

# headroom_fuzzer(NAME SOURCE LINK …): LLVMFuzzerTestOneInput. With clang it is a libFuzzer program; with other
# compilers a runner that replays the corpus and random mutations of it for a while.
function(headroom_fuzzer name)
  cmake_parse_arguments(ARG "" "CORPUS" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  target_link_libraries(${name} PRIVATE headroom_flags ${ARG_LINK})
  add_dependencies(fuzzers ${name})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND HEADROOM_FUZZERS)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus_runner.cpp)
  endif()
  if(ARG_CORPUS AND NOT HEADROOM_FUZZERS)
    add_test(NAME fuzz.${name} COMMAND ${name} ${ARG_CORPUS})
  endif()
endfunction()
