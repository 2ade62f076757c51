headroom_fuzzer(image_header_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/image_header_fuzzer.cpp LINK headroom_media
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/image_header)
headroom_fuzzer(image_lister_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/image_lister_fuzzer.cpp LINK headroom_media
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/image_lister)
headroom_fuzzer(metadata_json_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/metadata_json_fuzzer.cpp LINK headroom_media
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/metadata_json)
