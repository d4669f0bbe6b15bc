#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace herald {

// StrictErrors collects what a strict decoder reports of a document that it accepts: fields that
// are unknown or given twice. Each error is reported once, and at most kMaxErrors of them, as
// sigs.k8s.io/json does (saveStrictError), so that a body of duplicates does not make a huge
// response.
//
// Thread-confined.
class StrictErrors {
 public:
  static constexpr std::size_t kMaxErrors = 100;
  // Kubernetes has no such limit. A field name can be as long as the body, so 100 errors can be
  // 100 times as long; a validation error stops at the same size (FieldErrors::kMaxBytes).
  static constexpr std::size_t kMaxBytes = 4 << 20;

  // Appends to *errors; with null all errors are ignored. The limits are for this object: what
  // *errors holds already does not count.
  explicit StrictErrors(std::vector<std::string>* errors) : errors_(errors) {}

  // Whether errors are ignored, because none were asked for or a limit is reached. Then a caller
  // need not build the message.
  bool ignored() const {
    return errors_ == nullptr || reported_.size() >= kMaxErrors || bytes_ > kMaxBytes;
  }
  bool enabled() const { return errors_ != nullptr; }

  void Add(std::string error);

 private:
  std::vector<std::string>* const errors_;
  std::set<std::string> reported_;
  std::size_t bytes_ = 0;  // of all errors together
};

}  // namespace herald
