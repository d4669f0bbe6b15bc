#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "herald/base/clock.h"
#include "herald/base/log.h"
#include "herald/base/status.h"
#include "store/store.h"

namespace herald::store {

// The addresses of etcd, and how to connect to it.
struct EtcdClientOptions {
  // "https://a:2379", "http://127.0.0.1:2379". At least one; all with the same scheme.
  std::vector<std::string> endpoints{};
  // PEM files, for https only. Read again for each new connection.
  std::string ca_file{};    // empty: the system's authorities
  std::string cert_file{};  // the client certificate, for mutual TLS
  std::string key_file{};
  std::string user{};  // empty: no authentication
  std::string password{};
  // A call fails after this, and its endpoint becomes suspect.
  std::chrono::milliseconds call_timeout{5'000};
  // A silent connection with calls in progress, or a silent watch, is pinged after this. etcd
  // closes connections that are pinged without calls or more often than every 5 s.
  std::chrono::milliseconds keepalive{10'000};
  LogFunction log{};  // one entry when an endpoint is lost, one when it is back
};

// One key as etcd stores it.
struct EtcdKeyValue {
  std::string key{};
  Bytes value{};
  Revision mod_revision = 0;
  std::int64_t lease = 0;  // 0: none
};

// A write of one key, in its own transaction. See store::Write for the semantics.
struct EtcdWrite {
  std::string key{};
  Bytes value{};                    // null: delete
  Revision expected = Write::kAny;  // compared with the key's mod revision
  std::int64_t lease = 0;           // for the new value
};

// The keys in [start, end) at a revision.
struct EtcdRange {
  std::string start{};
  std::string end{};  // exclusive; empty: only the key `start`; "\0": no end
  Revision at = 0;    // 0: the latest
  std::int64_t limit = 0;
  bool keys_only = false;
  bool count_only = false;
};

struct EtcdPage {
  std::vector<EtcdKeyValue> entries{};
  std::int64_t count = 0;  // number of all keys in the range
  bool more = false;
  Revision revision = 0;  // etcd's latest at the time of the response
};

// One batch of a watch on etcd.
struct EtcdWatchBatch {
  std::vector<std::shared_ptr<const Change>> changes{};  // complete revisions, in order
  // All changes up to this revision have been delivered. It exceeds the last change's revision only
  // after a progress notification that can be trusted (see EtcdClient::progress_is_sound).
  Revision revision = 0;
};

// A handle of one watch. Destroying it ends the watch; there are no callbacks after that.
class EtcdWatch {
 public:
  virtual ~EtcdWatch() = default;
  // Requests a progress notification. Any thread. The response is a batch without changes. There is
  // none while etcd still sends older changes, if the stream breaks, or if progress notifications
  // cannot be trusted: a caller that needs one must retry.
  virtual void RequestProgress() = 0;
};

// An EtcdClient makes the calls that a store needs over etcd's v3 gRPC API. Any member of the
// cluster can answer them.
//
// Calls are distributed over the endpoints that work. An endpoint that fails (connection refused,
// silent, no leader, corrupt) is retried after a delay that grows up to 30 s, with jitter. While no
// endpoint works, every call fails at once; calls are not queued.
//
//   reads    are retried on another endpoint, within `call_timeout`
//   writes   are retried only if the first attempt cannot have been applied. Leases and compactions
//            may be repeated without harm, so they are retried like reads
//   watches  resume automatically after the last delivered revision, on another endpoint
//
// Errors: kServiceUnavailable with retry_after (no endpoint, no leader, NOSPACE, too many
// requests); kTimeout if it is unknown whether the write was applied; kExpired if the revision was
// compacted; kBadRequest for a future revision; kUnauthorized and kForbidden for the user and
// password; kNotFound for a lease that does not exist (and only for that).
//
// Each completion is called exactly once, on a thread of the client, and must not block.
// Thread-safe. The destructor fails all calls with kCancelled and waits for them, so it must not
// run in a completion. Watches may outlive the client; they then have no further callbacks.
class EtcdClient {
 public:
  // Does not wait for a connection. Fails only for options that can never work (an invalid URL, an
  // unreadable file, a certificate without its key).
  static Result<std::unique_ptr<EtcdClient>> Open(EtcdClientOptions options);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  void Range(EtcdRange range, std::function<void(Result<EtcdPage>)> done);
  // If the write finds another entry, the result does not contain that entry's lease.
  void Commit(EtcdWrite write, std::function<void(Result<Written>)> done);

  // A lease that expires after `ttl`. etcd may grant a longer one; `ttl` is the granted one.
  struct Lease {
    std::int64_t id = 0;
    std::chrono::seconds ttl{0};
  };
  void GrantLease(std::chrono::seconds ttl, std::function<void(Result<Lease>)> done);

  // Compacts etcd up to a revision. Ok if it is already compacted.
  void Compact(Revision revision, std::function<void(Status)> done);

  // The database size and the alarms, from the first endpoint that answers.
  struct Condition {
    std::int64_t bytes = 0;
    bool has_leader = false;
    std::vector<std::string> alarms{};  // "NOSPACE", "CORRUPT"
  };
  void GetCondition(std::function<void(Result<Condition>)> done);

  // Watches keys with the prefix, for changes after revision `after`; 0: from the beginning.
  // `batch` is called by one thread at a time, with changes or progress. kExpired ends the watch:
  // the next changes were compacted. After all other errors the watch resumes when etcd is back.
  std::unique_ptr<EtcdWatch> Watch(std::string prefix, Revision after,
                                   std::function<void(Result<EtcdWatchBatch>)> batch);

  // Whether all endpoints run a version of etcd with correct progress notifications: 3.4.31, 3.5.13
  // or newer. Older ones may announce a revision before they send its changes (etcd#15220,
  // etcd#17507). False until all endpoints have returned their version.
  bool progress_is_sound() const;

  // Ok if an endpoint is known to accept writes; see EtcdRpc::Health().
  Status Health() const;

 private:
  class Impl;
  explicit EtcdClient(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald::store
