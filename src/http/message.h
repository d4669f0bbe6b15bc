#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace herald::http {

// Header fields in the order in which they were received or added. Names are lower-case: HTTP/2
// requires it, and HTTP/1.1 ignores case. A value type.
class Headers {
 public:
  struct Field {
    std::string name;
    std::string value;

    bool operator==(const Field&) const = default;
  };

  Headers() = default;
  Headers(std::initializer_list<Field> fields) : fields_(fields) {}

  // Appends, even if there is a field of that name. REQUIRES: name is lower-case
  void Add(std::string name, std::string value) {
    fields_.push_back({std::move(name), std::move(value)});
  }
  // Replaces all fields of that name. REQUIRES: name is lower-case
  void Set(std::string name, std::string value) {
    Remove(name);
    Add(std::move(name), std::move(value));
  }
  void Remove(std::string_view name) {
    std::erase_if(fields_, [name](const Field& f) { return f.name == name; });
  }
  // The value of the first field of that name, or null. REQUIRES: name is lower-case
  const std::string* Find(std::string_view name) const {
    for (const Field& field : fields_)
      if (field.name == name) return &field.value;
    return nullptr;
  }
  // The same, or an empty string.
  std::string_view Get(std::string_view name) const {
    const std::string* value = Find(name);
    return value != nullptr ? std::string_view(*value) : std::string_view();
  }

  bool empty() const { return fields_.empty(); }
  std::size_t size() const { return fields_.size(); }
  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }

  bool operator==(const Headers&) const = default;

 private:
  std::vector<Field> fields_;
};

// A request. `target` is the path with its query, encoded as in the request line
// ("/api/v1/events?limit=5"). Fields that belong to a connection (host, framing) are not in
// `headers`.
struct Request {
  std::string method = "GET";
  std::string target = "/";
  std::string authority{};  // Host, or :authority
  Headers headers{};
  std::string body{};
  // The client asks to upgrade the connection to a WebSocket (HTTP/1.1 only). The handler may
  // accept: see Responder::Start().
  bool websocket = false;
};

struct ResponseHead {
  int status = 200;
  Headers headers{};
  // The body comes in pieces but ends as soon as the client has read them. Limits, draining and a
  // client that has closed its half of the connection are handled as for a whole response.
  bool finite = false;
};

// A whole response.
struct Response {
  int status = 200;
  Headers headers{};
  std::string body{};
  // Fields after the body. Only for responses that a client receives over HTTP/2 (gRPC sends its
  // status there).
  Headers trailers{};
};

// A piece of a streamed body. Shared, because one change of an event is sent to many watchers.
using Chunk = std::shared_ptr<const std::string>;

}  // namespace herald::http
