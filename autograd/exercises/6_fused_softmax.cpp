// Exercise 6: a fused softmax.                                     Before it: attention/README.md, the fused engine.
//
// Attention of one query is a softmax of scores and a mean of values:
//
//   m = max_j s_j,   l = sum_j exp(s_j - m),   o = (1 / l) sum_j exp(s_j - m) v_j
//
// Computed like this, the scores are read three times and must all be kept. The fused form (Milakov and Gimelshein
// 2018, "Online normalizer calculation for softmax") reads each key once and keeps three things: the maximum m so far,
// and with respect to it the total l and the sum o. When key j has a larger score than all before, what was summed so
// far was computed with a maximum that is too small; one factor corrects it:
//
//   m_new = max(m, s_j)
//   l_new = l exp(m - m_new) + exp(s_j - m_new)
//   o_new = o exp(m - m_new) + exp(s_j - m_new) v_j
//
// In the beginning m = -inf, l = 0 and o = 0. A key that is masked has s_j = -inf. Beware of -inf - (-inf), which is
// NaN: a masked key changes nothing.
//
// Write: the step for one key.
//
// The check compares with softmax() and matmul() for scores up to 1000, with masked keys at the beginning, and for a
// query without any key, whose output is 0.
#include <algorithm>
#include <limits>

#include "check.h"
#include "tensor/comparison.h"

using namespace fovea;
using namespace fovea::exercises;

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Running {
  double maximum = -infinity, total = 0;
  std::vector<double> sum;  ///< o, one number for each dimension of the values
};

// ---- your code begins
/// Takes in a key with this score and value.
void add_key(Running& running, double score, const double* value) {
  running.maximum = std::max(running.maximum, score);
  running.total += std::exp(score);
  for (std::size_t d = 0; d < running.sum.size(); ++d) running.sum[d] += std::exp(score) * value[d];
}
// ---- your code ends

/// scores [n, keys], values [keys, d] -> [n, d]
Tensor fused(const Tensor& scores, const Tensor& values) {
  Tensor out = Tensor::empty({scores.size(0), values.size(1)}, DType::f64);
  double* o = out.mutable_data<double>();
  for (std::int64_t i = 0; i < scores.size(0); ++i) {
    Running running{.sum = std::vector<double>(static_cast<std::size_t>(values.size(1)))};
    for (std::int64_t j = 0; j < scores.size(1); ++j)
      add_key(running, scores.data<double>()[i * scores.size(1) + j], values.data<double>() + j * values.size(1));
    for (double x : running.sum) *o++ = running.total == 0 ? 0 : x / running.total;
  }
  return out;
}

void check() {
  const Tensor values = random_leaf({6, 2}, 1).value();
  auto compare = [&](const std::string& which, const Tensor& scores) {
    const Tensor allow = greater(scores, Tensor::full({}, -infinity, DType::f64));
    expect("the output for " + which, fused(scores, values), matmul(softmax(Variable(scores), allow), values).value());
  };
  compare("small scores", random_leaf({3, 6}, 2).value());
  compare("scores up to 1000", random_leaf({3, 6}, 3, -1000, 1000).value());
  Tensor masked = random_leaf({3, 6}, 4).value();
  for (int j : {0, 1, 3, 6, 12, 13, 14, 15, 16, 17}) masked.mutable_data<double>()[j] = -infinity;
  compare("masked keys", masked);
}

int main() { return run(check); }
