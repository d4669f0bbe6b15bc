#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <utility>

namespace herald {

// An optional value that few objects have. It has the size of a pointer, where a std::optional
// always has room for the value. Members and meaning are those of std::optional: a copy has its own
// value, and two are equal if their values are equal.
template <typename T>
class Rare {
 public:
  using value_type = T;

  Rare() = default;
  // Implicit as in std::optional, for object.rare = value.
  Rare(std::nullopt_t /*none*/) {}                                  // NOLINT
  Rare(T value) : value_(std::make_unique<T>(std::move(value))) {}  // NOLINT
  // Only from a std::optional itself. Types that convert to one would make the call ambiguous.
  template <std::same_as<std::optional<T>> Optional>
  Rare(Optional value) {  // NOLINT
    if (value) value_ = std::make_unique<T>(*std::move(value));
  }
  Rare(const Rare& other) : value_(other ? std::make_unique<T>(*other) : nullptr) {}
  Rare(Rare&& other) noexcept = default;
  Rare& operator=(const Rare& other) {
    if (this != &other) *this = Rare(other);
    return *this;
  }
  Rare& operator=(Rare&& other) noexcept = default;
  ~Rare() = default;

  bool has_value() const { return value_ != nullptr; }
  explicit operator bool() const { return has_value(); }

  // REQUIRES: has_value()
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return value_.get(); }
  const T* operator->() const { return value_.get(); }

  T value_or(T otherwise) const { return value_ ? *value_ : std::move(otherwise); }

  template <typename... Args>
  T& emplace(Args&&... args) {
    value_ = std::make_unique<T>(std::forward<Args>(args)...);
    return *value_;
  }
  void reset() { value_.reset(); }

  friend bool operator==(const Rare& a, const Rare& b) {
    return a.value_ && b.value_ ? *a.value_ == *b.value_ : a.value_ == b.value_;
  }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace herald
