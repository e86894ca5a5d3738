// Methods compared with loops over numbers that are written from the equations in the papers, on two sentences of seven
// and four words.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "attention/layers/multi_head.h"
#include "tests/attention/attentions.h"

using namespace fovea;
using namespace fovea::test;

namespace {

constexpr std::int64_t B = 2, H = 2, T = 7, D = 3, d = 6;
constexpr std::int64_t lengths[B]{7, 4};

/// The tensors of a call as plain numbers: states [B, T, d]; queries, keys and values [B, H, T, D]; and the library's
/// results, the weights [B, H, T, T] and the heads' outputs [B, H, T, D].
struct Numbers {
  std::vector<double> x, q, k, v, weights, outputs;
  std::map<std::string, std::vector<double>> parameters;
  bool causal;

  static std::size_t row(std::int64_t b, std::int64_t h, std::int64_t t) {
    return static_cast<std::size_t>((b * H + h) * T + t);
  }
  /// q_i · k_j / sqrt(D)
  double score(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    double s = 0;
    for (std::int64_t c = 0; c < D; ++c) s += q[row(b, h, i) * D + c] * k[row(b, h, j) * D + c];
    return s / std::sqrt(double(D));
  }
  std::int64_t end(std::int64_t b, std::int64_t i) const { return causal ? std::min(i + 1, lengths[b]) : lengths[b]; }
};

Numbers numbers_of(const std::string& specification, Place place) {
  auto attention = random_attention(specification, place);
  auto* multi_head = dynamic_cast<MultiHeadAttention*>(attention.get());
  BOOST_REQUIRE(multi_head);
  Generator generator(41);
  const Variable x = random_tensor({B, T, d}, generator, -2, 2);
  const bool causal = place == Place::decoder;
  auto [in, plan] = multi_head->call({.query = x,
                                      .key = x,
                                      .value = x,
                                      .key_lengths = Tensor::from(std::vector<std::int32_t>{7, 4}, {2}),
                                      .causal = causal});
  AttentionTrace trace;
  const Variable out = attend(in, plan, 0, &trace);
  auto values = [](const Variable& y) { return y.value().to_vector<double>(); };
  Numbers n{values(x), values(in.query), values(in.key), values(in.value), values(trace.weights), values(out), {},
            causal};
  for (auto& parameter : attention->parameters()) n.parameters[parameter.name] = values(parameter.variable);
  return n;
}

/// weight(b, h, i) is a row of weights [T], of keys that the query sees.
using Row = std::function<std::vector<double>(std::int64_t b, std::int64_t h, std::int64_t i)>;

/// Checks that the weights equal those of the loops, and the outputs Σ_j w_ij v_j.
void check_weights(const Numbers& n, const Row& weights) {
  double wrong = 0;
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t i = 0; i < T; ++i) {
        std::vector<double> w = weights(b, h, i);
        w.resize(T, 0);
        for (std::int64_t j = 0; j < T; ++j)
          wrong = std::max(wrong, std::abs(w[j] - n.weights[Numbers::row(b, h, i) * T + j]));
        for (std::int64_t c = 0; c < D; ++c) {
          double o = 0;
          for (std::int64_t j = 0; j < T; ++j) o += w[j] * n.v[Numbers::row(b, h, j) * D + c];
          wrong = std::max(wrong, std::abs(o - n.outputs[Numbers::row(b, h, i) * D + c]));
        }
      }
  BOOST_TEST(wrong < 1e-12);
}

