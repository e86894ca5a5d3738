// Every method at any scale of its states: logits of thousands, and products rounded to bf16.
#include <cmath>
#include <numeric>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "autograd/operations.h"
#include "tensor/gemm.h"
#include "tests/attention/attentions.h"

using namespace fovea;
using namespace fovea::test;

namespace {

constexpr std::int64_t B = 2, T = 70, d = 6;  // from 65 queries and keys on, products are rounded in bf16

struct Way {
  const char* name;
  AttentionEngine engine;
  DType dtype;
  Precision precision = Precision::f32;
};

/// The output and the gradients of states and parameters; empty if the engine cannot compute the method.
std::vector<Tensor> results(const std::string& specification, Place place, double scale, const Way& way) try {
  AttentionEngineScope chosen(way.engine, 16);
  const auto attention = random_attention(specification, place);
  attention->to(way.dtype);
  Generator generator(41);
  auto states = [&](std::int64_t rows) {
    return Variable(random_tensor({B, rows, d}, generator, -scale, scale).to(way.dtype), true);
  };
  const Variable key = states(T), query = place == Place::cross ? states(T - 3) : key;
  std::vector<Variable> leaves{key};
  if (place == Place::cross) leaves.push_back(query);
  for (auto& parameter : attention->parameters()) leaves.push_back(parameter.variable);
  struct Rounding {
    explicit Rounding(Precision precision) { set_matmul_precision(precision); }
    ~Rounding() { set_matmul_precision(Precision::f32); }
  } rounding(way.precision);
  const Variable out = attention->forward({.query = query,
                                           .key = key,
                                           .value = key,
                                           .key_lengths = Tensor::from(std::vector<std::int32_t>{T, 66}, {B}),
                                           .mask = test_mask(query.size(1), T),
                                           .causal = place == Place::decoder});
  std::vector<Tensor> found{out.value()};
  for (const Variable& gradient : grad(out, leaves, random_tensor(out.shape(), generator).to(way.dtype)))
    found.push_back(gradient.value());
  return found;
} catch (const Error&) {
  return {};
}

double distance(const Tensor& x, const Tensor& y) {
  const std::vector<double> a = x.to_vector<double>(), b = y.to_vector<double>();
  return std::sqrt(std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                                      [](double p, double q) { return (p - q) * (p - q); }));
}
double norm(const Tensor& x) { return distance(x, Tensor::zeros(x.shape(), x.dtype())); }
bool is_finite(const Tensor& x) {
  const std::vector<double> numbers = x.to_vector<double>();
  return std::all_of(numbers.begin(), numbers.end(), [](double number) { return std::isfinite(number); });
}

std::vector<std::string> methods_and_choices() {
  std::vector<std::string> specifications;
  for (const MethodEntry& entry : registered_methods())
    for (std::string& specification : specifications_of(entry)) specifications.push_back(std::move(specification));
  return specifications;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(scales)

// At a scale of 1 000 most rows have one weight of 1, and the error of a logit in f32 is no longer small. The engines
// may err about as much as plain operations in f32 do, not more.
BOOST_AUTO_TEST_CASE(engines_err_in_f32_as_much_as_plain_operations) {
  int compared = 0;
  for (const std::string& specification : methods_and_choices())
    for (Place place : all_places())
      for (double scale : {1.0, 100.0, 1000.0}) {
        const auto exact = results(specification, place, scale, {"f64", AttentionEngine::composed, DType::f64});
        if (exact.empty()) continue;
        const auto plain = results(specification, place, scale, {"f32", AttentionEngine::composed, DType::f32});
        double largest = 0;  // of the gradients
        for (std::size_t k = 1; k < exact.size(); ++k) largest = std::max(largest, norm(exact[k]));
        for (const Way& way : {Way{"blockwise", AttentionEngine::blockwise, DType::f32},
                               Way{"fused", AttentionEngine::fused, DType::f32}}) {
          const auto found = results(specification, place, scale, way);
          for (std::size_t k = 0; k < found.size(); ++k, ++compared) {
            const double error = distance(found[k], exact[k]), usual = distance(plain[k], exact[k]);
            const double least = 1e-5 * (k == 0 ? norm(exact[0]) : largest);
            BOOST_TEST(error <= 10 * usual + least, specification << " in place " << static_cast<int>(place)
                                                                  << " at scale " << scale << ", " << way.name
                                                                  << ": tensor " << k << " errs by " << error
                                                                  << ", plain operations by " << usual);
          }
        }
      }
  BOOST_TEST(compared > 1000);
}

BOOST_AUTO_TEST_CASE(every_engine_is_finite_in_bf16_at_every_scale) {
  for (const std::string& specification : methods_and_choices())
    for (Place place : all_places())
      for (double scale : {1.0, 100.0, 1000.0})
        for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fused}) {
          const auto found = results(specification, place, scale, {"bf16", engine, DType::f32, Precision::bf16});
          for (std::size_t k = 0; k < found.size(); ++k)
            BOOST_TEST(is_finite(found[k]), specification << " in place " << static_cast<int>(place) << " at scale "
                                                          << scale << ", engine " << static_cast<int>(engine)
                                                          << ": tensor " << k << " is not finite");
        }
}

// λ = exp(λ_q1 · λ_k1) − exp(λ_q2 · λ_k2) + λ_init has no bound, but a head's norm hides how large it is.
BOOST_AUTO_TEST_CASE(differential_is_finite_however_large_its_factor) {
  for (DType dtype : {DType::f32, DType::f64})
    for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise}) {
      AttentionEngineScope chosen(engine);
      const auto attention = random_attention("differential", Place::encoder);
      attention->to(dtype);
      for (auto& parameter : attention->parameters())
        if (parameter.name.find("lambda_q1") != std::string::npos ||
            parameter.name.find("lambda_k1") != std::string::npos)
          parameter.variable.value().fill(30);  // an exponent of 2 700
      Generator generator(42);
      const Variable x(random_tensor({1, 5, d}, generator).to(dtype), true);
      const Variable out = attention->forward({.query = x, .key = x, .value = x});
      BOOST_TEST(is_finite(out.value()));
      std::vector<Variable> leaves{x};
      for (auto& parameter : attention->parameters()) leaves.push_back(parameter.variable);
      for (const Variable& gradient : grad(sum(square(out)), leaves)) BOOST_TEST(is_finite(gradient.value()));
    }
}

BOOST_AUTO_TEST_SUITE_END()
