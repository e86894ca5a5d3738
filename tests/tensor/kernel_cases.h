// Functions that the tests of kernels share: random tensors in awkward layouts, and checks that
// every kernel must pass.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <omp.h>

#include "tensor/kernels.h"
#include "tests/device.h"

namespace fovea {

inline constexpr unsigned test_seed = 20240817;

inline Tensor random_tensor(const Shape& shape, DType dtype = DType::f64, double low = -1, double high = 1,
                            unsigned salt = 0) {
  std::mt19937 random(test_seed + salt * 7919u + static_cast<unsigned>(shape.elements()));
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> values(static_cast<std::size_t>(shape.elements()));
  for (double& value : values) value = uniform(random);
  return here(Tensor::from(values, shape).to(dtype));
}

inline Tensor random_integers(const Shape& shape, std::int64_t end, DType dtype = DType::i64, unsigned salt = 0) {
  std::mt19937 random(test_seed + salt * 104729u + static_cast<unsigned>(shape.elements()));
  std::uniform_int_distribution<std::int64_t> uniform(0, end - 1);
  std::vector<std::int64_t> values(static_cast<std::size_t>(shape.elements()));
  for (std::int64_t& value : values) value = uniform(random);
  return here(Tensor::from(values, shape).to(dtype));
}

/// x with other values: `change` is called with the elements of x in row-major order, in f64.
template <class Change>
Tensor changed(const Tensor& x, Change&& change) {
  std::vector<double> values = x.to_vector<double>();
  change(values);
  return here(Tensor::from(values, x.shape()).to(x.dtype()));
}
/// x with another element at this place in row-major order.
inline Tensor with_element(const Tensor& x, std::int64_t place, double value) {
  return changed(x, [&](std::vector<double>& values) { values[static_cast<std::size_t>(place)] = value; });
}

/// The same values in other places: reversed memory order, gaps between rows, gaps between elements.
inline std::vector<Tensor> layouts(const Tensor& x) {
  std::vector<Tensor> all{x};
  if (x.rank() == 0) return all;
  std::vector<int> backwards;
  for (int d = x.rank() - 1; d >= 0; --d) backwards.push_back(d);
  all.push_back(Tensor::empty(x.shape(), backwards, x.dtype(), x.device()));
  for (int d : {0, x.rank() - 1}) {
    Shape wider = x.shape();
    wider[d] += 3;
    all.push_back(Tensor::full(wider, 1, x.dtype(), x.device()).slice(d, 2, 2 + x.size(d)));
  }
  Shape pairs = x.shape();
  pairs.push_back(2);
  all.push_back(Tensor::full(pairs, 1, x.dtype(), x.device()).select(-1, 1));
  for (std::size_t k = 1; k < all.size(); ++k) all[k].copy_from(x);
  return all;
}

inline double tolerance_of(DType dtype) { return dtype == DType::f64 ? 1e-12 : 2e-6; }

/// |got − expected| ≤ tolerance · (1 + |expected|); equal infinities and two NaNs are equal.
inline void check_close(const Tensor& got, const std::vector<double>& expected, double tolerance,
                        const std::string& what) {
  std::vector<double> values = got.to_vector<double>();
  BOOST_REQUIRE_MESSAGE(values.size() == expected.size(),
                        what << ": " << got.describe() << " has not " << expected.size() << " elements");
  auto same = [&](double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * (1 + std::abs(b));
  };
  std::size_t i = 0;
  while (i < values.size() && same(values[i], expected[i])) ++i;
  if (i < values.size())
    BOOST_FAIL(what << ": element " << i << " of " << got.describe() << " is " << values[i] << ", not " << expected[i]
                    << " (seed " << test_seed << ")");
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  Tensor x = a.to(Device::cpu).contiguous(), y = b.to(Device::cpu).contiguous();
  return x.shape() == y.shape() && x.dtype() == y.dtype() && std::memcmp(x.address(), y.address(), x.bytes()) == 0;
}

/// The results of `compute`, a vector of tensors, are the same bits with one thread and with several. On CUDA, where
/// the host's threads do not matter, they are the same bits a second time.
template <class Compute>
void check_threads_do_not_matter(Compute&& compute) {
  int before = omp_get_max_threads();
  omp_set_num_threads(1);
  std::vector<Tensor> alone = compute();
  for (int threads : by_device(std::vector{2, 3, 7}, std::vector{1})) {
    omp_set_num_threads(threads);
    std::vector<Tensor> together = compute();
    for (std::size_t k = 0; k < alone.size(); ++k)
      BOOST_TEST(same_bits(alone[k], together[k]), "result " << k << " differs with " << threads << " threads");
  }
  omp_set_num_threads(before);
}

/// After a first call, `compute` asks the system for no memory. CUDA's stand-in on the host keeps no blocks, so that
/// freed memory is found out: there, nothing but the calls is tested.
template <class Compute>
void check_steady(Compute&& compute) {
  compute();
  auto before = allocator_statistics(test_device()).system_allocations;
  for (int k = 0; k < 3; ++k) compute();
  if (test_device() == Device::cpu) BOOST_TEST(allocator_statistics().system_allocations == before);
}

/// `act` throws an Error whose message contains `text`.
template <class Act>
void check_fails_with(Act&& act, const std::string& text) {
  try {
    act();
    BOOST_ERROR("no error; expected '" << text << "'");
  } catch (const Error& error) {
    BOOST_TEST(std::string(error.what()).find(text) != std::string::npos,
               "'" << error.what() << "' does not contain '" << text << "'");
  }
}

}  // namespace fovea
