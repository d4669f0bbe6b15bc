#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "herald/base/export.h"

namespace herald {

// The reason of a failure. The first group has Kubernetes' reasons, which are sent by name. Callers
// decide by the reason and never by the message.
enum class StatusReason : std::uint8_t {
  kOk,
  kUnknown,  // a failure without a reason: the empty string on the wire

  kUnauthorized,
  kForbidden,
  kNotFound,
  kAlreadyExists,
  kConflict,
  kGone,
  kInvalid,
  kServerTimeout,
  kStoreReadError,
  kTimeout,
  kTooManyRequests,
  kBadRequest,
  kMethodNotAllowed,
  kNotAcceptable,
  kRequestEntityTooLarge,
  kUnsupportedMediaType,
  kInternalError,
  kExpired,
  kServiceUnavailable,

  // Herald's own reasons, for failures without a response of a server.
  kUnreachable,  // no connection, or it was lost before the response was read
  kCorruption,   // stored bytes differ from those that were written
  kCancelled,    // the caller cancelled, or the component is stopping
};

// The reason's name on the wire ("NotFound"); empty for kOk and kUnknown.
HERALD_EXPORT std::string_view ReasonName(StatusReason reason);

// The reason with this name; kUnknown for an unknown name.
HERALD_EXPORT StatusReason ReasonFromName(std::string_view name);

// The HTTP code that Kubernetes sends with a reason; 500 if it defines none.
HERALD_EXPORT int DefaultHttpCode(StatusReason reason);

// One of several causes, usually for one field of a rejected object.
struct StatusCause {
  std::string reason{};   // "FieldValueRequired"
  std::string message{};  // "Required value"
  std::string field{};    // "metadata.name"

  bool operator==(const StatusCause&) const = default;
};

// The object that a status is about.
struct StatusDetails {
  std::string name{};
  std::string group{};
  std::string kind{};  // the resource ("events"), except in kInvalid: the kind ("Event")
  std::string uid{};
  std::vector<StatusCause> causes{};

  bool operator==(const StatusDetails&) const = default;
};

// A Status is the outcome of an operation in the terms of the Kubernetes API: success, or a reason
// and a message. All layers use it: a store returns it, the server maps it to HTTP, the client
// parses it back, and delivery decides by it whether to retry.
//
// Cheap to copy if ok (one null pointer). Immutable, so it may be shared between threads.
class [[nodiscard]] HERALD_EXPORT Status {
 public:
  // Where the status was created. Delivery needs it: a server's response is final in cases in which
  // a local failure with the same reason is retried.
  enum class Origin : std::uint8_t { kLocal, kServer };

  // All parts, for callers that set more than reason and message.
  struct Parts {
    StatusReason reason = StatusReason::kUnknown;
    int code = 0;  // HTTP code; 0 means DefaultHttpCode(reason)
    std::string message{};
    std::optional<StatusDetails> details{};
    std::chrono::seconds retry_after{0};
    std::string continue_token{};  // a new token for the list, only with kExpired
    Origin origin = Origin::kLocal;

    bool operator==(const Parts&) const = default;
  };

  Status() = default;
  Status(StatusReason reason, std::string message);
  explicit Status(Parts parts);

  bool ok() const { return !parts_ || parts_->reason == StatusReason::kOk; }
  StatusReason reason() const { return parts_ ? parts_->reason : StatusReason::kOk; }
  bool Is(StatusReason reason) const { return this->reason() == reason; }

  // The HTTP code; 200 when ok.
  int code() const;
  const std::string& message() const { return parts().message; }
  // Empty details if none were given.
  const StatusDetails& details() const;
  std::chrono::seconds retry_after() const { return parts().retry_after; }
  const std::string& continue_token() const { return parts().continue_token; }
  Origin origin() const { return parts().origin; }

  // All parts, to create a changed copy: `auto p = s.parts(); p.x = y; Status(p)`.
  const Parts& parts() const;

  // For logs: `NotFound (404): events "x" not found`, or `OK`.
  std::string ToString() const;

  bool operator==(const Status& other) const;

 private:
  std::shared_ptr<const Parts> parts_;  // null: ok, with default parts
};

// A value of T, or the Status of the failure. Member names are those of std::expected<T, Status>,
// which will replace it. As thread-safe as T.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = Status;

  // Both are implicit, so that `return value;` and `return status;` compile.
  template <typename U = T>
    requires std::is_convertible_v<U&&, T> && (!std::is_convertible_v<U &&, Status>) &&
             (!std::is_same_v<std::remove_cvref_t<U>, Result>)
  Result(U&& value)  // NOLINT(google-explicit-constructor)
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  // REQUIRES: !error.ok()
  Result(Status error)  // NOLINT(google-explicit-constructor)
      : state_(std::in_place_index<1>, std::move(error)) {}
  // Constructs the value in place, to avoid a move of a large one.
  template <typename... Args>
  explicit Result(std::in_place_t, Args&&... args)
      : state_(std::in_place_index<0>, std::forward<Args>(args)...) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  // REQUIRES: has_value()
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !has_value()
  const Status& error() const { return std::get<1>(state_); }

  template <typename U>
  T value_or(U&& fallback) const& {
    return has_value() ? value() : static_cast<T>(std::forward<U>(fallback));
  }
  template <typename U>
  T value_or(U&& fallback) && {
    return has_value() ? std::move(*this).value() : static_cast<T>(std::forward<U>(fallback));
  }

 private:
  std::variant<T, Status> state_;
};

}  // namespace herald
