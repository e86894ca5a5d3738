// Every method at any scale of its states: logits of thousands, in f32 and with products rounded to bf16.
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

constexpr std::int64_t T = 70;  // from 65 queries and keys on, the fused engine rounds products in bf16

struct Way {
  const char* name;
  AttentionEngine engine;
  DType dtype;
  Precision precision = Precision::f32;
};

/// The sizes of an attention. In bf16 the CPU rounds the operands of a matrix product that is not one of a batch, and
/// whose three sizes are at least 16, as the fused engine does with more than 64 queries and keys: so that plain
/// operations round as much, the attention has one sentence and one head.
struct Sizes {
  std::int64_t B, heads, d;
};
Sizes sizes_for(Precision precision) { return precision == Precision::bf16 ? Sizes{1, 1, 16} : Sizes{2, 2, 6}; }

std::unique_ptr<Attention> attention_of(const std::string& specification, Place place, const Sizes& sizes) {
  auto attention = attention_factory(specification)(
      {.model_dim = sizes.d, .heads = static_cast<int>(sizes.heads), .layer = 0, .layers = 2, .place = place});
  attention->to(DType::f64);
  Generator generator(3);
  for (auto& parameter : attention->parameters())
    parameter.variable.value().copy_from(random_tensor(parameter.variable.shape(), generator));
  attention->train(false);
  return attention;
}

