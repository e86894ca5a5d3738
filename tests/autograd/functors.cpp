// Every element-wise formula of the list: first and second derivatives, shapes, memory layouts. A functor that joins
// the list is tested with no test written.
#include "tensor/formula/functors.h"

#include <cmath>
#include <limits>

#include <boost/test/unit_test.hpp>

#include "autograd/gradcheck.h"
#include "autograd/map.h"
#include "autograd/operations.h"
#include "tensor/formula/functor_list.h"
#include "tests/autograd/random_inputs.h"

using namespace fovea;
using namespace fovea::test;

namespace {

template <class F, std::size_t... k>
Variable call(const std::vector<Variable>& x, std::index_sequence<k...>) {
  return map(F{}, x[k]...);
}

/// Calls claim(name, number of inputs, function) for every functor of the list.
template <class Claim>
void for_every_functor(const Claim& claim) {
  for_functors<0>(ElementwiseFunctors{}, [&]<class F, int n>(TypedFunctor<F, n>) {
    claim(F::name, n, [](const std::vector<Variable>& x) { return call<F>(x, std::make_index_sequence<n>{}); });
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(functors)

BOOST_AUTO_TEST_CASE(first_and_second_derivatives_are_right) {
  for_every_functor([](const char* name, int inputs, const DifferentiableFunction& f) {
    BOOST_TEST_CONTEXT(name) {
      // Positive, away from kinks and from each other: every formula is smooth there.
      std::vector<Variable> x;
      for (int k = 0; k < inputs; ++k) x.push_back(random_input({3, 5}, 20 + k, 0.4 + k, 1.2 + k));
      BOOST_TEST(gradcheck(f, x) == "");
      BOOST_TEST(gradgradcheck(f, x) == "");
    }
  });
}

BOOST_AUTO_TEST_CASE(derivatives_at_negative_arguments_too) {
  for_every_functor([](const char* name, int inputs, const DifferentiableFunction& f) {
    std::string formula = name;
    if (formula == "log" || formula == "sqrt") return;
    BOOST_TEST_CONTEXT(name) {
      std::vector<Variable> x;
      for (int k = 0; k < inputs; ++k) x.push_back(random_input({17}, 40 + k, -2.4 - k, -1.3 - k));
      BOOST_TEST(gradcheck(f, x) == "");
    }
  });
}

BOOST_AUTO_TEST_CASE(broadcast_inputs_get_summed_gradients) {
  for_every_functor([](const char* name, int inputs, const DifferentiableFunction& f) {
    if (inputs < 2) return;
    BOOST_TEST_CONTEXT(name) {
      std::vector<Variable> x{random_input({2, 3, 4}, 1, 0.4, 1.2), random_input({3, 1}, 2, 1.4, 2.2)};
      for (int k = 2; k < inputs; ++k) x.push_back(random_input({1, 4}, 1 + k, 1.0 + k, 1.5 + k));
      BOOST_TEST(gradcheck(f, x) == "");
    }
  });
}

BOOST_AUTO_TEST_CASE(layout_does_not_change_a_result) {
  for_every_functor([](const char* name, int inputs, const DifferentiableFunction& f) {
    BOOST_TEST_CONTEXT(name) {
      std::vector<Variable> plain, strided;
      for (int k = 0; k < inputs; ++k) {
        Tensor x = random_input({13, 17}, 60 + k, 0.4 + k, 1.2 + k).value();
        plain.emplace_back(x);
        Tensor wide = here(Tensor::zeros({17, 13, 2}, DType::f64));
        wide.select(2, 1).copy_from(x.transpose(0, 1));
        strided.emplace_back(wide.select(2, 1).transpose(0, 1));
      }
      BOOST_TEST(f(plain).value().to_vector<double>() == f(strided).value().to_vector<double>(),
                 boost::test_tools::per_element());
    }
  });
}

BOOST_AUTO_TEST_CASE(f32_agrees_with_f64) {
  for_every_functor([](const char* name, int inputs, const DifferentiableFunction& f) {
    BOOST_TEST_CONTEXT(name) {
      std::vector<Variable> wide, narrow;
      for (int k = 0; k < inputs; ++k) {
        narrow.emplace_back(random_input({130}, 80 + k, 0.4 + k, 1.2 + k).value().to(DType::f32));
        wide.emplace_back(narrow.back().value().to(DType::f64));
      }
      std::vector<double> exact = f(wide).value().to_vector<double>();
      std::vector<float> rounded = f(narrow).value().to_vector<float>();
      for (std::size_t e = 0; e < exact.size(); ++e)
        BOOST_TEST(std::abs(rounded[e] - exact[e]) <= 2e-6 * (1 + std::abs(exact[e])));
    }
  });
}

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

/// 2 x² + 3 x + 1, with constants on both sides of every product.
struct Polynomial {
  static constexpr const char* name = "polynomial";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T x) const {
    return T(2) * x * x + x * T(3) + T(1);
  }
};

/// −2 ((position − center) / width)²: the Gaussian bias of Yang et al. 2018, eq. 4, with sigma = width / 2.
struct GaussianLogit {
  static constexpr const char* name = "gaussian_logit";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T position, T center, T width) const {
    T distance = (position - center) / width;
    return T(-2) * distance * distance;
  }
};

struct DerivativeCase {
  DifferentiableFunction f;
  std::vector<double> at, first;    ///< the inputs, and the gradient of each
  std::vector<double> second = {};  ///< the gradients of the sum of the gradients
};

template <class F, std::size_t... k>
DifferentiableFunction mapped(std::index_sequence<k...>) {
  return [](const std::vector<Variable>& x) { return map(F{}, x[k]...); };
}
template <class F>
DifferentiableFunction mapped() {
  return mapped<F>(std::make_index_sequence<arity<F>>{});
}

std::vector<DerivativeCase> cases_at_infinity() {
  std::vector<DerivativeCase> cases;
  auto both = [&](const DifferentiableFunction& a, const DifferentiableFunction& b, const DerivativeCase& expected) {
    for (const DifferentiableFunction& f : {a, b}) cases.push_back({f, expected.at, expected.first, expected.second});
  };
  using Inputs = std::vector<Variable>;
  for (double x : {inf, -inf}) {
    both(mapped<Multiply>(), [](const Inputs& v) { return v[0] * v[1]; }, {{}, {x, 3}, {3, x}, {1, 1}});
    both(mapped<Multiply>(), [](const Inputs& v) { return v[0] * v[1]; }, {{}, {3, x}, {x, 3}, {1, 1}});
    both(mapped<Add>(), [](const Inputs& v) { return v[0] + v[1]; }, {{}, {x, 3}, {1, 1}});
    both(mapped<Subtract>(), [](const Inputs& v) { return v[0] - v[1]; }, {{}, {x, x}, {1, -1}});
    both(mapped<Divide>(), [](const Inputs& v) { return v[0] / v[1]; }, {{}, {x, 2}, {0.5, -x}, {-0.25, x}});
    both(mapped<Divide>(), [](const Inputs& v) { return v[0] / v[1]; }, {{}, {2, x}, {0, 0}, {0, 0}});
    both(mapped<Affine>(), [](const Inputs& v) { return affine(v[0], 1, 0); }, {{}, {x}, {1}});
    cases.push_back({mapped<Square>(), {x}, {2 * x}, {2}});
    cases.push_back({mapped<GaussianLogit>(), {x, 1, 2}, {-x, x, inf}});
    cases.push_back({mapped<BiasRelu>(), {x, 1}, {x > 0 ? 1.0 : 0.0, x > 0 ? 1.0 : 0.0}, {0, 0}});
    cases.push_back({mapped<Maximum>(), {x, 1}, {x > 0 ? 1.0 : 0.0, x > 0 ? 0.0 : 1.0}, {0, 0}});
    cases.push_back({mapped<Polynomial>(), {x}, {4 * x}, {4}});
    cases.push_back({mapped<Gelu>(), {x}, {x > 0 ? 1.0 : 0.0}, {0}});
    cases.push_back({mapped<Erf>(), {x}, {0}, {0}});
  }
  cases.push_back({mapped<Multiply>(), {nan, 3}, {3, nan}, {1, 1}});
  cases.push_back({mapped<Polynomial>(), {nan}, {nan}, {4}});
  return cases;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_constant_has_no_derivative_even_beside_infinity) {
  for (DType dtype : {DType::f64, DType::f32})
    for (std::int64_t size : {1, 35}) {  // in part of a vector, and in whole ones
      int number = 0;
      for (const DerivativeCase& c : cases_at_infinity()) {
        BOOST_TEST_CONTEXT(name(dtype) << ", case " << number++) {
          std::vector<Variable> x;
          for (double value : c.at) x.emplace_back(here(Tensor::full({size}, value, dtype)), true);
          Variable y = c.f(x);
          Variable ones(here(Tensor::full({size}, 1, dtype)));
          Gradients first = grad(y, x, ones, {.create_graph = true}), plain = grad(y, x, ones, {.retain_graph = true});
          for (std::size_t k = 0; k < x.size(); ++k)
            for (const Variable& gradient : {first[k], plain[k]})
              for (double value : gradient.value().to_vector<double>())
                BOOST_TEST(same(value, c.first[k]), "input " << k << ": " << value << ", not " << c.first[k]);
          if (c.second.empty()) continue;
          Variable total = first[0];
          for (std::size_t k = 1; k < x.size(); ++k) total = total + first[k];
          Gradients second = grad(total, x, ones);
          for (std::size_t k = 0; k < x.size(); ++k)
            for (double value : second[k].value().to_vector<double>())
              BOOST_TEST(same(value, c.second[k]), "second, input " << k << ": " << value << ", not " << c.second[k]);
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(a_zero_cotangent_gives_a_zero_gradient_however_steep_the_formula) {
  for_every_functor([](const char* name, int inputs, const DifferentiableFunction& f) {
    for (DType dtype : {DType::f64, DType::f32})
      for (double at : {0.0, -0.0, inf, -inf, nan, -1.0}) {
        BOOST_TEST_CONTEXT(name << " at " << at) {
          std::vector<Variable> x;
          for (int k = 0; k < inputs; ++k) x.emplace_back(here(Tensor::full({19}, at, dtype)), true);
          Variable cotangent(here(Tensor::zeros({19}, dtype)), true), y = f(x);
          Gradients first = grad(y, x, cotangent, {.create_graph = true}), plain = grad(y, x, cotangent);
          for (const Gradients& gradients : {first, plain})
            for (const Variable& gradient : gradients)
              BOOST_TEST(gradient.value().to_vector<double>() == std::vector<double>(19, 0),
                         boost::test_tools::per_element());
          // The gradient is a multiple of its cotangent, which is 0, wherever x lies.
          for (const Variable& gradient : first)
            for (double next : {0.0, 1.5}) {
              if (!gradient.requires_grad()) continue;
              const Variable above(here(Tensor::full({19}, next, dtype)));
              for (const Variable& second : grad(gradient, x, above, {.retain_graph = true}))
                BOOST_TEST(second.value().to_vector<double>() == std::vector<double>(19, 0),
                           boost::test_tools::per_element());
            }
        }
      }
  });
}

BOOST_AUTO_TEST_CASE(a_zero_cotangent_gives_a_zero_gradient_behind_a_factor_of_infinity) {
  Variable x = random_input({19}, 1);
  Tensor cotangent = random_input({19}, 2).value().clone();
  cotangent.slice(0, 3, 19).fill(0);
  for (const Variable& y : {x * inf, x * -inf, x * nan, x / 0.0, x / nan}) {
    const std::vector<double> found = grad(y, {x}, Variable(cotangent))[0].value().to_vector<double>();
    BOOST_TEST(std::count(found.begin(), found.end(), 0.0) == 16);
    for (std::size_t k = 0; k < 3; ++k) BOOST_TEST(!std::isfinite(found[k]));
  }
  Variable small(x.value().to(DType::f32), true);
  const Variable none(here(Tensor::zeros({19})));
  for (double each : grad(small * 1e39, {small}, none)[0].value().to_vector<double>()) BOOST_TEST(each == 0);
}

BOOST_AUTO_TEST_CASE(a_quotient_by_a_number_is_rounded_once) {
  for (double divisor : {3.0, 49.0, 1e-310, -3e-320, 1e308}) {
    std::vector<double> above = random_input({19}, 1).value().to_vector<double>(), expected;
    for (double& a : above) a *= std::min(1e300, std::abs(divisor));
    for (double a : above) expected.push_back(a / divisor);
    const Variable x(here(Tensor::from(above, {19})));
    BOOST_TEST((x / divisor).value().to_vector<double>() == expected, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(the_gradient_of_a_zero_cotangent_is_the_slope) {
  for (const DifferentiableFunction& f : {mapped<Multiply>(), mapped<Divide>(), mapped<Polynomial>()}) {
    std::vector<Variable> x{random_input({19}, 1, 0.4, 1.2), random_input({19}, 2, 1.4, 2.2)};
    Variable cotangent(here(Tensor::zeros({19}, DType::f64)), true), ones(here(Tensor::full({19}, 1, DType::f64))),
        y = f(x);
    Variable gradient = grad(y, {x[0]}, cotangent, {.create_graph = true})[0];
    BOOST_TEST(grad(gradient, {cotangent}, ones)[0].value().to_vector<double>() ==
                   grad(f(x), {x[0]}, ones)[0].value().to_vector<double>(),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_product_is_differentiated_any_number_of_times) {
  for (bool by_name : {false, true}) {
    Variable x(here(Tensor::of({2}, {1})), true), y = x;
    for (int power = 2; power <= 4; ++power) y = by_name ? map(Multiply{}, y, x) : y * x;
    for (int order = 1; order <= 4; ++order) y = grad(y, {x}, {}, {.create_graph = true})[0];
    BOOST_TEST(y.item() == 24);
  }
}

BOOST_AUTO_TEST_CASE(a_quotient_is_differentiated_three_times_also_where_a_gradient_is_0) {
  for (const double above : {0.0, 0.75}) {  // (a / b)^2; its derivative with respect to a, b and a is -4 / b^3
    Variable a(here(Tensor::of({above}, {1})), true), b(here(Tensor::of({2}, {1})), true);
    Variable y = (a / b) * (a / b);
    for (const Variable& x : {a, b, a}) y = grad(y, {x}, {}, {.create_graph = true})[0];
    BOOST_TEST(y.item() == -0.5);
  }
}

BOOST_AUTO_TEST_CASE(a_third_derivative_says_so) {
  Variable x = random_input({3}, 4, 0.5, 1.0);
  Variable first = grad(sum(exp(x)), {x}, {}, {.create_graph = true})[0];
  Variable second = grad(sum(first), {x}, {}, {.create_graph = true})[0];
  BOOST_CHECK_EXCEPTION(grad(sum(second), {x}), Error, [](const Error& error) {
    return std::string(error.what()) == "exp: element-wise functions are differentiated twice, not three times";
  });
}

BOOST_AUTO_TEST_SUITE_END()
