# The log reader. Included by CMakeLists.txt.
headroom_fuzzer(doctor_log_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/doctor_log_fuzzer.cpp LINK headroom_doctor headroom_report
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/doctor_log)
