# make install: headers, libraries, pkg-config and CMake package files.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Programs and libraries are installed without what only debuggers read: most of their size. Rules run
# in their order, so this one, which comes first, is for all of them.
install(CODE "set(CMAKE_INSTALL_DO_STRIP TRUE)")

install(DIRECTORY include/det DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.def")

# From where the files of pkg-config are to the prefix, so that an installation can be moved.
file(RELATIVE_PATH DET_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})

# det_install_library(name DESCRIPTION text): the library with its file of pkg-config.
function(det_install_library name)
  cmake_parse_arguments(L "" "DESCRIPTION" "" ${ARGN})
  set(description ${L_DESCRIPTION})
  get_property(requires GLOBAL PROPERTY det_library_requires_${name})
  list(JOIN requires ", " requires)
  install(TARGETS ${name}_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${PROJECT_BINARY_DIR}/lib${name}.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(CODE "execute_process(COMMAND ${CMAKE_STRIP} --strip-debug
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/lib${name}.a\" COMMAND_ERROR_IS_FATAL ANY)")
  configure_file(cmake/library.pc.in ${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
det_install_library(det DESCRIPTION "${PROJECT_DESCRIPTION}")
det_install_library(det-engine DESCRIPTION "Tensors, gradients, modules and optimizers")

configure_package_config_file(cmake/detConfig.cmake.in detConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/det
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(detConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/detConfig.cmake ${PROJECT_BINARY_DIR}/detConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/det)

install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

configure_file(cmake/uninstall.cmake.in uninstall.cmake @ONLY)
add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -P ${PROJECT_BINARY_DIR}/uninstall.cmake VERBATIM)
