#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/check.h"
#include "http/testing/certificate.h"

namespace herald::store {

// A certificate authority for tests. It writes its certificates into a directory.
//
// Thread-confined.
class TestAuthority {
 public:
  // `name` is part of the file names, so that two authorities can share a directory.
  TestAuthority(std::filesystem::path folder, std::string name)
      : folder_(std::move(folder)),
        name_(std::move(name)),
        own_(http::MakeTestCertificate({.subject = {{"CN", name_}}, .authority = true})) {
    Write(ca_file(), own_.certificate);
  }

  std::string ca_file() const { return File("ca"); }

  struct Files {
    std::string cert{};
    std::string key{};
  };
  // For both sides of a connection: a server on 127.0.0.1, or the client of that name.
  Files Issue(const std::string& common_name) const {
    const http::TestCertificate issued =
        http::MakeTestCertificate({.subject = {{"CN", common_name}}}, &own_);
    Files files{File(common_name), File(common_name + "-key")};
    Write(files.cert, issued.certificate);
    Write(files.key, issued.key);
    return files;
  }

 private:
  std::string File(const std::string& what) const {
    return (folder_ / (name_ + "-" + what + ".pem")).string();
  }

  static void Write(const std::string& path, const std::string& contents) {
    std::ofstream file(path);
    file << contents;
    HERALD_CHECK(file.flush().good());
  }

  const std::filesystem::path folder_;
  const std::string name_;
  const http::TestCertificate own_;
};

}  // namespace herald::store
