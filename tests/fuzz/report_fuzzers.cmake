# The readers of report.json, footprints and metrics.jsonl. Included by CMakeLists.txt.
headroom_fuzzer(report_json_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/report_json_fuzzer.cpp LINK headroom_report
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/report_json)

# The analysis of recordings and its views, with the corpus of the recording reader.
headroom_fuzzer(recording_analysis_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/recording_analysis_fuzzer.cpp
  LINK headroom_report CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/recording)

# Frame times of a run, and the rules of headroom diff --fail-on.
headroom_fuzzer(frame_times_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/frame_times_fuzzer.cpp
  LINK headroom_report CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/frame_times)
headroom_fuzzer(gate_rules_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/gate_rules_fuzzer.cpp
  LINK headroom_comparison CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/gate_rules)
