/// Threads: one way to split a loop over them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <exception>

#include <omp.h>

namespace fovea {

/// Calls body(begin, end) over a partition of [0, n) into one range per thread. `grain` is the least work that is worth
/// a thread: below two grains, or inside another parallel loop, everything runs on the caller. Ranges depend on the
/// number of threads: a body whose result would too must not be used here. What a body throws reaches the caller.
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, Body&& body) {
  std::int64_t threads = std::min<std::int64_t>(omp_get_max_threads(), n / std::max<std::int64_t>(grain, 1));
  if (threads <= 1 || omp_in_parallel()) {
    if (n > 0) body(std::int64_t{0}, n);
    return;
  }
  std::exception_ptr thrown;
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
    std::int64_t team = omp_get_num_threads(), rank = omp_get_thread_num();
    std::int64_t begin = n * rank / team, end = n * (rank + 1) / team;
    try {
      if (begin < end) body(begin, end);
    } catch (...) {
#pragma omp critical(fovea_thrown)
      thrown = std::current_exception();
    }
  }
  if (thrown) std::rethrow_exception(thrown);
}

/// Elements of simple arithmetic worth a thread: about ten microseconds.
inline constexpr std::int64_t element_grain = 16384;

/// Flushes denormals to zero in every thread (f32 programs: Gaussian tails are denormal and slow), or keeps them (f64
/// tests).
void set_flush_denormals(bool flush);

}  // namespace fovea
