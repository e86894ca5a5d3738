// Threads: how many there are, that all loops share them, and what happens where the system refuses them.
#include "tensor/cpu/threads.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <vector>

#include <dnnl.h>
#include <omp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tensor/cpu/parallel.h"
#include "tensor/gemm.h"
#include "tensor/reduce.h"
#include "tensor/support/control_groups.h"
#include "tensor/support/machine_memory.h"
#include "tests/files.h"
#include "tests/refusal.h"
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

/// Writes a file below a folder that stands for the root of the file system.
void write_below(const Folder& root, const std::string& name, const std::string& text) {
  const std::filesystem::path path = root / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

}  // namespace

// oneDNN is built on GCC's OpenMP runtime, and clang brings its own: two pools of threads would fight for the cores.
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

BOOST_AUTO_TEST_CASE(a_quota_of_any_control_group_above_a_process_limits_its_processors, *cpu_only()) {
  const std::string v1 = "4:memory:/elsewhere\n3:cpu,cpuacct:/a/b\n", v2 = "0::/a/b\n", none = "max 100000\n";
  struct Case {
    std::string groups;
    std::vector<std::pair<std::string, std::string>> files;  ///< below /sys/fs/cgroup
    int processors;
  };
  constexpr int unlimited = std::numeric_limits<int>::max();
  const std::string one = "100000\n", half = "50000\n", no_quota = "-1\n";
  const std::vector<Case> cases{
      {v2, {}, unlimited},
      {v2, {{"cpu.max", none}, {"a/cpu.max", none}, {"a/b/cpu.max", none}}, unlimited},
      {v2, {{"a/b/cpu.max", "200000 100000\n"}}, 2},
      {v2, {{"a/b/cpu.max", "250000 100000\n"}, {"a/cpu.max", none}}, 3},
      {v2, {{"a/b/cpu.max", none}, {"a/cpu.max", "10000 100000\n"}}, 1},
      {v2, {{"a/b/cpu.max", "400000 100000\n"}, {"cpu.max", "150000 100000\n"}}, 2},
      {v2, {{"c/cpu.max", "100000 100000\n"}}, unlimited},
      {v2, {{"unified/a/cpu.max", "100000 50000\n"}}, 2},
      {"0::/\n", {{"cpu.max", "100000 100000\n"}}, 1},
      {"", {{"cpu.max", "300000 100000\n"}}, 3},
      {v2, {{"cpu.max", "no numbers\n"}}, unlimited},
      {v2, {{"cpu.max", "100000 0\n"}}, unlimited},
      {v1, {{"cpu/a/b/cpu.cfs_quota_us", no_quota}, {"cpu/a/b/cpu.cfs_period_us", one}}, unlimited},
      {v1, {{"cpu/a/b/cpu.cfs_quota_us", one}, {"cpu/a/b/cpu.cfs_period_us", one}}, 1},
      {v1, {{"cpu,cpuacct/a/cpu.cfs_quota_us", one}, {"cpu,cpuacct/a/cpu.cfs_period_us", half}}, 2},
      {v1, {{"cpu/cpu.cfs_quota_us", half}, {"cpu/cpu.cfs_period_us", one}}, 1},
      {v1, {{"cpu/elsewhere/cpu.cfs_quota_us", half}, {"cpu/elsewhere/cpu.cfs_period_us", one}}, unlimited},
      {v1, {{"cpu/a/b/cpu.cfs_quota_us", one}}, unlimited},
  };
  for (std::size_t k = 0; k < cases.size(); ++k) BOOST_TEST_CONTEXT("case " << k) {
      const Folder root;
      write_below(root, "proc/self/cgroup", cases[k].groups);
      for (const auto& [name, text] : cases[k].files) write_below(root, "sys/fs/cgroup/" + name, text);
      BOOST_TEST(processors_of_quota(root.path) == cases[k].processors);
    }
}

// A container that has read large files has used all its memory, by its own count, and can still have most of it.
BOOST_AUTO_TEST_CASE(files_in_memory_leave_it_available, *cpu_only()) {
  const std::vector<std::pair<std::string, std::map<std::string, std::string>>> cases{
      {"0::/a\n",
       {{"a/memory.max", "8000"},
        {"a/memory.current", "8000"},
        {"a/memory.stat", "anon 1500\nfile 6500\ninactive_file 4000\nactive_file 2000\n"}}},
      {"4:memory:/a\n",
       {{"memory/a/memory.limit_in_bytes", "8000"},
        {"memory/a/memory.usage_in_bytes", "8000"},
        {"memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 4000\ntotal_active_file 2000\n"}}},
  };
  for (const auto& [groups, files] : cases) {
    const Folder root;
    write_below(root, "proc/self/cgroup", groups);
    write_below(root, "proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 50 kB\n");
    for (const auto& [name, text] : files) write_below(root, "sys/fs/cgroup/" + name, text);
    const MachineMemory memory = machine_memory(root.path);
    BOOST_TEST(memory.total == 8000u);
    BOOST_TEST(memory.available == 6000u);
  }
}

// OpenMP would wait in the child for threads that only the parent has.
BOOST_AUTO_TEST_CASE(a_child_of_a_program_with_threads_of_its_own_computes_on_one_thread, *cpu_only()) {
  const int before = omp_get_max_threads();
  int members = 0;
#pragma omp parallel num_threads(2) reduction(+ : members)
  ++members;
  BOOST_TEST(members == 2);
  const int status = status_in_child([&] {
    ::alarm(60);
    omp_set_num_threads(2);
    const Tensor ones = Tensor::full({1 << 20}, 1, DType::f32);
    return sum(ones, {0}).item() == 1 << 20 && is_without_threads() ? 0 : 1;
  });
  BOOST_TEST(status == 0);
  omp_set_num_threads(before);
}

BOOST_AUTO_TEST_CASE(a_child_of_fork_computes_the_same_on_one_thread, *cpu_only()) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(2);
  const Tensor a = Tensor::full({515, 515}, 0.5, DType::f32);
  const auto work = [&] {
    std::vector<double> parts(std::size_t{1} << 16);
    parallel_for(std::ssize(parts), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) parts[static_cast<std::size_t>(k)] = static_cast<double>(k);
    });
    set_flush_denormals(false);
    return std::accumulate(parts.begin(), parts.end(), 0.0) + matmul(a, a).to_vector<double>()[7];
  };
  const double right = work();
  const int status = status_in_child([&] {
    ::alarm(60);  // ends a child that waits
    if (work() != right || available_threads() != 1) return 1;
    omp_set_num_threads(4);  // as a program's own code might
    return work() == right ? 0 : 2;
  });
  BOOST_TEST(status == 0);
  BOOST_TEST(work() == right);
  omp_set_num_threads(before);
}

BOOST_AUTO_TEST_CASE(threads_fill_each_element_of_a_view_and_no_other, *cpu_only()) {
  const int before = omp_get_max_threads();
  for (int threads : {1, 2, 3})
    for (bool transposed : {false, true}) {
      omp_set_num_threads(threads);
      Tensor whole = Tensor::full({300, 1111}, -1.5), inner = whole.slice(0, 3, 297).slice(1, 5, 1102);
      (transposed ? inner.transpose(0, 1) : inner).fill(2.25);
      std::vector<double> expected(300 * 1111, -1.5);
      for (std::size_t i = 3; i < 297; ++i) std::fill_n(expected.begin() + i * 1111 + 5, 1097, 2.25);
      BOOST_TEST((whole.to_vector<double>() == expected),
                 fmt::format("{} threads, transposed {}", threads, transposed));
    }
  omp_set_num_threads(before);
}
