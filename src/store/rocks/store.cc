#include "store/rocks/store.h"

#include <utility>

namespace herald::store {

Result<std::unique_ptr<RocksStore>> RocksStore::Open(StoreOptions options,
                                                     RocksStoreOptions rocks) {
  // RocksDB's threads may report a failure before the store exists; the next write then fails, too.
  auto opened_store = std::make_shared<std::atomic<RocksStore*>>(nullptr);
  rocks.db.on_background_error = [opened_store](const Status& status) {
    if (RocksStore* store = opened_store->load()) store->health_.Fail(status);
  };
  rocks.db.on_log_rolled = [opened_store] {
    if (RocksStore* store = opened_store->load()) store->marker_.SetDue();
  };
  if (options.max_bytes > 0) rocks.db.budget = DiskBudget(options.max_bytes);
  Result<std::unique_ptr<RocksDb>> db = RocksDb::Open(rocks.db);
  if (!db) return db.error();
  // Not make_unique: the constructor is private.
  std::unique_ptr<RocksStore> store(
      new RocksStore(std::move(options), std::move(rocks), std::move(*db)));
  *opened_store = store.get();
  store->Start();
  return store;
}

RocksStore::RocksStore(StoreOptions options, RocksStoreOptions rocks, std::unique_ptr<RocksDb> db)
    : options_(std::move(options)),
      rocks_options_(std::move(rocks)),
      clock_(options_.clock != nullptr ? *options_.clock : SystemClock()),
      database_(std::move(db), &options_.schema),
      published_(database_.current().state()),
      health_(&rocks_options_),
      marker_(&rocks_options_, &published_),
      clock_guard_(&clock_, ReadBootId(), database_.current().clock(), rocks_options_.log),
      lifetimes_(&options_.schema),
      disk_(&rocks_options_, [this] { maintenance_.RequestRun(); }),
      reads_(&rocks_options_, &database_, &published_),
      hub_(
          published_.visible(), published_.compacted(),
          [this](const std::string& prefix, Revision after, std::size_t max) {
            return reads_.ReadLog(prefix, after, max);
          },
          WatchHub::Options{.executor = reads_.executor()}),
      committer_({.schema = &options_.schema,
                  .clock = &clock_,
                  .options = &rocks_options_,
                  .database = &database_,
                  .published = &published_,
                  .health = &health_,
                  .marker = &marker_,
                  .lifetimes = &lifetimes_,
                  .expiry_cursor = &expiry_cursor_,
                  .disk = &disk_,
                  .hub = &hub_}),
      expirer_({.schema = &options_.schema,
                .clock = &clock_,
                .options = &rocks_options_,
                .database = &database_,
                .committer = &committer_,
                .lifetimes = &lifetimes_,
                .cursor = &expiry_cursor_,
                .clock_guard = &clock_guard_,
                .stopping = &stopping_}),
      compactor_({.store_options = &options_,
                  .options = &rocks_options_,
                  .database = &database_,
                  .published = &published_,
                  .committer = &committer_,
                  .hub = &hub_,
                  .clock_guard = &clock_guard_,
                  .stopping = &stopping_}),
      evictor_({.options = &rocks_options_,
                .database = &database_,
                .published = &published_,
                .committer = &committer_,
                .compactor = &compactor_,
                .disk = &disk_,
                .stopping = &stopping_}),
      recovery_({.options = &rocks_options_,
                 .database = &database_,
                 .published = &published_,
                 .health = &health_,
                 .committer = &committer_,
                 .hub = &hub_}),
      maintenance_({.database = &database_,
                    .published = &published_,
                    .marker = &marker_,
                    .clock_guard = &clock_guard_,
                    .committer = &committer_,
                    .hub = &hub_,
                    .recovery = &recovery_,
                    .expirer = &expirer_,
                    .compactor = &compactor_,
                    .evictor = options_.max_bytes > 0 ? &evictor_ : nullptr}) {
  committer_.Reload(database_.current());
}

void RocksStore::Start() {
  // In this order: the committer may request a run of maintenance, and maintenance needs the
  // committer.
  if (options_.background) maintenance_.Start();
  committer_.Start();
}

RocksStore::~RocksStore() {
  stopping_ = true;
  maintenance_.Stop();
  committer_.Stop();
  reads_.Stop();
  if (health_.ok()) {
    // The next start then has no write-ahead log to read. A failure costs only that time.
    database_.current().FlushAll().PermitUncheckedError();
    marker_.Mark();
  }
  // Before the members are destroyed: RocksDB's threads may report to them until it is closed.
  database_.Close();
}

void RocksStore::Commit(Write write, WriteDone done) {
  committer_.Commit(std::move(write), std::move(done));
}

void RocksStore::Get(std::string key, EntryDone done) {
  reads_.Get(std::move(key), std::move(done));
}

void RocksStore::Read(Query query, PageDone done) {
  reads_.Read(std::move(query), std::move(done));
}

void RocksStore::CurrentRevision(std::function<void(Result<Revision>)> done) {
  done(published_.visible());
}

Result<std::unique_ptr<Watch>> RocksStore::NewWatch(std::string prefix, Revision after,
                                                    std::function<void()> ready) {
  // A change that a read has returned is not new, even if the hub does not have it yet.
  return hub_.NewWatch(std::move(prefix), after == 0 ? published_.visible() : after,
                       std::move(ready));
}

void RocksStore::RefreshLifetimes() {
  lifetimes_.RequestRefresh();
  maintenance_.RequestRun();
}

void RocksStore::AcceptClock() {
  clock_guard_.Accept();
  maintenance_.RequestRun();
}

void RocksStore::Maintain() { maintenance_.Run(); }

Status RocksStore::Health() { return health_.status(); }

StoreStats RocksStore::Stats() {
  StoreStats stats;
  const State state = published_.state();
  stats.entries = state.entries;
  stats.complete_since = state.complete_since;
  stats.revision = published_.visible();
  stats.compacted = published_.compacted();
  stats.expired = committer_.expired();
  stats.evicted = committer_.evicted();
  stats.watches = hub_.watches();
  stats.clock_jumps = clock_guard_.jumps();
  stats.expiry_held = clock_guard_.held();
  const SharedDatabase::Access access(&database_);
  if (access.status().ok()) stats.bytes_on_disk = access.rocks().BytesOnDisk();
  return stats;
}

Status RocksStore::Backup(const std::filesystem::path& target, BackupMode mode) {
  const SharedDatabase::Access access(&database_);
  if (!access.status().ok()) return access.status();
  // While Recovery waits to replace the database, it waits for this access, and every other read
  // waits for Recovery.
  return BackupDatabase(&access.rocks().db(), target, mode,
                        [this] { return stopping_ || database_.replace_waits(); });
}

Status RocksStore::SkipTo(Revision revision) { return maintenance_.SkipTo(revision); }

}  // namespace herald::store
