# cmake --install: a tree that works from any folder, also after it was moved. Component `program`: what users run.
# Component `development`: headers, libraries and CMake files of programs that use Headroom's libraries.
set(program_libraries lib/headroom)
set(documents share/doc/headroom)

# The program, and what it opens at run time (plugin_folders() in src/base/files.h finds it).
get_property(plugins GLOBAL PROPERTY HEADROOM_PLUGINS)
set(preload_libraries headroom_trace headroom_trace_gpu headroom_trace_attach)
install(TARGETS headroom RUNTIME DESTINATION bin COMPONENT program)
install(TARGETS headroom_model_process RUNTIME DESTINATION ${program_libraries} COMPONENT program)
install(TARGETS ${plugins} ${preload_libraries} LIBRARY DESTINATION ${program_libraries} COMPONENT program)
# Into a traced program: a path of theirs must not decide which libraries that program finds.
set_target_properties(${preload_libraries} PROPERTIES INSTALL_RPATH "")
if(EXISTS ${HEADROOM_ONNXRUNTIME_LIBRARY})
  install(FILES ${HEADROOM_ONNXRUNTIME_LIBRARY} DESTINATION ${program_libraries} COMPONENT program)
endif()
# These two work only with the LibTorch that they were built with, which may lie outside the system's folders.
foreach(target headroom_backend_libtorch headroom_memory_tracer)
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  endif()
endforeach()

