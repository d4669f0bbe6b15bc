#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <utility>

namespace herald {

// An optional value that hardly any object has: as large as a pointer without it, where a
// std::optional is as large as with it. The members are those of std::optional, and so is
// the meaning: a copy has a value of its own, and two are equal if their values are.
template <typename T>
class Rare {
 public:
  using value_type = T;

  Rare() = default;
  // Implicit, as a std::optional's are: object.rare = value.
  Rare(std::nullopt_t /*none*/) {}                                  // NOLINT
  Rare(T value) : value_(std::make_unique<T>(std::move(value))) {}  // NOLINT
  // Of a std::optional itself, not of what could become one: that would be ambiguous.
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