/// The output and the gradients of states and parameters; empty if the engine cannot compute the method.
std::vector<Tensor> results(const std::string& specification, Place place, double scale, const Way& way,
                            const Sizes& sizes) try {
  AttentionEngineScope chosen(way.engine, 18);  // the last block has at least 16 queries: its products are rounded
  const auto attention = attention_of(specification, place, sizes);
  attention->to(way.dtype);
  Generator generator(41);
  auto states = [&](std::int64_t rows) {
    return Variable(random_tensor({sizes.B, rows, sizes.d}, generator, -scale, scale).to(way.dtype), true);
  };
  const Variable key = states(T), query = place == Place::cross ? states(T + 2) : key;
  std::vector<Variable> leaves{key};
  if (place == Place::cross) leaves.push_back(query);
  for (auto& parameter : attention->parameters()) leaves.push_back(parameter.variable);
  struct Rounding {
    explicit Rounding(Precision precision) { set_matmul_precision(precision); }
    ~Rounding() { set_matmul_precision(Precision::f32); }
  } rounding(way.precision);
  const Variable out =
      attention->forward({.query = query,
                          .key = key,
                          .value = key,
                          .key_lengths = Tensor::from(std::vector<std::int32_t>{66, T}, {2}).slice(0, 0, sizes.B),
                          .mask = test_mask(query.size(1), T).slice(1, 0, sizes.heads),
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

/// Checks that no engine errs more than ten times as much as plain operations in the same precision, plus `least` of
/// the norm of the results, for every method, place and scale: the rule of PyTorch's tests of fused attention. The
/// exact results are those of plain operations in f64.
void check_errors(Precision precision, double least) {
  const Sizes sizes = sizes_for(precision);
  int compared = 0;
  for (const std::string& specification : methods_and_choices())
    for (Place place : all_places())
      for (double scale : {1.0, 100.0, 1000.0}) {
        const auto exact = results(specification, place, scale, {"f64", AttentionEngine::composed, DType::f64}, sizes);
        if (exact.empty()) continue;
        const Way eager{"plain operations", AttentionEngine::composed, DType::f32, precision};
        const auto plain = results(specification, place, scale, eager, sizes);
        double largest = 0;  // of the gradients
        for (std::size_t k = 1; k < exact.size(); ++k) largest = std::max(largest, norm(exact[k]));
        for (const Way& way : {Way{"composed", AttentionEngine::composed, DType::f32, precision},
                               Way{"blockwise", AttentionEngine::blockwise, DType::f32, precision},
                               Way{"fused", AttentionEngine::fused, DType::f32, precision}}) {
          const auto found = results(specification, place, scale, way, sizes);
          for (std::size_t k = 0; k < found.size(); ++k, ++compared) {
            const double error = distance(found[k], exact[k]), usual = distance(plain[k], exact[k]);
            const double bound = 10 * usual + least * (k == 0 ? norm(exact[0]) : largest);
            BOOST_TEST((is_finite(found[k]) && error <= bound),
                       specification << " in place " << static_cast<int>(place) << " at scale " << scale << ", "
                                     << way.name << ": tensor " << k << " errs by " << error << ", plain operations by "
                                     << usual << ", norm " << norm(exact[k]));
          }
        }
      }
  BOOST_TEST(compared > 2000);
}

// At a scale of 1 000 most rows have one weight of 1, and the error of a logit in f32 is no longer small. The engines
// may err about as much as plain operations in the same precision do, not more.
BOOST_AUTO_TEST_CASE(engines_err_in_f32_as_much_as_plain_operations) { check_errors(Precision::f32, 1e-5); }

BOOST_AUTO_TEST_CASE(engines_err_in_bf16_as_much_as_plain_operations) { check_errors(Precision::bf16, 2e-3); }

// exp(89) does not fit f32, and weights that need not sum to 1 have no maximum to subtract.
BOOST_AUTO_TEST_CASE(densities_of_large_logits_are_finite_and_equal_in_every_engine) {
  const Sizes sizes = sizes_for(Precision::f32);
  auto found = [&](const char* specification, AttentionEngine engine, DType dtype) {
    AttentionEngineScope chosen(engine, 2);
    const auto attention = attention_of(specification, Place::encoder, sizes);
    Generator generator(43);
    const Variable x(random_tensor({2, 9, sizes.d}, generator).to(dtype), true);
    for (auto& parameter : attention->parameters())
      if (parameter.name.find("t5") != std::string::npos)
        parameter.variable.value().copy_from(random_tensor(parameter.variable.shape(), generator, -300, 300));
    attention->to(dtype);
    std::vector<Variable> leaves{x};
    for (auto& parameter : attention->parameters()) leaves.push_back(parameter.variable);
    const Variable out = attention->forward({.query = x, .key = x, .value = x});
    std::vector<Tensor> all{out.value()};
    for (const Variable& gradient : grad(out, leaves, random_tensor(out.shape(), generator).to(dtype)))
      all.push_back(gradient.value());
    return all;
  };
  for (const char* specification : {"laplace+t5(buckets=4,max_distance=3)", "gaussian_location(learned=true)+t5+t5",
                                    "heads(laplace(learned=true)*1, global*1)+t5"}) {
    const auto exact = found(specification, AttentionEngine::composed, DType::f64);
    double largest = 0;  // of the gradients
    for (std::size_t k = 1; k < exact.size(); ++k) largest = std::max(largest, norm(exact[k]));
    for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fused})
      for (DType dtype : {DType::f32, DType::f64}) {
        const auto own = found(specification, engine, dtype);
        for (std::size_t k = 0; k < own.size(); ++k)
          BOOST_TEST((is_finite(own[k]) && distance(own[k], exact[k]) <= 1e-4 * (k == 0 ? norm(exact[0]) : largest)),
                     specification << ", engine " << static_cast<int>(engine) << ", " << name(dtype) << ": tensor " << k
                                   << " errs by " << distance(own[k], exact[k]) << ", norm " << norm(exact[k]));
      }
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
      const Variable x(random_tensor({1, 5, 6}, generator).to(dtype), true);
      const Variable out = attention->forward({.query = x, .key = x, .value = x});
      BOOST_TEST(is_finite(out.value()));
      std::vector<Variable> leaves{x};
      for (auto& parameter : attention->parameters()) leaves.push_back(parameter.variable);
      for (const Variable& gradient : grad(sum(square(out)), leaves)) BOOST_TEST(is_finite(gradient.value()));
    }
}

BOOST_AUTO_TEST_SUITE_END()
