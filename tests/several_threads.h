/// Runs the same code on several threads at once.
#pragma once
#include <barrier>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace fovea::test {

/// Calls body(0), ..., body(threads - 1), each on a thread of its own, all of them started together. Returns the
/// message of each thread's exception, "" where it threw none. Boost.Test's checks are not safe across threads: a body
/// stores its results, and the caller checks them afterwards.
inline std::vector<std::string> run_on_threads(int threads, const std::function<void(int thread)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(threads));
  std::barrier start(threads);
  std::vector<std::jthread> running;
  for (int thread = 0; thread < threads; ++thread)
    running.emplace_back([&, thread] {
      start.arrive_and_wait();
      try {
        body(thread);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(thread)] = error.what();
      }
    });
  running.clear();  // joins them
  return errors;
}

}  // namespace fovea::test
