#include "tensor/cpu/threads.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "tensor/error.h"

namespace fovea {

namespace {

std::atomic<bool> is_child = false;

/// A child of fork() has no other thread than the one that called it, but OpenMP takes its parent's team for alive, and
/// would wait for it, whoever used OpenMP there. A parent without threads has no team.
[[maybe_unused]] const int handlers = [] {
  static bool has_threads;
  return pthread_atfork(
      [] {
        std::error_code error;
        const std::filesystem::directory_iterator tasks("/proc/self/task", error);
        has_threads = error || std::distance(begin(tasks), end(tasks)) > 1;
      },
      nullptr,
      [] {
        if (!has_threads) return;
        is_child = true;
        omp_set_num_threads(1);
      });
}();

/// Starts `count` threads that live at the same time, and ends them. Returns the number of threads that could be
/// started.
int threads_started(int count) {
  const auto most = static_cast<std::size_t>(count);
  std::mutex all_started;
  std::vector<std::thread> threads;
  std::vector<pid_t> numbers(most, 0);
  threads.reserve(most);
  try {
    std::lock_guard wait(all_started);
    for (pid_t& number : numbers)
      threads.emplace_back([&] {
        number = ::gettid();
        std::lock_guard until(all_started);
      });
  } catch (const std::system_error&) {
  }
  for (std::thread& thread : threads) thread.join();
  // A thread counts for the limits until the system has removed it, shortly after join().
  for (std::size_t k = 0; k < threads.size(); ++k)
    for (int n = 0; n < 1000 && ::tgkill(::getpid(), numbers[k], 0) == 0; ++n)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  return static_cast<int>(threads.size());
}

}  // namespace

bool is_without_threads() { return is_child; }

void prepare_team(int count) {
  thread_local int prepared = 1;
  if (is_child) return omp_set_num_threads(1);
  if (count <= prepared) [[likely]]
    return;
  const int started = threads_started(count - 1);
  require(
      started == count - 1,
      "threads: the system starts only {} of {}, because a limit is reached (ulimit -u, or a container's); end other "
      "programs, or use fewer threads (OMP_NUM_THREADS={})",
      started + 1, count, started + 1);
  std::atomic<int> members = 0;
#pragma omp parallel num_threads(count)  // OpenMP keeps the threads of this team
  ++members;
  prepared = count;
}

}  // namespace fovea
