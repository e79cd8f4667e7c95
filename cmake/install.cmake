# make install: headers, libraries, pkg-config and CMake package files.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(DIRECTORY include/det DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS det_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_BINARY_DIR}/libdet.a DESTINATION ${CMAKE_INSTALL_LIBDIR})

# From where det.pc is to the prefix, so that an installation can be moved.
file(RELATIVE_PATH DET_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/det.pc.in det.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/det.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

configure_package_config_file(cmake/detConfig.cmake.in detConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/det
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(detConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/detConfig.cmake ${PROJECT_BINARY_DIR}/detConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/det)
