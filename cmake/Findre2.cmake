# RE2, which Debian packages without a CMake package. gRPC looks for it, too, and finds this
# file, so it accepts a target that exists already. Defines re2::re2.
find_package(re2 QUIET CONFIG)
if(NOT re2_FOUND)
  find_library(re2_LIBRARY re2)
  find_path(re2_INCLUDE_DIR re2/re2.h)
  mark_as_advanced(re2_LIBRARY re2_INCLUDE_DIR)
  include(FindPackageHandleStandardArgs)
  find_package_handle_standard_args(re2 REQUIRED_VARS re2_LIBRARY re2_INCLUDE_DIR)
  if(re2_FOUND AND NOT TARGET re2::re2)
    add_library(re2::re2 UNKNOWN IMPORTED)
    set_target_properties(re2::re2 PROPERTIES
      IMPORTED_LOCATION ${re2_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${re2_INCLUDE_DIR})
  endif()
endif()
