# Builds the pages of web/ with Node.js and embeds them in headroom_report. Included by CMakeLists.txt.
#
# Node.js works on a copy in the build folder, so that the source tree stays clean and two build folders never run
# `npm ci` over each other. HEADROOM_REPORT_PAGE names a page built elsewhere, for machines without Node.js or without a
# network (`npm ci && npm run build` in web/ writes web/dist/report.html and the other pages). The source archive of a
# release has them in web/prebuilt.
set(prebuilt_page "")
if(EXISTS ${CMAKE_SOURCE_DIR}/web/prebuilt/report.html)
  set(prebuilt_page ${CMAKE_SOURCE_DIR}/web/prebuilt/report.html)
endif()
set(HEADROOM_REPORT_PAGE "${prebuilt_page}" CACHE FILEPATH "An already built web/dist/report.html; empty: build it with Node.js")
set(page_names report recording snapshot plan live history watch)

if(HEADROOM_REPORT_PAGE)
  get_filename_component(page_folder ${HEADROOM_REPORT_PAGE} DIRECTORY)
  list(TRANSFORM page_names REPLACE "(.+)" "${page_folder}/\\1.html" OUTPUT_VARIABLE pages)
  foreach(page ${pages})
    if(NOT EXISTS ${page})
      message(FATAL_ERROR "HEADROOM_REPORT_PAGE is ${HEADROOM_REPORT_PAGE}, and there is no ${page}. "
        "`npm run build` in web/ writes all pages.")
    endif()
  endforeach()
else()
  find_program(HEADROOM_NODE NAMES node nodejs)
  find_program(HEADROOM_NPM npm)
  if(NOT HEADROOM_NODE OR NOT HEADROOM_NPM)
    message(FATAL_ERROR "The HTML report is built with Node.js (18 or newer) and npm, and one of them is not "
      "installed: run scripts/install_dependencies.sh (Debian: apt-get install nodejs npm), or name a page built "
      "elsewhere with -DHEADROOM_REPORT_PAGE=FILE.")
  endif()
  execute_process(COMMAND ${HEADROOM_NODE} --version OUTPUT_VARIABLE node_version OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT node_version MATCHES "^v([0-9]+)" OR CMAKE_MATCH_1 LESS 18)
    message(FATAL_ERROR "The HTML report needs Node.js 18 or newer, and ${HEADROOM_NODE} is ${node_version}: "
      "install a newer one, or name a page built elsewhere with -DHEADROOM_REPORT_PAGE=FILE.")
  endif()

  set(web_source ${CMAKE_SOURCE_DIR}/web)
  set(web_build ${CMAKE_BINARY_DIR}/web)
  set(page_folder ${web_build}/dist)
  list(TRANSFORM page_names REPLACE "(.+)" "${page_folder}/\\1.html" OUTPUT_VARIABLE pages)
  add_custom_command(OUTPUT ${web_build}/packages.stamp
    COMMAND ${CMAKE_COMMAND} -E make_directory ${web_build}
    COMMAND ${CMAKE_COMMAND} -E copy ${web_source}/package.json ${web_source}/package-lock.json ${web_build}
    COMMAND ${CMAKE_COMMAND} -E chdir ${web_build}
            ${HEADROOM_NPM} ci --ignore-scripts --omit=dev --no-audit --no-fund --prefer-offline --loglevel=error
    COMMAND ${CMAKE_COMMAND} -E touch ${web_build}/packages.stamp
    DEPENDS ${web_source}/package.json ${web_source}/package-lock.json
    COMMENT "Installing the page's packages (npm ci)" VERBATIM)
  file(GLOB_RECURSE web_source_files CONFIGURE_DEPENDS ${web_source}/src/*)
  add_custom_command(OUTPUT ${pages}
    COMMAND ${CMAKE_COMMAND} -E copy_directory ${web_source}/src ${web_build}/src
    COMMAND ${CMAKE_COMMAND} -E copy ${web_source}/build.mjs ${web_source}/tsconfig.json ${web_build}
    COMMAND ${HEADROOM_NODE} ${web_build}/build.mjs ${page_folder}
    DEPENDS ${web_build}/packages.stamp ${web_source}/build.mjs ${web_source}/tsconfig.json ${web_source_files}
    COMMENT "Building the pages of web/" VERBATIM)
endif()

set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/page.cpp PROPERTIES
  COMPILE_DEFINITIONS "HEADROOM_PAGES=\"${page_folder}\""
  OBJECT_DEPENDS "${pages}"  # the compiler's dependency scan does not see .incbin
  SKIP_UNITY_BUILD_INCLUSION ON)
