#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/thread/mutex.h"
#include "http/server/server.h"

namespace herald::server {

// A Responder for tests: keeps the response, and simulates a client that reads only when the test
// says so. Thread-safe.
class TestResponder final : public http::Responder {
 public:
  // `request_body` arrives as soon as it is read.
  explicit TestResponder(std::string request_body = {}) : request_body_(std::move(request_body)) {}

  void ReadBody(http::BodyReader reader) override {
    asked_for_body_.store(true);
    if (request_body_.size() > reader.max_bytes)
      return reader.done(Status(StatusReason::kRequestEntityTooLarge, "too large"));
    if (reader.reserve && !reader.reserve(request_body_.size()))
      return reader.done(Status(StatusReason::kTooManyRequests, "no room"));
    reader.done(request_body_);
  }
  bool asked_for_body() const { return asked_for_body_.load(); }

  void Send(http::Response response) override {
    MutexLock lock(mu_);
    head_ = {response.status, response.headers};
    body_ = std::move(response.body);
    ended_ = true;
    changed_.NotifyAll();
  }
  void Start(http::ResponseHead head) override {
    MutexLock lock(mu_);
    head_ = std::move(head);
    changed_.NotifyAll();
  }
  std::size_t Write(http::Chunk chunk) override {
    MutexLock lock(mu_);
    body_ += *chunk;
    ++pieces_;
    if (!reads_) queued_ += chunk->size();
    changed_.NotifyAll();
    return queued_;
  }
  void End() override {
    MutexLock lock(mu_);
    ended_ = true;
    changed_.NotifyAll();
  }
  void Abort() override {
    MutexLock lock(mu_);
    aborted_ = true;
    ended_ = true;
    changed_.NotifyAll();
  }
  std::size_t queued() const override {
    MutexLock lock(mu_);
    return queued_;
  }
  std::size_t fair_share() const override {
    MutexLock lock(mu_);
    return fair_share_;
  }
  void Observe(std::function<void()> drained, std::function<void()> closed) override {
    MutexLock lock(mu_);
    drained_ = std::move(drained);
    closed_ = std::move(closed);
  }

  // The client stops reading until ReadAll().
  void StopReading() {
    MutexLock lock(mu_);
    reads_ = false;
  }
  // As if the connection had more streams.
  void SetFairShare(std::size_t bytes) {
    MutexLock lock(mu_);
    fair_share_ = bytes;
  }
  void ReadAll() {
    std::function<void()> drained;
    {
      MutexLock lock(mu_);
      queued_ = 0;
      drained = drained_;
    }
    if (drained) drained();
  }
  void Close() {
    std::function<void()> closed;
    {
      MutexLock lock(mu_);
      closed = closed_;
    }
    if (closed) closed();
  }

  // 0 before there is a response.
  int status() const {
    MutexLock lock(mu_);
    return head_ ? head_->status : 0;
  }
  std::string header(std::string_view name) const {
    MutexLock lock(mu_);
    return head_ ? std::string(head_->headers.Get(name)) : std::string();
  }
  std::string body() const {
    MutexLock lock(mu_);
    return body_;
  }
  bool ended() const {
    MutexLock lock(mu_);
    return ended_;
  }
  bool aborted() const {
    MutexLock lock(mu_);
    return aborted_;
  }
  // The number of writes after Start().
  std::size_t pieces() const {
    MutexLock lock(mu_);
    return pieces_;
  }
  // Waits for a response from another thread.
  void WaitForEnd() {
    MutexLock lock(mu_);
    changed_.Wait(lock, [this]() REQUIRES(mu_) { return ended_; });
  }

 private:
  const std::string request_body_;
  std::atomic<bool> asked_for_body_{false};
  mutable Mutex mu_;
  CondVar changed_;
  std::optional<http::ResponseHead> head_ GUARDED_BY(mu_);
  std::string body_ GUARDED_BY(mu_);
  std::size_t pieces_ GUARDED_BY(mu_) = 0;
  bool ended_ GUARDED_BY(mu_) = false;
  bool aborted_ GUARDED_BY(mu_) = false;
  bool reads_ GUARDED_BY(mu_) = true;
  std::size_t queued_ GUARDED_BY(mu_) = 0;
  std::size_t fair_share_ GUARDED_BY(mu_) = 2 << 20;
  std::function<void()> drained_ GUARDED_BY(mu_);
  std::function<void()> closed_ GUARDED_BY(mu_);
};

}  // namespace herald::server
