# The reader of pickles. Included by CMakeLists.txt.
headroom_fuzzer(pickle_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/pickle_fuzzer.cpp LINK headroom_snapshot
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/pickle)