std::vector<double> softmax_of(std::vector<double> z) {
  double total = 0;
  for (double& x : z) total += x = std::exp(x);
  for (double& x : z) x /= total;
  return z;
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

BOOST_AUTO_TEST_SUITE(plain_loops)

BOOST_AUTO_TEST_CASE(forgetting_multiplies_a_weight_by_the_gates_after_its_key) {
  Numbers n = numbers_of("forgetting", Place::decoder);
  const std::vector<double>&w = n.parameters["forgetting.gate.weight"], &bias = n.parameters["forgetting.gate.bias"];
  check_weights(n, [&](auto b, auto h, auto i) {
    std::vector<double> z;
    for (std::int64_t j = 0; j < n.end(b, i); ++j) {
      double product = 1;
      for (std::int64_t l = j + 1; l <= i; ++l) {
        double logit = bias[h];
        for (std::int64_t c = 0; c < d; ++c) logit += n.x[(b * T + l) * d + c] * w[c * H + h];
        product *= sigmoid_of(logit);
      }
      z.push_back(n.score(b, h, i, j) + std::log(product));
    }
    return softmax_of(z);
  });
}

BOOST_AUTO_TEST_CASE(cope_counts_the_open_gates) {
  for (std::int64_t longest : {1, 2, 3, 9}) {
    Numbers n = numbers_of(fmt::format("cope(longest={})", longest), Place::decoder);
    const std::vector<double>& table = n.parameters["cope.table"];
    check_weights(n, [&](auto b, auto h, auto i) {
      std::vector<double> z;
      for (std::int64_t j = 0; j < n.end(b, i); ++j) {
        double p = 0;
        for (std::int64_t k = j; k < n.end(b, i); ++k) p += sigmoid_of(n.score(b, h, i, k));
        p = std::min(p, double(longest));
        double below = std::floor(p), above = std::ceil(p), product = 0;
        for (std::int64_t c = 0; c < D; ++c) {
          const double e =
              (1 - (p - below)) * table[std::int64_t(below) * D + c] + (p - below) * table[std::int64_t(above) * D + c];
          product += n.q[Numbers::row(b, h, i) * D + c] * e;
        }
        z.push_back(n.score(b, h, i, j) + product);
      }
      return softmax_of(z);
    });
  }
}

BOOST_AUTO_TEST_CASE(persistent_vectors_take_part_as_keys_and_values) {
  constexpr std::int64_t N = 4;
  for (Place place : {Place::encoder, Place::decoder}) {
    Numbers n = numbers_of("persistent(vectors=4)", place);
    const std::vector<double>&keys = n.parameters["persistent.keys"], &values = n.parameters["persistent.values"];
    double wrong = 0;
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t h = 0; h < H; ++h)
        for (std::int64_t i = 0; i < T; ++i) {
          std::vector<double> z;
          for (std::int64_t j = 0; j < n.end(b, i); ++j) z.push_back(n.score(b, h, i, j));
          for (std::int64_t m = 0; m < N; ++m) {  // q · sqrt(D) K / sqrt(D)
            z.push_back(0);
            for (std::int64_t c = 0; c < D; ++c)
              z.back() += n.q[Numbers::row(b, h, i) * D + c] * keys[(h * N + m) * D + c];
          }
          const std::vector<double> a = softmax_of(z);
          for (std::int64_t c = 0; c < D; ++c) {
            double o = 0;
            for (std::int64_t j = 0; j < n.end(b, i); ++j) o += a[j] * n.v[Numbers::row(b, h, j) * D + c];
            for (std::int64_t m = 0; m < N; ++m) o += a[n.end(b, i) + m] * 2 * values[(h * N + m) * D + c];
            wrong = std::max(wrong, std::abs(o - n.outputs[Numbers::row(b, h, i) * D + c]));
          }
          for (std::int64_t j = 0; j < n.end(b, i); ++j)
            wrong = std::max(wrong, std::abs(a[j] - n.weights[Numbers::row(b, h, i) * T + j]));
        }
    BOOST_TEST(wrong < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(a_light_convolution_weighs_the_neighbours) {
  for (Place place : {Place::encoder, Place::decoder})
    for (std::int64_t width : {1, 2, 3, 4, 9})
      for (bool dynamic : {false, true}) {
        Numbers n = numbers_of(fmt::format("light_convolution(width={},dynamic={})", width, dynamic), place);
        const std::vector<double>&fixed = n.parameters["light_convolution.weight"],
              &filter = n.parameters["light_convolution.filter.weight"];
        const std::int64_t left = n.causal ? width - 1 : (width - 1) / 2;
        check_weights(n, [&](auto b, auto h, auto i) {
          std::vector<double> c(width, 0), w(T, 0);
          for (std::int64_t r = 0; r < width; ++r)
            if (dynamic)
              for (std::int64_t e = 0; e < d; ++e)
                c[r] += n.x[(b * T + i) * d + e] * filter[e * H * width + h * width + r];
            else
              c[r] = fixed[h * width + r];
          c = softmax_of(c);
          for (std::int64_t r = 0; r < width; ++r)
            if (const std::int64_t j = i + r - left; 0 <= j && j < n.end(b, i)) w[j] = c[r];
          return w;
        });
      }
}

BOOST_AUTO_TEST_CASE(linear_attention_multiplies_feature_maps) {
  auto feature = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
  for (Place place : {Place::encoder, Place::decoder}) {
    Numbers n = numbers_of("linear", place);
    check_weights(n, [&](auto b, auto h, auto i) {
      std::vector<double> w;
      double total = 0;
      for (std::int64_t j = 0; j < n.end(b, i); ++j) {
        w.push_back(0);
        for (std::int64_t c = 0; c < D; ++c)
          w.back() += feature(n.q[Numbers::row(b, h, i) * D + c]) * feature(n.k[Numbers::row(b, h, j) * D + c]);
        total += w.back();
      }
      for (double& x : w) x /= total;
      return w;
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
