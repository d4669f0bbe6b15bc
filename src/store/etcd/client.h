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

// Where etcd is and how to speak to it.
struct EtcdClientOptions {
  // "https://a:2379", "http://127.0.0.1:2379"; one scheme for all. At least one.
  std::vector<std::string> endpoints{};
  // PEM files, re-read when a new connection is made and they have changed. For https only.
  std::string ca_file{};    // empty: the system's
  std::string cert_file{};  // ours, for mutual TLS
  std::string key_file{};
  std::string user{};  // with a password; empty: none
  std::string password{};
  // After which a call is given up, and its endpoint suspected.
  std::chrono::milliseconds call_timeout{5'000};
  // How long a silent connection with calls under way, or a silent watch, is trusted before it
  // is pinged. etcd closes connections that are pinged more often than every 5 s, or without calls.
  std::chrono::milliseconds keepalive{10'000};
  LogFunction log{};  // endpoints lost and found again, once each
};

// One key as etcd keeps it.
struct EtcdKeyValue {
  std::string key{};
  Bytes value{};
  Revision mod_revision = 0;
  std::int64_t lease = 0;  // 0: none
};

// A write of one key in a transaction of its own; see store::Write for what it means.
struct EtcdWrite {
  std::string key{};
  Bytes value{};                    // null: delete
  Revision expected = Write::kAny;  // compared with the key's mod revision
  std::int64_t lease = 0;           // for the new value
};

// Keys in [start, end) as they stood at a revision.
struct EtcdRange {
  std::string start{};
  std::string end{};  // exclusive; empty: the one key `start`; "\0": no end
  Revision at = 0;    // 0: now
  std::int64_t limit = 0;
  bool keys_only = false;
  bool count_only = false;
};

struct EtcdPage {
  std::vector<EtcdKeyValue> entries{};
  std::int64_t count = 0;  // of all keys in the range
  bool more = false;
  Revision revision = 0;  // etcd's latest when it answered
};

// What a watch on etcd tells.
struct EtcdWatchBatch {
  std::vector<std::shared_ptr<const Change>> changes{};  // of whole revisions, in order
  // Everything up to here has been told. Beyond the last change only where etcd said so and its
  // progress notifications can be trusted (see EtcdClient::progress_is_sound).
  Revision revision = 0;
};

// What stands behind one watch; destroying it ends the watch, and no callback comes after that.
class EtcdWatch {
 public:
  virtual ~EtcdWatch() = default;
  // Asks etcd to say how far the watch is, even if nothing changes. Any thread. The answer is
  // a batch without changes. There is none while etcd still sends changes, when a stream
  // breaks, or where progress cannot be trusted: who needs one asks again after a while.
  virtual void RequestProgress() = 0;
};

// An EtcdClient makes the calls that a store needs over etcd's v3 gRPC API, to whichever
// member of the cluster answers.
//
// Calls are spread over the endpoints that work. One that does not (refused, silent, without
// a leader, corrupt) is left alone for a while that grows, with jitter, up to 30 s, and tried
// again; while none works every call fails at once rather than queue up.
//
//   reads    are tried on another endpoint when one fails, within `call_timeout`
//   writes   are tried again only where the first try cannot have been carried out; but a
//            lease too many, or a compaction twice, harms nobody: these are tried like reads
//   watches  go on behind the last revision they have told, on another endpoint, by themselves
//
// Errors: kServiceUnavailable with retry_after (no endpoint, no leader, NOSPACE, too many
// requests), kTimeout where nobody knows whether the write was done, kExpired where a revision
// was compacted away, kBadRequest for a revision of the future, kUnauthorized and kForbidden
// for user and password, kNotFound for a lease that is gone (and only for that).
//
// Completions are called exactly once, on a thread of the client's; they must not block.
// Thread-safe. The destructor fails what is under way with kCancelled, and waits for that; so it
// must not run in a completion. Watches may outlive the client, and are then silent.
class EtcdClient {
 public:
  // Does not wait for a connection; only what can never work is an error (a URL that is none,
  // files that cannot be read, half of a key pair).
  static Result<std::unique_ptr<EtcdClient>> Open(EtcdClientOptions options);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  void Range(EtcdRange range, std::function<void(Result<EtcdPage>)> done);
  // `lease` of an entry that the write found instead is not told.
  void Commit(EtcdWrite write, std::function<void(Result<Written>)> done);

  // A lease that ends by itself after `ttl`; etcd may lengthen it, and says so.
  struct Lease {
    std::int64_t id = 0;
    std::chrono::seconds ttl{0};
  };
  void GrantLease(std::chrono::seconds ttl, std::function<void(Result<Lease>)> done);

  // Forgets what came before a revision. Anything that was compacted already is fine.
  void Compact(Revision revision, std::function<void(Status)> done);

  // The size of the database and whether it can write, of the endpoint that answers first.
  struct Condition {
    std::int64_t bytes = 0;
    bool has_leader = false;
    std::vector<std::string> alarms{};  // "NOSPACE", "CORRUPT"
  };
  void GetCondition(std::function<void(Result<Condition>)> done);

  // Changes of keys with that prefix after `after`; 0: all that ever were. `batch` comes from one
  // thread at a time, with changes or with progress. kExpired ends the watch: what comes next was
  // compacted away. All other troubles are survived; `batch` is then silent until etcd is back.
  std::unique_ptr<EtcdWatch> Watch(std::string prefix, Revision after,
                                   std::function<void(Result<EtcdWatchBatch>)> batch);

  // Whether every endpoint is known to run an etcd whose progress notifications tell the truth:
  // 3.4.31, 3.5.13 or newer. Older ones may announce a revision before its changes
  // (etcd#15220, etcd#17507). False until all endpoints have told their version once.
  bool progress_is_sound() const;

  // Ok where an endpoint answered last time it was asked.
  Status Health() const;

 private:
  class Impl;
  explicit EtcdClient(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace herald::store
