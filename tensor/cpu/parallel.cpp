#include "tensor/cpu/parallel.h"

#include <algorithm>
#include <exception>

#include <omp.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "tensor/cpu/threads.h"

namespace fovea {

int available_threads() { return omp_in_parallel() || is_without_threads() ? 1 : omp_get_max_threads(); }

void parallel_for(std::int64_t n, std::int64_t grain, FunctionRef<void(std::int64_t begin, std::int64_t end)> body) {
  std::int64_t threads = std::min<std::int64_t>(available_threads(), n / std::max<std::int64_t>(grain, 1));
  if (threads <= 1) {
    if (n > 0) body(std::int64_t{0}, n);
    return;
  }
  prepare_team(static_cast<int>(threads));
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

void set_flush_denormals(bool flush) {
#if defined(__SSE__)
  prepare_team(omp_get_max_threads());
  constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040;
#pragma omp parallel
  {
    unsigned control = _mm_getcsr() & ~(flush_to_zero | denormals_are_zero);
    _mm_setcsr(flush ? control | flush_to_zero | denormals_are_zero : control);
  }
#else
  static_cast<void>(flush);
#endif
}

}  // namespace fovea
