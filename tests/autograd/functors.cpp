// Every element-wise formula of the list: first and second derivatives, shapes, memory layouts. A functor that joins
// the list is tested with no test written.
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "autograd/gradcheck.h"
#include "autograd/operations.h"
#include "tensor/formula/functor_list.h"
#include "tests/autograd/random_inputs.h"

using namespace fovea;
using namespace fovea::test;

namespace {

/// Runs a claim on every functor of the list, with its number of inputs.
struct EveryFunctor {
  std::function<void(const char* name, int inputs, const DifferentiableFunction&)> claim;

  template <class F, int n>
  void visit() {
    claim(F::name, n, [](const std::vector<Variable>& x) { return call<F>(x, std::make_index_sequence<n>{}); });
  }
  template <class F, std::size_t... k>
  static Variable call(const std::vector<Variable>& x, std::index_sequence<k...>) {
    return map(F{}, x[k]...);
  }
};

void for_every_functor(std::function<void(const char*, int, const DifferentiableFunction&)> claim) {
  EveryFunctor every{std::move(claim)};
  for_functors<0>(every, ElementwiseFunctors{});
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
        Tensor wide = Tensor::zeros({17, 13, 2}, DType::f64);
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

BOOST_AUTO_TEST_CASE(a_third_derivative_says_so) {
  Variable x = random_input({3}, 4, 0.5, 1.0);
  Variable first = grad(sum(exp(x)), {x}, {}, {.create_graph = true})[0];
  Variable second = grad(sum(first), {x}, {}, {.create_graph = true})[0];
  BOOST_CHECK_EXCEPTION(grad(sum(second), {x}), Error, [](const Error& error) {
    return std::string(error.what()) == "exp: element-wise functions are differentiated twice, not three times";
  });
}

BOOST_AUTO_TEST_SUITE_END()
