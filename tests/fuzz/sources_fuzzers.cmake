# The reader of what nvidia-smi prints. Included by CMakeLists.txt.
headroom_fuzzer(nvidia_smi_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/nvidia_smi_fuzzer.cpp LINK headroom_sources
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/nvidia_smi)
