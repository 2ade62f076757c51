# The reader of recordings. Included by CMakeLists.txt.
headroom_fuzzer(recording_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/recording_fuzzer.cpp LINK headroom_recording
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/recording)
