headroom_fuzzer(top_replay_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/top_replay_fuzzer.cpp LINK headroom_tui
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/top_replay)
