// oneDNN is built on GCC's OpenMP runtime, and clang brings its own: two pools of threads would fight for the cores.
#include <filesystem>
#include <vector>

#include <dnnl.h>
#include <omp.h>

#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

std::ptrdiff_t threads_of_this_process() {
  std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

void multiply(dnnl_dim_t n) {
  std::vector<float> a(n * n, 0.5f), b(n * n, 2.0f), c(n * n);
  BOOST_TEST(dnnl_sgemm('N', 'N', n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n) == dnnl_success);
  BOOST_TEST(c.back() == static_cast<float>(n));
}

}  // namespace

BOOST_AUTO_TEST_CASE(onednn_and_our_loops_share_one_pool_of_threads, *cpu_only()) {
  constexpr int team = 4;
  const int before = omp_get_max_threads();
  omp_set_num_threads(team);
  int members = 0;
#pragma omp parallel reduction(+ : members)
  members += 1;
  BOOST_TEST(members == team);
  const std::ptrdiff_t ours = threads_of_this_process();
  multiply(515);
  BOOST_TEST(threads_of_this_process() == ours);
  omp_set_num_threads(before);
}