# The portable build brings the shared libraries that Debian's libc6 does not have.
if(HEADROOM_PORTABLE)
  foreach(library libdw.so.1 libelf.so.1 libz.so.1 liblzma.so.5 libbz2.so.1.0)
    file(GLOB found ${CMAKE_SYSROOT}/lib/*-linux-gnu/${library} ${CMAKE_SYSROOT}/usr/lib/*-linux-gnu/${library})
    if(NOT found)
      message(FATAL_ERROR "${CMAKE_SYSROOT} has no ${library}: run scripts/fetch_portable_sysroot.sh ${HEADROOM_ARCHITECTURE}")
    endif()
    list(GET found 0 found)
    file(REAL_PATH ${found} file)
    install(FILES ${file} RENAME ${library} DESTINATION ${program_libraries} COMPONENT program)
  endforeach()
endif()

# Man page and completions, which the program itself writes.
set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${generated})
function(headroom_generated what file folder)
  add_custom_command(OUTPUT ${generated}/${file}
    COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:headroom> generate ${what} > ${generated}/${file}
    DEPENDS headroom VERBATIM)
  set_property(GLOBAL APPEND PROPERTY HEADROOM_GENERATED ${generated}/${file})
  install(FILES ${generated}/${file} DESTINATION ${folder} COMPONENT program)
endfunction()
headroom_generated(man headroom.1 share/man/man1)
headroom_generated(bash headroom share/bash-completion/completions)
headroom_generated(zsh _headroom share/zsh/vendor-completions)
headroom_generated(fish headroom.fish share/fish/vendor_completions.d)
get_property(generated_files GLOBAL PROPERTY HEADROOM_GENERATED)
add_custom_target(headroom_generated_files ALL DEPENDS ${generated_files})

# Documents, and the licences of the code that the files above contain.
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/CHANGELOG.md DESTINATION ${documents} COMPONENT program)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/third_party/licences DESTINATION ${documents} COMPONENT program)
file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/*.md ${CMAKE_SOURCE_DIR}/docs/*.json)  # Messages name them.
install(FILES ${pages} DESTINATION ${documents}/docs COMPONENT program)
set(bundled nlohmann-json3-dev libexpected-dev libcli11-dev libtomlplusplus-dev libfmt-dev libspdlog-dev libiberty-dev)
if(HEADROOM_PORTABLE)
  list(APPEND bundled libcpp-httplib-dev libncurses-dev libsqlite3-dev zlib1g-dev libdw1 libelf1 zlib1g liblzma5
    libbz2-1.0 libc++-22-dev libc++abi-22-dev libunwind-22-dev libclang-rt-22-dev
    libjpeg62-turbo-dev libpng-dev libwebp-dev libtiff-dev libagg-dev libzstd-dev libdeflate-dev)
endif()
foreach(package ${bundled})  # Debian packages. Headers come from the build machine, the libraries from the sysroot.
  find_file(licence copyright PATHS ${CMAKE_SYSROOT}/usr/share/doc/${package} /usr/share/doc/${package}
    NO_DEFAULT_PATH NO_CACHE NO_CMAKE_FIND_ROOT_PATH)
  if(licence)
    install(FILES ${licence} RENAME ${package} DESTINATION ${documents}/licences COMPONENT program)
  elseif(HEADROOM_PORTABLE)
    message(FATAL_ERROR "There is no licence of ${package} in ${CMAKE_SYSROOT}/usr/share/doc or /usr/share/doc")
  endif()
  unset(licence)
endforeach()
if(HEADROOM_PORTABLE)  # The files of Debian packages refer to these texts, which other systems do not have.
  foreach(text Apache-2.0 CC0-1.0 GPL-2 GPL-3 LGPL-2 LGPL-2.1 LGPL-3)
    install(FILES /usr/share/common-licenses/${text} DESTINATION ${documents}/licences/common-licenses COMPONENT program)
  endforeach()
endif()

# The monitor as a service, and what displays it. systemd needs the absolute path of the program, so the installation writes its prefix.
set(units lib/systemd/system)
install(FILES ${CMAKE_SOURCE_DIR}/packaging/systemd/headroom-serve.service DESTINATION ${units} COMPONENT program)
install(CODE "
  set(unit \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${units}/headroom-serve.service\")
  file(READ \"\${unit}\" text)
  get_filename_component(programs \"\${CMAKE_INSTALL_PREFIX}/bin\" ABSOLUTE)
  string(REPLACE \"ExecStart=/usr/bin/\" \"ExecStart=\${programs}/\" text \"\${text}\")
  file(WRITE \"\${unit}\" \"\${text}\")" COMPONENT program)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/packaging/grafana ${CMAKE_SOURCE_DIR}/packaging/prometheus
  DESTINATION share/headroom COMPONENT program)

# The Python module. __main__.py is the command of the wheel, which has the program inside the module.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/headroom_memory DESTINATION share/headroom/python COMPONENT program
  FILES_MATCHING PATTERN "*.py" PATTERN __main__.py EXCLUDE)

# Examples: budgets, pictures, and a model with its licence.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/examples DESTINATION share/headroom COMPONENT program)
set(example_model ${HEADROOM_DEPS_DIR}/models/face_detection_front_128x128_barracuda.onnx)
if(EXISTS ${example_model})
  install(FILES ${example_model} RENAME face_detection.onnx DESTINATION share/headroom/examples COMPONENT program)
  install(FILES ${HEADROOM_DEPS_DIR}/licences/blazeface RENAME face_detection DESTINATION ${documents}/licences COMPONENT program)
endif()

# The sources that `headroom build-plugin` compiles.
include(HeadroomPluginSources)

# Headers and libraries for other programs: find_package(headroom), pkg-config headroom.
include(CMakePackageConfigHelpers)
set(cmake_files lib/cmake/headroom)
add_library(headroom_scope INTERFACE)
set(development headroom_scope headroom_model_pool)
if(TARGET headroom_memory_tracer)
  list(APPEND development headroom_memory_tracer)
else()
  set(without_tracer PATTERN memory_tracer.h EXCLUDE)
endif()
foreach(target ${development})
  string(REPLACE headroom_ "" exported_name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${exported_name})
endforeach()
list(FILTER development EXCLUDE REGEX scope)
set_target_properties(${development} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
install(TARGETS headroom_scope ${development} EXPORT headroom
  LIBRARY DESTINATION lib COMPONENT development INCLUDES DESTINATION include)
if(TARGET headroom_memory_tracer)  # where the Python module looks for it
  install(CODE "
    set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${program_libraries}\")
    file(MAKE_DIRECTORY \"\${folder}\")
    file(CREATE_LINK ../libheadroom_memory_tracer.so.${PROJECT_VERSION_MAJOR}
      \"\${folder}/libheadroom_memory_tracer.so\" SYMBOLIC)" COMPONENT development)
endif()
install(EXPORT headroom NAMESPACE headroom:: FILE headroomTargets.cmake DESTINATION ${cmake_files} COMPONENT development)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/headroom DESTINATION include COMPONENT development ${without_tracer})
install(FILES ${CMAKE_SOURCE_DIR}/src/inference/backend_plugin.h DESTINATION include/headroom COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/headroomConfig.cmake.in ${generated}/headroomConfig.cmake
  INSTALL_DESTINATION ${cmake_files} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${generated}/headroomConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${generated}/headroomConfig.cmake ${generated}/headroomConfigVersion.cmake
  DESTINATION ${cmake_files} COMPONENT development)
configure_file(${CMAKE_CURRENT_LIST_DIR}/headroom.pc.in ${generated}/headroom.pc @ONLY)
install(FILES ${generated}/headroom.pc DESTINATION lib/pkgconfig COMPONENT development)
