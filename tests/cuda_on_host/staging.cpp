// The pinned memory that uploads go through, on the host that runs CUDA kernels: its copies read the memory when they
// run, so a block that is used again too early shows as a wrong value.
#include <boost/test/unit_test.hpp>

#include "cuda/stream.h"
#include "tensor/kernels.h"
#include "tests/cuda_on_host/runtime.h"

using namespace fovea;

namespace {

std::vector<Tensor> upload_numbers(int count, std::int64_t n) {
  std::vector<Tensor> all;
  for (int k = 0; k < count; ++k) all.push_back(Tensor::full({n}, k).to(Device::cuda));
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(staging)

BOOST_AUTO_TEST_CASE(blocks_are_used_again_when_their_copies_are_done_and_not_before) {
  release_cache(Device::cuda);
  const std::size_t before = cuda_on_host::pinned_bytes();
  std::vector<Tensor> first = upload_numbers(5, 1000);
  const std::size_t under_way = cuda_on_host::pinned_bytes();
  BOOST_TEST(under_way == before + 5 * 4096);
  cuda::wait_for_stream("test");
  std::vector<Tensor> second = upload_numbers(5, 1001);
  BOOST_TEST(cuda_on_host::pinned_bytes() == under_way);
  for (int k = 0; k < 5; ++k) {
    BOOST_TEST((first[k].to_vector<float>() == std::vector<float>(1000, static_cast<float>(k))));
    BOOST_TEST((second[k].to_vector<float>() == std::vector<float>(1001, static_cast<float>(k))));
  }
  release_cache(Device::cuda);
  BOOST_TEST(cuda_on_host::pinned_bytes() == before);
}

BOOST_AUTO_TEST_CASE(more_than_the_most_pinned_memory_waits_and_keeps_its_values) {
  release_cache(Device::cuda);
  const std::int64_t n = std::int64_t{160} << 20;  // bytes; seven of them are more than 1 GiB
  const std::uint64_t before = kernels(Device::cuda).synchronizations();
  std::vector<Tensor> all;
  for (int k = 0; k < 7; ++k) all.push_back(Tensor::full({n}, k, DType::u8).to(Device::cuda));
  BOOST_TEST(kernels(Device::cuda).synchronizations() == before + 1);
  BOOST_TEST(cuda_on_host::pinned_bytes() <= (std::size_t{1} << 30) + (std::size_t{1} << 20));
  for (int k = 0; k < 7; ++k) {
    const auto values = all[static_cast<std::size_t>(k)].to_vector<std::uint8_t>();
    BOOST_TEST(std::count(values.begin(), values.end(), k) == n);
    all[static_cast<std::size_t>(k)] = Tensor();
  }
  release_cache(Device::cuda);
}

BOOST_AUTO_TEST_SUITE_END()
