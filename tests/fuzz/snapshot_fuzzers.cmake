# The pickle reader, and the analysis of snapshots. Included by CMakeLists.txt.
headroom_fuzzer(pickle_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/pickle_fuzzer.cpp LINK headroom_snapshot
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/pickle)
headroom_fuzzer(snapshot_analysis_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/snapshot_analysis_fuzzer.cpp
  LINK headroom_snapshot headroom_report CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/snapshot_analysis)
