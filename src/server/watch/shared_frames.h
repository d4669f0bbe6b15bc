#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/thread/mutex.h"
#include "herald/api/codec.h"
#include "herald/api/event.h"
#include "herald/base/clock.h"
#include "herald/base/status.h"
#include "http/server/server.h"
#include "server/events/encoding.h"
#include "store/store.h"

namespace herald::server {

// Decodes the event before the change. Its resource version is the revision from which a client
// resumes after the event was deleted or stopped matching: that of the change, or an earlier one if
// more changes of the same revision follow.
Result<Event> DecodePrevious(const store::Change& change, const store::Entry& previous);

// The frames and the decoded events of one change. They are attached to the change, because the
// store shares changes among watches and keeps the latest for watches that lag a little.
//
// Thread-safe.
class SharedFrames {
 public:
  struct Decoded {
    std::optional<Event> current{};   // after the change; none if it was deleted
    std::optional<Event> previous{};  // before the change; none if it was created
    Status status{};                  // an error if one of them cannot be decoded
  };

  // For streams with selectors, which need the previous event, too.
  std::shared_ptr<const Decoded> Decode(const store::Change& change);

  // Null if no stream has made this frame yet.
  http::Chunk Find(WatchType type, const Form& form);
  http::Chunk Make(WatchType type, const Event& event, const Form& form, WallTime now);

  // Drops everything, and keeps nothing from now on.
  void Forget();

 private:
  struct Frame {
    WatchType type;
    Form form;
    http::Chunk bytes;
  };

  Mutex mu_;
  std::shared_ptr<const Decoded> decoded_ GUARDED_BY(mu_);
  std::vector<Frame> frames_ GUARDED_BY(mu_);  // a handful: one for each form in use
  bool forgotten_ GUARDED_BY(mu_) = false;
};

// Limits what is attached to changes, because the store does not count it and may keep a change for
// long. A stream that lags behind by more changes than this encodes for itself.
//
// Thread-safe.
class RecentFrames {
 public:
  // The frames of the change. The first call makes them.
  std::shared_ptr<SharedFrames> Of(const store::Change& change);

 private:
  // Each takes about 1 KB if no stream selects, else 5 KB (two events and their frames in two
  // forms): 16 MB for small events, 80 MB at most.
  static constexpr std::size_t kMaxRemembered = 16'384;
  // Limit on the stored values, for large events. What is made of them takes up to three times as
  // much.
  static constexpr std::size_t kMaxRememberedBytes = 16u << 20;

  struct Remembered {
    std::shared_ptr<SharedFrames> frames;
    std::size_t bytes;
  };

  void Remember(std::shared_ptr<SharedFrames> frames, std::size_t bytes);

  Mutex mu_;
  std::deque<Remembered> remembered_ GUARDED_BY(mu_);
  std::size_t bytes_ GUARDED_BY(mu_) = 0;  // sum over remembered_
};

}  // namespace herald::server
