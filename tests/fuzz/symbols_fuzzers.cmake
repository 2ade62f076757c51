# Reading of ELF files with their debug information, and of mangled names.
if(TARGET headroom_symbols)
  headroom_fuzzer(elf_symbols_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/elf_symbols_fuzzer.cpp LINK headroom_symbols
    CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/elf_symbols)
  headroom_fuzzer(demangle_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/demangle_fuzzer.cpp LINK headroom_symbols
    CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/demangle)
endif()
