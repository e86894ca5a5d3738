// Copies between the host and a device: values, layouts, and which of them the host waits for.
#include <boost/test/unit_test.hpp>

#include "tests/several_threads.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

/// Returns how often the host waited for the tested device while `run` ran.
template <class Run>
std::uint64_t waits_in(const Run& run) {
  const std::uint64_t before = kernels(test_device()).synchronizations();
  run();
  return kernels(test_device()).synchronizations() - before;
}

Tensor host_numbers(std::int64_t n, std::int64_t start) { return Tensor::arange(n, DType::f32, Device::cpu, start); }

}  // namespace

BOOST_AUTO_TEST_SUITE(between_devices)

BOOST_AUTO_TEST_CASE(an_upload_does_not_wait_and_survives_changes_of_its_source, *not_on_the_cpu()) {
  for (std::int64_t n : {1, 3, 17, 130, 40000, 3000001}) {  // the last goes in pieces
    Tensor source = host_numbers(n, 5), there, again = Tensor::empty({n}, DType::f32, test_device());
    const std::uint64_t waits = waits_in([&] {
      there = source.to(test_device());
      source.fill(-1);
      again.copy_from(source);
      source.fill(-2);
      source = Tensor();
    });
    BOOST_TEST(waits == 0u);
    BOOST_TEST((there.to_vector<float>() == host_numbers(n, 5).to_vector<float>()), n << " elements");
    BOOST_TEST((again.to_vector<float>() == std::vector<float>(static_cast<std::size_t>(n), -1.f)), n << " elements");
  }
}

BOOST_AUTO_TEST_CASE(many_uploads_in_a_row_keep_their_values_without_a_wait, *not_on_the_cpu()) {
  std::vector<Tensor> there;
  Tensor source = Tensor::empty({17}, DType::i64);
  const std::uint64_t waits = waits_in([&] {
    for (int k = 0; k < 200; ++k) {
      source.fill(k);
      there.push_back(source.to(test_device()));
    }
  });
  BOOST_TEST(waits == 0u);
  for (int k = 0; k < 200; ++k) BOOST_TEST((there[k].to_vector<std::int64_t>() == std::vector<std::int64_t>(17, k)));
}

BOOST_AUTO_TEST_CASE(several_threads_copy_and_compute_at_once, *not_on_the_cpu()) {
  constexpr int threads = 4, rounds = 40;
  const std::size_t held = allocator_statistics(test_device()).bytes_in_use;
  std::vector<int> wrong(threads, 0);
  const std::vector<std::string> errors = test::run_on_threads(threads, [&](int thread) {
    for (int round = 0; round < rounds; ++round) {
      std::vector<Tensor> there;
      for (int k = 0; k < 5; ++k) there.push_back(host_numbers(3 + 40 * k + thread, 1000 * thread + round));
      for (Tensor& x : there) x = x.to(test_device());
      for (int k = 0; k < 5; ++k)
        wrong[static_cast<std::size_t>(thread)] +=
            there[k].clone().to(Device::cpu).to_vector<float>() !=
            host_numbers(there[k].elements(), 1000 * thread + round).to_vector<float>();
    }
  });
  for (const std::string& error : errors) BOOST_TEST(error == "");
  BOOST_TEST((wrong == std::vector<int>(threads, 0)));
  BOOST_TEST(allocator_statistics(test_device()).bytes_in_use == held);
}

BOOST_AUTO_TEST_CASE(a_download_waits_once, *not_on_the_cpu()) {
  Tensor there = host_numbers(130, 1).to(test_device());
  BOOST_TEST(waits_in([&] { there.to(Device::cpu); }) == 1u);
  BOOST_TEST(waits_in([&] { host_numbers(130, 0).copy_from(there); }) == 1u);
  BOOST_TEST(waits_in([&] { there.slice(0, 3, 4).item(); }) == 1u);
}

BOOST_AUTO_TEST_CASE(copies_within_a_device_do_not_wait, *not_on_the_cpu()) {
  Tensor x = host_numbers(6 * 17, 1).to(test_device()).reshape({6, 17}), all = Tensor::empty_like(x);
  const std::uint64_t waits = waits_in([&] {
    x.clone();
    x.transpose(0, 1).contiguous();
    x.to(DType::bf16).to(DType::i64);
    all.copy_from(x.select(0, 2));
    all.slice(1, 1, 17).copy_from(all.slice(1, 0, 16));  // the views overlap
  });
  BOOST_TEST(waits == 0u);
}

BOOST_AUTO_TEST_CASE(copies_between_devices_cast_broadcast_and_permute) {
  Tensor source = host_numbers(3 * 17, 1).reshape({3, 17});
  Tensor there = Tensor::zeros({2, 17, 5}, DType::f64, test_device());
  Tensor columns = there.slice(2, 1, 4).transpose(1, 2);  // [2, 3, 17]
  columns.copy_from(source);
  for (int batch : {0, 1})
    BOOST_TEST((columns.select(0, batch).contiguous().to(DType::f32).to_vector<float>() == source.to_vector<float>()));
  BOOST_TEST((there.select(2, 0).contiguous().to_vector<double>() == std::vector<double>(2 * 17)));
  Tensor back = Tensor::zeros({17, 3}, DType::i32);
  back.copy_from(columns.select(0, 1).transpose(0, 1));
  BOOST_TEST((back.transpose(0, 1).contiguous().to(DType::f32).to_vector<float>() == source.to_vector<float>()));
}

BOOST_AUTO_TEST_SUITE_END()
