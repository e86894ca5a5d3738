/// Comparing tensors and errors.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "tensor/tensor.h"

namespace fovea::test {

inline double largest_difference(const Tensor& a, const Tensor& b) {
  BOOST_REQUIRE_MESSAGE(a.shape() == b.shape(), a.describe() << " against " << b.describe());
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double difference = std::abs(x[i] - y[i]);
    largest = difference <= largest ? largest : difference;  // a NaN stays
  }
  return largest;
}

/// What an Error says; "" if none is thrown.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace fovea::test
