// The GPU's counters, memory and errors, on the host that runs CUDA kernels.
#include <functional>
#include <thread>

#include <boost/test/unit_test.hpp>

#include "tensor/comparison.h"
#include "tensor/gather.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"
#include "tensor/map.h"
#include "tensor/random.h"
#include "tensor/reduce.h"
#include "tensor/softmax.h"
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
  softmax(x).to(Device::cpu).to(Device::cuda);
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
