// An HTTP server with one thread that returns the body of each request. Client benchmarks use it,
// so that only the cost of the client differs.
//
//   echo_server [--port N] [--delay-ms N] [--cert FILE --key FILE]
//
// Prints the port that it listens on, and runs until SIGTERM.
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "http/server/server.h"

namespace {

using herald::http::Peer;
using herald::http::Request;
using herald::http::Responder;
using herald::http::Response;

// Delays responses, like a server with a disk.
class Delay {
 public:
  explicit Delay(std::chrono::milliseconds delay) : delay_(delay), thread_([this] { Run(); }) {}
  ~Delay() {
    {
      const std::lock_guard lock(mu_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Delay(const Delay&) = delete;
  Delay& operator=(const Delay&) = delete;

  void Send(std::shared_ptr<Responder> responder, Response response) {
    const auto due = std::chrono::steady_clock::now() + delay_;
    const std::lock_guard lock(mu_);
    waiting_.push({due, std::move(responder), std::move(response)});
    if (waiting_.size() == 1) changed_.notify_one();
  }

 private:
  struct Item {
    std::chrono::steady_clock::time_point due;
    std::shared_ptr<Responder> responder;
    Response response;
  };

  void Run() {
    std::unique_lock lock(mu_);
    while (!stopping_) {
      if (waiting_.empty()) {
        changed_.wait(lock);
      } else if (waiting_.front().due > std::chrono::steady_clock::now()) {
        changed_.wait_until(lock, waiting_.front().due);
      } else {
        Item item = std::move(waiting_.front());
        waiting_.pop();
        lock.unlock();
        item.responder->Send(std::move(item.response));
        lock.lock();
      }
    }
  }

  const std::chrono::milliseconds delay_;
  std::mutex mu_;
  std::condition_variable changed_;
  std::queue<Item> waiting_;  // guarded by mu_; ordered by due time
  bool stopping_ = false;     // guarded by mu_
  std::thread thread_;
};

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

int Run(int argc, char** argv) {
  herald::http::ServerOptions options;
  herald::http::ServerTls tls;
  std::chrono::milliseconds delay{0};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "--port") {
      options.port = static_cast<std::uint16_t>(std::stoi(value));
    } else if (flag == "--delay-ms") {
      delay = std::chrono::milliseconds(std::stoi(value));
    } else if (flag == "--cert") {
      tls.certificate = ReadFile(value);
    } else if (flag == "--key") {
      tls.key = ReadFile(value);
    } else {
      std::fprintf(stderr, "echo_server: no such flag: %s\n", argv[i]);
      return 2;
    }
  }
  if (!tls.certificate.empty()) options.tls = tls;

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  std::unique_ptr<Delay> delayed;
  if (delay.count() > 0) delayed = std::make_unique<Delay>(delay);
  auto server = herald::http::Server::Start(
      options, herald::http::WithBodies([&delayed](Request request, const Peer&,
                                                   std::shared_ptr<Responder> responder) {
        Response response{
            .status = request.method == "POST" ? 201 : 200,
            .headers = {{"content-type", std::string(request.headers.Get("content-type"))}},
            .body = std::move(request.body)};
        if (delayed) {
          delayed->Send(std::move(responder), std::move(response));
        } else {
          responder->Send(std::move(response));
        }
      }));
  if (!server) {
    std::fprintf(stderr, "echo_server: %s\n", server.error().message().c_str());
    return 1;
  }
  std::printf("%u\n", (*server)->port());
  std::fflush(stdout);
  int received = 0;
  sigwait(&signals, &received);
  (*server)->Stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "echo_server: %s\n", e.what());
    return 1;
  }
}
