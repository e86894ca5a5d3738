// The GPU's counters, memory and errors, on the host that runs CUDA kernels.
#include <thread>

#include <boost/test/unit_test.hpp>

#include "tensor/kernels.h"
#include "tensor/softmax.h"
#include "tests/cuda_on_host/runtime.h"
#include "tests/refusal.h"

using namespace fovea;

namespace {

std::uint64_t launches_of(const std::string& kernel) {
  for (const LaunchCount& count : kernels(Device::cuda).launches())
    if (count.kernel == kernel) return count.launches;
  return 0;
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
