# Every dependency of Herald, found in one place and from the system only.
#
#   herald_dependency(<name> PACKAGE <p> [VERSION <v>] TARGET <t>
#                     [PC_REQUIRES <module>] [PC_LIBS <flags>])
#
# finds the package and remembers how to say it in our three languages: the
# CMake target we link, the find_dependency() of the installed package, and the
# line of the .pc files. herald_library() then takes the short name.
function(herald_dependency name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PACKAGE;VERSION;TARGET;PC_REQUIRES;PC_LIBS" "")
  find_package(${arg_PACKAGE} ${arg_VERSION} REQUIRED)
  # Imported targets are visible in one directory only unless they are global,
  # and a parent project that adds us links our libraries from its own.
  set_target_properties(${arg_TARGET} PROPERTIES IMPORTED_GLOBAL TRUE)
  set_property(GLOBAL PROPERTY herald_${name}_target ${arg_TARGET})
  set_property(GLOBAL PROPERTY herald_${name}_package ${arg_PACKAGE} ${arg_VERSION})
  set_property(GLOBAL PROPERTY herald_${name}_pc_requires ${arg_PC_REQUIRES})
  set_property(GLOBAL PROPERTY herald_${name}_pc_libs ${arg_PC_LIBS})
endfunction()

herald_dependency(threads PACKAGE Threads TARGET Threads::Threads PC_LIBS -pthread)
herald_dependency(fmt PACKAGE fmt VERSION 9 TARGET fmt::fmt PC_REQUIRES fmt)

if(HERALD_CLIENT OR HERALD_SERVER)
  herald_dependency(nghttp2 PACKAGE nghttp2 TARGET nghttp2::nghttp2 PC_REQUIRES libnghttp2)
  herald_dependency(boost PACKAGE Boost VERSION 1.81 TARGET Boost::headers)
  herald_dependency(ssl PACKAGE OpenSSL VERSION 3 TARGET OpenSSL::SSL PC_REQUIRES libssl)
  herald_dependency(crypto PACKAGE OpenSSL VERSION 3 TARGET OpenSSL::Crypto PC_REQUIRES libcrypto)
  herald_dependency(zlib PACKAGE ZLIB TARGET ZLIB::ZLIB PC_REQUIRES zlib)
  herald_dependency(yamlcpp PACKAGE yaml-cpp TARGET yaml-cpp PC_REQUIRES yaml-cpp)
endif()
if(HERALD_SERVER)
  herald_dependency(rocksdb PACKAGE RocksDB TARGET RocksDB::rocksdb-shared)
  herald_dependency(spdlog PACKAGE spdlog TARGET spdlog::spdlog)
  herald_dependency(cli11 PACKAGE CLI11 TARGET CLI11::CLI11)
  herald_dependency(re2 PACKAGE re2 TARGET re2::re2)
  herald_dependency(prometheus PACKAGE prometheus-cpp TARGET prometheus-cpp::core)
  herald_dependency(protobuf PACKAGE Protobuf VERSION 3.21 TARGET protobuf::libprotobuf)
  herald_dependency(grpc PACKAGE gRPC VERSION 1.51 TARGET gRPC::grpc++)
  if(HERALD_JEMALLOC)
    herald_dependency(jemalloc PACKAGE jemalloc TARGET jemalloc::jemalloc)
  endif()
  find_program(HERALD_PROTOC protoc REQUIRED)
  find_program(HERALD_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)
  mark_as_advanced(HERALD_PROTOC HERALD_GRPC_PLUGIN)
endif()

if(HERALD_TESTS)
  find_package(GTest REQUIRED)
  find_package(nlohmann_json REQUIRED)  # reads golden vectors, so that our own reader is not its own judge
endif()
if(HERALD_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
