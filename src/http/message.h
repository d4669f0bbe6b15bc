#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace herald::http {

// Header fields in the order in which they came. Names are lower-case, as HTTP/2 has
// them on the wire and as HTTP/1.1 does not mind. An ordinary value.
class Headers {
 public:
  struct Field {
    std::string name;
    std::string value;

    bool operator==(const Field&) const = default;
  };

  Headers() = default;
  Headers(std::initializer_list<Field> fields) : fields_(fields) {}

  // Appends, whatever is there already. REQUIRES: name is lower-case
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
  // The first of that name, or null. REQUIRES: name is lower-case
  const std::string* Find(std::string_view name) const {
    for (const Field& field : fields_)
      if (field.name == name) return &field.value;
    return nullptr;
  }
  // The same, or nothing at all.
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

// A request. `target` is the path with its query, as it stands on the wire
// ("/api/v1/events?limit=5"); what belongs to a connection (host, framing) is not
// among the headers.
struct Request {
  std::string method = "GET";
  std::string target = "/";
  std::string authority{};  // Host, or :authority
  Headers headers{};
  std::string body{};
  // The client offers to go on as a WebSocket (HTTP/1.1 only). The response may take the offer:
  // see Responder::Start().
  bool websocket = false;
};

struct ResponseHead {
  int status = 200;
  Headers headers{};
  // The end follows when the peer has taken the pieces: the response is bounded, drained and owed
  // to a client that has closed its half as a whole response is.
  bool finite = false;
};

// A response, whole.
struct Response {
  int status = 200;
  Headers headers{};
  std::string body{};
  Headers
      trailers{};  // fields behind the body; a client's, over HTTP/2 (gRPC has its status there)
};

// A piece of a streamed body. Shared, because one change of an event is written to
// many watchers.
using Chunk = std::shared_ptr<const std::string>;

}  // namespace herald::http
