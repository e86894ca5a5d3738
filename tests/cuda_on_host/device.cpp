// The GPU's counters, memory and errors, on the host that runs CUDA kernels.
#include <cmath>
#include <cstdlib>
#include <functional>
#include <thread>

#include <boost/test/unit_test.hpp>

#include "autograd/operations.h"
#include "autograd/operations/gather.h"
#include "cuda/launch.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"
#include "tensor/map.h"
#include "tensor/random.h"
#include "tensor/reduce.h"
#include "tests/cuda_on_host/runtime.h"
#include "tests/refusal.h"

using namespace fovea;

namespace {

LaunchCount count_of(const std::string& kernel) {
  for (const LaunchCount& count : kernels(Device::cuda).launches())
    if (count.kernel == kernel) return count;
  return {};
}

std::uint64_t launches_of(const std::string& kernel) { return count_of(kernel).launches; }

/// The bytes that the launches of a kernel move while `work` runs.
std::uint64_t bytes_moved(const std::string& kernel, const std::function<void()>& work) {
  const std::uint64_t before = count_of(kernel).bytes;
  work();
  return count_of(kernel).bytes - before;
}

Tensor uniform(const Shape& shape, DType dtype = DType::f32) {
  static Generator generator(5);
  Tensor x = Tensor::empty(shape, dtype, Device::cuda);
  fill_uniform(x, generator, -1, 1);
  return x;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(device)

BOOST_AUTO_TEST_CASE(launches_are_counted_by_kernel) {
  Tensor x = Tensor::arange(12, DType::f32, Device::cuda).reshape({3, 4});
  const std::uint64_t softmaxes = launches_of("softmax"), downloads = launches_of("download"),
                      uploads = launches_of("upload");
  for (int k = 0; k < 3; ++k) softmax(x);
  BOOST_TEST(launches_of("softmax") == softmaxes + 3);
  BOOST_TEST(launches_of("download") == downloads);
  softmax(x).value().to(Device::cpu).to(Device::cuda);
  BOOST_TEST(launches_of("softmax") == softmaxes + 4);
  BOOST_TEST(launches_of("download") == downloads + 1);
  BOOST_TEST(launches_of("upload") == uploads + 1);
}

BOOST_AUTO_TEST_CASE(bytes_are_those_of_all_operands_and_broadcast_elements_count_once) {
  const Tensor x = uniform({6, 5}), y = uniform({5}),
               index = Tensor::of({3, 0, 3, 1}, {4}, DType::i32).to(Device::cuda);
  BOOST_TEST(bytes_moved("add", [&] { map(Add{}, x, x); }) == 3 * 6 * 5 * 4);
  BOOST_TEST(bytes_moved("add", [&] { map(Add{}, x, y); }) == (2 * 6 * 5 + 5) * 4);
  BOOST_TEST(bytes_moved("add", [&] {
               map(Add{}, uniform({2, 3}, DType::f64), uniform({3}, DType::f64));
             }) == (2 * 6 + 3) * 8);
  BOOST_TEST(bytes_moved("less", [&] { less(x, y); }) == (6 * 5 + 5) * 4 + 6 * 5);
  BOOST_TEST(bytes_moved("softmax", [&] { softmax(x); }) == 2 * 6 * 5 * 4);
  BOOST_TEST(bytes_moved("sum", [&] { sum(x, {0}); }) == (6 * 5 + 5) * 4);
  BOOST_TEST(bytes_moved("gemm", [&] { matmul(x, uniform({5, 7})); }) == (6 * 5 + 5 * 7 + 6 * 7) * 4);
  BOOST_TEST(bytes_moved("copy", [&] { y.expand({6, 5}).contiguous(); }) == (6 * 5 + 5) * 4);
  BOOST_TEST(bytes_moved("fill", [&] { Tensor::full({7, 3}, 2, DType::u8, Device::cuda); }) == 7 * 3);
  BOOST_TEST(bytes_moved("gather_rows", [&] { gather_rows(x, index); }) == (2 * 4 * 5 + 4) * 4);
  BOOST_TEST(bytes_moved("download", [&] { x.to(Device::cpu); }) == 6 * 5 * 4);
  BOOST_TEST(bytes_moved("upload", [&] { Tensor::of({1, 2, 3}, {3}, DType::f32).to(Device::cuda); }) == 3 * 4);
}

BOOST_AUTO_TEST_CASE(a_constant_is_made_once_and_nobody_may_write_to_it) {
  auto fills_in = [](const auto& work) {
    const std::uint64_t before = launches_of("fill");
    work();
    return launches_of("fill") - before;
  };
  BOOST_TEST(fills_in([] { constant(17.5, DType::f32, Device::cuda); }) == 1);
  BOOST_TEST(fills_in([] { constant(17.5, DType::f32, Device::cuda); }) == 0);
  BOOST_TEST(fills_in([] { constant(17.5, DType::f64, Device::cuda); }) == 1);
  BOOST_TEST(constant(17.5, DType::f32, Device::cuda).item() == 17.5);
  constant(17.5, DType::f32, Device::cuda).fill(3);
  BOOST_TEST(message_of([] { constant(17.5, DType::f32, Device::cuda); }) ==
             "constant: somebody wrote to the shared tensor of 17.5");
  release_constants();
  BOOST_TEST(fills_in([] { constant(17.5, DType::f32, Device::cuda); }) == 1);
}

BOOST_AUTO_TEST_CASE(products_of_many_heads_and_sentences_are_one_call_and_one_kernel_for_their_addresses) {
  const auto split = [](const Tensor& x, std::int64_t heads) {
    return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
  };
  auto launches = [&](std::int64_t sentences, std::int64_t heads) {
    const Tensor q = split(uniform({sentences, 3, 5 * heads}), heads),
                 k = split(uniform({sentences, 7, 5 * heads}), heads);
    const std::uint64_t products = launches_of("gemm"), addresses = launches_of("gemm_addresses");
    matmul(q, k.transpose(2, 3));
    return std::pair(launches_of("gemm") - products, launches_of("gemm_addresses") - addresses);
  };
  BOOST_TEST((launches(6, 5) == std::pair<std::uint64_t, std::uint64_t>(1, 1)));
  BOOST_TEST((launches(2, 5) == std::pair<std::uint64_t, std::uint64_t>(2, 0)));
  BOOST_TEST((launches(1, 5) == std::pair<std::uint64_t, std::uint64_t>(1, 0)));
  // a matrix that all heads of a sentence read lies in memory once
  const Tensor q = split(uniform({6, 3, 20}), 4), shared = uniform({6, 1, 5, 7});
  BOOST_TEST(bytes_moved("gemm", [&] { matmul(q, shared); }) == 4 * (6 * 4 * 3 * 5 + 6 * 5 * 7 + 6 * 4 * 3 * 7));
}

BOOST_AUTO_TEST_CASE(memory_that_cannot_be_had_is_refused_and_the_device_still_works) {
  Tensor held = Tensor::empty({1 << 30}, DType::u8, Device::cuda);
  BOOST_TEST(message_of([] { Tensor::empty({std::int64_t{7680} << 20}, DType::u8, Device::cuda); }) ==
             "cuda: out of memory: asked for 7.5 GiB, 7.0 GiB free of 8.0 GiB, fovea holds 1.0 GiB");
  BOOST_TEST(Tensor::full({3}, 2, DType::f32, Device::cuda).slice(0, 2, 3).item() == 2);
}

BOOST_AUTO_TEST_CASE(a_process_uses_one_gpu) {
  kernels(Device::cuda);
  BOOST_TEST((parse_device("cuda:0") == Device::cuda));
  BOOST_TEST((parse_device("cuda") == Device::cuda));
  BOOST_TEST(message_of([] { parse_device("cuda:1"); }) ==
             "'cuda:1': this process already uses cuda:0; a process uses one GPU");
}

BOOST_AUTO_TEST_CASE(every_thread_can_use_the_device) {
  Tensor x = Tensor::arange(17, DType::f64, Device::cuda), copied;
  std::thread([&] { copied = x.clone(); }).join();
  BOOST_TEST((copied.to_vector<double>() == x.to_vector<double>()));
}

BOOST_AUTO_TEST_SUITE_END()

// ---- Freed memory that is kept for new tensors: FOVEA_CUDA_MEMORY_CACHE=1, and a device with 64 MiB ----

namespace {

boost::test_tools::assertion_result is_kept(boost::unit_test::test_unit_id) {
  const char* variable = std::getenv("FOVEA_CUDA_MEMORY_CACHE");
  return variable && std::string(variable) == "1";
}

Tensor of_bytes(std::int64_t bytes) { return Tensor::empty({bytes}, DType::u8, Device::cuda); }
const std::uint8_t* address_of_freed(std::int64_t bytes) { return of_bytes(bytes).data<std::uint8_t>(); }
AllocatorStatistics statistics() { return allocator_statistics(Device::cuda); }

__global__ void read_one(const float* in, float* out) { *out = *in; }

}  // namespace

BOOST_AUTO_TEST_SUITE(kept_memory, *boost::unit_test::precondition(is_kept))

BOOST_AUTO_TEST_CASE(freed_memory_serves_tensors_of_about_its_size) {
  const std::uint8_t* first = address_of_freed(100000);
  const std::uint64_t taken = statistics().system_allocations, allocations = statistics().allocations;
  BOOST_TEST(address_of_freed(99000) == first);
  BOOST_TEST(address_of_freed(100000) == first);
  BOOST_TEST(address_of_freed(60000) != first);
  BOOST_TEST(statistics().allocations == allocations + 3);
  BOOST_TEST(statistics().system_allocations <= taken + 1);
  auto work = [] { softmax(uniform({3, 1000})); };
  work();
  const std::uint64_t before = statistics().system_allocations;
  for (int k = 0; k < 3; ++k) work();
  BOOST_TEST(statistics().system_allocations == before);
}

BOOST_AUTO_TEST_CASE(statistics_count_what_tensors_asked_for) {
  reset_peak(Device::cuda);
  const std::size_t before = statistics().bytes_in_use;
  {
    const Tensor one = of_bytes(1000), two = of_bytes(1);
    BOOST_TEST(statistics().bytes_in_use == before + 1001);
  }
  BOOST_TEST(statistics().bytes_in_use == before);
  BOOST_TEST(statistics().peak_bytes == before + 1001);
  BOOST_TEST(statistics().bytes_cached >= 1001u);
}

BOOST_AUTO_TEST_CASE(kept_memory_is_nan_for_those_who_use_it_after_it_was_freed_or_before_it_is_written) {
  Tensor out = Tensor::zeros({1}, DType::f32, Device::cuda);
  Tensor in = Tensor::full({1000}, 3, DType::f32, Device::cuda);
  const float* freed = in.data<float>();
  in = Tensor();
  cuda::launch("read", 0, read_one, {1, 1}, freed, out.mutable_data<float>());
  BOOST_TEST(std::isnan(out.item()));
  const Tensor again = Tensor::empty({1000}, DType::f32, Device::cuda);
  BOOST_TEST(again.data<float>() == freed);
  for (float x : again.to_vector<float>()) BOOST_TEST(std::isnan(x));
}

BOOST_AUTO_TEST_CASE(kept_memory_is_bounded_and_given_back_where_there_is_too_little) {
  release_cache(Device::cuda);
  for (std::int64_t mebibytes = 1; mebibytes <= 6; ++mebibytes) address_of_freed(mebibytes << 20);
  BOOST_TEST(statistics().bytes_cached > 0u);
  const Tensor most = of_bytes(std::int64_t{60} << 20);  // does not fit beside what is kept
  BOOST_TEST(message_of([] { of_bytes(std::int64_t{8} << 20); }).find("cuda: out of memory: asked for 8.0 MiB") == 0u);
  BOOST_TEST(of_bytes(1 << 20).defined());
  release_cache(Device::cuda);
  BOOST_TEST(statistics().bytes_cached == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
