# The reader of recordings. Included by CMakeLists.txt.
headroom_fuzzer(recording_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/recording_fuzzer.cpp LINK headroom_recording
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/recording)
# The ledger of GPU memory on sequences of calls.
headroom_fuzzer(ledger_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/ledger_fuzzer.cpp LINK headroom_ledger
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/ledger)
