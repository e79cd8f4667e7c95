# The web page: npm builds webui/ into webui/dist, which becomes a table of assets in the layer master.
# Without npm the program is complete, and says at its address that the page is missing.
set(DET_WEBUI AUTO CACHE STRING "the web page: AUTO (if it can be built), ON (or the build fails), OFF")

file(GLOB_RECURSE webui_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/webui/src/*)
file(GLOB webui_settings CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/webui/*.json
     ${PROJECT_SOURCE_DIR}/webui/*.mjs ${PROJECT_SOURCE_DIR}/webui/*.html)
add_custom_command(OUTPUT assets.c
  COMMAND ${PROJECT_SOURCE_DIR}/scripts/build-webui ${DET_WEBUI} ${PROJECT_BINARY_DIR}/assets.c
  DEPENDS scripts/build-webui scripts/make-assets ${webui_sources} ${webui_settings}
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
target_sources(master PRIVATE ${PROJECT_BINARY_DIR}/assets.c)
