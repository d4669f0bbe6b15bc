# Install rules, the CMake package, the pkg-config files and CPack.
include(CMakePackageConfigHelpers)

set(herald_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/herald)
set(herald_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# Relative, so that a prefix chosen at install time, or moved later, still works.
string(REGEX REPLACE "[^/]+" ".." herald_pc_prefix ${herald_pc_dir})

get_property(components GLOBAL PROPERTY herald_components)
if(NOT BUILD_SHARED_LIBS)
  # Static libraries need the internal modules that they were built on.
  get_property(internal GLOBAL PROPERTY herald_internal_components)
  foreach(component IN LISTS components)
    get_property(deps GLOBAL PROPERTY herald_${component}_private_deps)
    foreach(dep IN LISTS deps)
      if(dep IN_LIST internal AND NOT dep IN_LIST components)
        list(APPEND components ${dep})
      endif()
    endforeach()
  endforeach()
endif()
foreach(component IN LISTS components)
  install(TARGETS herald-${component} EXPORT herald-${component}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT herald-${component} NAMESPACE herald:: DESTINATION ${herald_cmake_dir}
    FILE herald-${component}-targets.cmake)
  get_property(headers GLOBAL PROPERTY herald_${component}_headers)
  if(headers)
    install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/herald)
  elseif(EXISTS ${PROJECT_SOURCE_DIR}/include/herald/${component})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/herald/${component}
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/herald FILES_MATCHING PATTERN "*.h")
  endif()

  # A static library hands its private dependencies on to whoever links it; a
  # shared one has them inside.
  get_property(deps GLOBAL PROPERTY herald_${component}_public_deps)
  if(NOT BUILD_SHARED_LIBS)
    get_property(private_deps GLOBAL PROPERTY herald_${component}_private_deps)
    list(APPEND deps ${private_deps})
  endif()
  set(find_lines "")
  set(pc_requires "")
  set(pc_libs "-L\${libdir} -lherald-${component}")
  foreach(dep IN LISTS deps)
    if(dep IN_LIST components)
      string(APPEND find_lines "include(\${CMAKE_CURRENT_LIST_DIR}/herald-${dep}.cmake)\n")
      list(APPEND pc_requires "herald-${dep} = ${PROJECT_VERSION}")
    else()
      get_property(package GLOBAL PROPERTY herald_${dep}_package)
      get_property(requires GLOBAL PROPERTY herald_${dep}_pc_requires)
      get_property(libs GLOBAL PROPERTY herald_${dep}_pc_libs)
      list(JOIN package " " package)
      string(APPEND find_lines "find_dependency(${package})\n")
      list(APPEND pc_requires ${requires})
      list(APPEND pc_libs ${libs})
    endif()
  endforeach()
  list(JOIN pc_requires ", " pc_requires)
  list(JOIN pc_libs " " pc_libs)

  configure_file(${PROJECT_SOURCE_DIR}/cmake/herald-component.cmake.in
    ${PROJECT_BINARY_DIR}/package/herald-${component}.cmake @ONLY)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/herald-component.pc.in
    ${PROJECT_BINARY_DIR}/package/herald-${component}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/herald-${component}.cmake
    DESTINATION ${herald_cmake_dir})
  install(FILES ${PROJECT_BINARY_DIR}/package/herald-${component}.pc
    DESTINATION ${herald_pc_dir})
endforeach()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/herald-config.cmake.in
  ${PROJECT_BINARY_DIR}/package/herald-config.cmake INSTALL_DESTINATION ${herald_cmake_dir})
# While the version is 0.x a minor release may break its callers.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/herald-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/package/herald-config.cmake
  ${PROJECT_BINARY_DIR}/package/herald-config-version.cmake
  DESTINATION ${herald_cmake_dir})
if("http" IN_LIST components)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/Findnghttp2.cmake DESTINATION ${herald_cmake_dir})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(PROJECT_IS_TOP_LEVEL)
  # One .tar.gz with everything, and two packages for Debian: the server, and what programs are
  # built with.
  set(CPACK_GENERATOR DEB TGZ)
  set(CPACK_PACKAGE_NAME herald)
  set(CPACK_PACKAGE_CONTACT "The Herald authors <herald@invalid>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
  set(CPACK_STRIP_FILES OFF)  # stripping a static library takes its symbols away
  set(CPACK_COMPONENTS_ALL dev)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)

  set(CPACK_COMPONENT_DEV_DESCRIPTION "${PROJECT_DESCRIPTION}: libraries and headers")
  set(CPACK_DEBIAN_DEV_PACKAGE_NAME libherald-dev)
  set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS libfmt-dev)
  if("http" IN_LIST components)
    string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
      ", libboost1.81-dev, libnghttp2-dev, libssl-dev, zlib1g-dev, libyaml-cpp-dev")
  endif()
  if(HERALD_SERVER)
    list(APPEND CPACK_COMPONENTS_ALL heraldd)
    set(CPACK_COMPONENT_HERALDD_DESCRIPTION "${PROJECT_DESCRIPTION}: the event server")
    set(CPACK_DEBIAN_HERALDD_PACKAGE_NAME heraldd)
    set(CPACK_DEBIAN_HERALDD_PACKAGE_SECTION admin)
    set(CPACK_DEBIAN_HERALDD_PACKAGE_SHLIBDEPS ON)
    set(CPACK_DEBIAN_HERALDD_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/postinst)
  endif()
  include(CPack)
endif()
