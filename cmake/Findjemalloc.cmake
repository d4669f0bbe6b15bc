# jemalloc, which Debian packages without a CMake package. Defines jemalloc::jemalloc.
find_library(jemalloc_LIBRARY jemalloc)
find_path(jemalloc_INCLUDE_DIR jemalloc/jemalloc.h)
mark_as_advanced(jemalloc_LIBRARY jemalloc_INCLUDE_DIR)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(jemalloc REQUIRED_VARS jemalloc_LIBRARY jemalloc_INCLUDE_DIR)
if(jemalloc_FOUND AND NOT TARGET jemalloc::jemalloc)
  add_library(jemalloc::jemalloc UNKNOWN IMPORTED)
  set_target_properties(jemalloc::jemalloc PROPERTIES
    IMPORTED_LOCATION ${jemalloc_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${jemalloc_INCLUDE_DIR})
endif()
