# make install: headers, libraries, pkg-config and CMake package files.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Programs and libraries are installed without what only debuggers read: most of their size. Rules run
# in their order, so this one, which comes first, is for all of them.
install(CODE "set(CMAKE_INSTALL_DO_STRIP TRUE)")

install(DIRECTORY include/det DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS det_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_BINARY_DIR}/libdet.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(CODE "execute_process(COMMAND ${CMAKE_STRIP} --strip-debug
  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libdet.a\" COMMAND_ERROR_IS_FATAL ANY)")

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
