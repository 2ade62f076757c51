# report.html and the pages of a recording and of a memory snapshot: builds the pages of web/ with Node.js and embeds them in
# headroom_report. Included by CMakeLists.txt.
#
# Node works on a copy in the build folder, so that the source tree stays clean and two build folders never run
# `npm ci` over each other. HEADROOM_REPORT_PAGE names a page built elsewhere (`npm ci && npm run build` in web/
# leaves web/dist/report.html, and the others beside it), for machines without Node.js or without a network.
set(HEADROOM_REPORT_PAGE "" CACHE FILEPATH "An already built web/dist/report.html; empty: build it with Node.js")
target_sources(headroom_report PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/run/html.cpp ${CMAKE_CURRENT_LIST_DIR}/run/html_page.cpp
  ${CMAKE_CURRENT_LIST_DIR}/recording/recording_html_page.cpp)
if(NOT HEADROOM_CORE_ONLY)
  target_sources(headroom_report PRIVATE ${CMAKE_CURRENT_LIST_DIR}/snapshot/snapshot_html_page.cpp ${CMAKE_CURRENT_LIST_DIR}/recording/live_html.cpp ${CMAKE_CURRENT_LIST_DIR}/plan/plan_html_page.cpp)
endif()

if(HEADROOM_REPORT_PAGE)
  get_filename_component(page_folder ${HEADROOM_REPORT_PAGE} DIRECTORY)
  set(report_page ${HEADROOM_REPORT_PAGE})
  set(recording_page ${page_folder}/recording.html)
  set(snapshot_page ${page_folder}/snapshot.html)
  set(live_page ${page_folder}/live.html)
  set(plan_page ${page_folder}/plan.html)
  foreach(page ${report_page} ${recording_page} ${snapshot_page} ${live_page} ${plan_page})
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
  set(report_page ${web_build}/dist/report.html)
  set(recording_page ${web_build}/dist/recording.html)
  set(snapshot_page ${web_build}/dist/snapshot.html)
  set(live_page ${web_build}/dist/live.html)
  set(plan_page ${web_build}/dist/plan.html)
  add_custom_command(OUTPUT ${web_build}/packages.stamp
    COMMAND ${CMAKE_COMMAND} -E make_directory ${web_build}
    COMMAND ${CMAKE_COMMAND} -E copy ${web_source}/package.json ${web_source}/package-lock.json ${web_build}
    COMMAND ${CMAKE_COMMAND} -E chdir ${web_build}
            ${HEADROOM_NPM} ci --ignore-scripts --omit=dev --no-audit --no-fund --prefer-offline --loglevel=error
    COMMAND ${CMAKE_COMMAND} -E touch ${web_build}/packages.stamp
    DEPENDS ${web_source}/package.json ${web_source}/package-lock.json
    COMMENT "Installing the page's packages (npm ci)" VERBATIM)
  include(${web_source}/sources.cmake)  # sets web_sources, relative to web/
  list(TRANSFORM web_sources PREPEND ${web_source}/ OUTPUT_VARIABLE web_source_files)
  add_custom_command(OUTPUT ${report_page} ${recording_page} ${snapshot_page} ${live_page} ${plan_page}
    COMMAND ${CMAKE_COMMAND} -E copy_directory ${web_source}/src ${web_build}/src
    COMMAND ${CMAKE_COMMAND} -E copy ${web_source}/build.mjs ${web_source}/tsconfig.json ${web_build}
    COMMAND ${HEADROOM_NODE} ${web_build}/build.mjs ${web_build}/dist
    DEPENDS ${web_build}/packages.stamp ${web_source_files}
    COMMENT "Building the pages of web/" VERBATIM)
endif()

set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/run/html_page.cpp PROPERTIES
  COMPILE_DEFINITIONS "HEADROOM_REPORT_PAGE=\"${report_page}\""
  OBJECT_DEPENDS ${report_page})  # .incbin is invisible to the compiler's own dependency scan
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/recording/recording_html_page.cpp PROPERTIES
  COMPILE_DEFINITIONS "HEADROOM_RECORDING_PAGE=\"${recording_page}\""
  OBJECT_DEPENDS ${recording_page})
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/snapshot/snapshot_html_page.cpp PROPERTIES
  COMPILE_DEFINITIONS "HEADROOM_SNAPSHOT_PAGE=\"${snapshot_page}\""
  OBJECT_DEPENDS ${snapshot_page})
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/recording/live_html.cpp PROPERTIES
  COMPILE_DEFINITIONS "HEADROOM_LIVE_PAGE=\"${live_page}\""
  OBJECT_DEPENDS ${live_page})
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/plan/plan_html_page.cpp PROPERTIES
  COMPILE_DEFINITIONS "HEADROOM_PLAN_PAGE=\"${plan_page}\""
  OBJECT_DEPENDS ${plan_page})
