headroom_fuzzer(sample_lines_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/sample_lines_fuzzer.cpp LINK headroom_bench
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/sample_lines)
headroom_fuzzer(external_data_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/external_data_fuzzer.cpp LINK headroom_bench
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/external_data)
