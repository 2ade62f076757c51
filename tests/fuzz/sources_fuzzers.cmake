# Readers of the output of nvidia-smi and tegrastats. Included by CMakeLists.txt.
headroom_fuzzer(nvidia_smi_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/nvidia_smi_fuzzer.cpp LINK headroom_sources
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/nvidia_smi)
headroom_fuzzer(tegrastats_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/tegrastats_fuzzer.cpp LINK headroom_sources
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/tegrastats)
headroom_fuzzer(text_samples_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/text_samples_fuzzer.cpp LINK headroom_sources
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/text_samples)
headroom_fuzzer(monitor_files_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/monitor_files_fuzzer.cpp LINK headroom_sources
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/monitor_files)
