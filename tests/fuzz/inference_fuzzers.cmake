headroom_fuzzer(torch_archive_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/torch_archive_fuzzer.cpp LINK headroom_libtorch_files
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/torch_archive)
