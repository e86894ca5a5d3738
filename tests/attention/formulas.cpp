// For every pointwise formula of the registry, the recorded expressions and the source text generated from them compute
// what the functor computes.
#include <cmath>
#include <limits>
#include <map>

#include <boost/test/unit_test.hpp>

#include "attention/engine/cpu/interpreted.h"
#include "attention/language/formula_text.h"
#include "tests/attention/all_formulas.h"
#include "tests/compiled_library.h"
#include "tests/device.h"

using namespace fovea;
using namespace fovea::test;

namespace {

/// Computes an expression step by step.
template <class T>
std::vector<T> evaluate(const Expression& expression, const std::vector<T>& x) {
  std::vector<T> value;
  for (const Expression::Step& step : expression.steps) {
    const auto& operands = step.operands;
    auto of = [&](int n) { return value[static_cast<std::size_t>(operands[static_cast<std::size_t>(n)])]; };
    auto a = [&] { return of(0); };
    auto b = [&] { return of(1); };
    auto compute = [&]() -> T {
      switch (step.operation) {
        case Operation::input:
          return x[static_cast<std::size_t>(operands[0])];
        case Operation::constant:
          return static_cast<T>(expression.constants[static_cast<std::size_t>(operands[0])]);
        case Operation::add:
          return a() + b();
        case Operation::subtract:
          return a() - b();
        case Operation::multiply:
          return a() * b();
        case Operation::divide:
          return a() / b();
        case Operation::negate:
          return -a();
        case Operation::less:
          return a() < b();
        case Operation::less_equal:
          return a() <= b();
        case Operation::equal:
          return a() == b();
        case Operation::not_equal:
          return a() != b();
        case Operation::logical_and:
          return a() != 0 && b() != 0;
        case Operation::logical_or:
          return a() != 0 || b() != 0;
        case Operation::logical_not:
          return a() == 0;
        case Operation::select:
          return a() != 0 ? b() : of(2);
        case Operation::larger:
          return fovea::larger_of(a(), b());
        case Operation::smaller:
          return fovea::smaller_of(a(), b());
        case Operation::abs:
          return fovea::abs(a());
        case Operation::exp:
          return fovea::exp(a());
        case Operation::log:
          return fovea::log(a());
        case Operation::log1p:
          return fovea::log1p(a());
        case Operation::sqrt:
          return fovea::sqrt(a());
        case Operation::floor:
          return fovea::floor(a());
        case Operation::tanh:
          return fovea::tanh(a());
        case Operation::sigmoid:
          return fovea::sigmoid(a());
        case Operation::softplus:
          return fovea::softplus(a());
        case Operation::erf:
          return fovea::erf(a());
        case Operation::sin:
          return fovea::sin(a());
        case Operation::cos:
          return fovea::cos(a());
      }
      return 0;
    };
    value.push_back(compute());
  }
  std::vector<T> results;
  for (int result : expression.results) results.push_back(value[static_cast<std::size_t>(result)]);
  return results;
}

/// Inputs of a formula: random numbers; in half of the cases, one of them is infinite, NaN or 0.
template <class T>
std::vector<std::vector<T>> many_inputs(int inputs) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const std::vector<T> special{infinity, -infinity, std::numeric_limits<T>::quiet_NaN(), T(0)};
  Generator generator(11);
  const std::vector<double> random = random_tensor({200, inputs}, generator, -3, 3).to_vector<double>();
  std::vector<std::vector<T>> cases;
  for (std::size_t k = 0; k < 200; ++k) {
    std::vector<T> x;
    for (int n = 0; n < inputs; ++n)
      x.push_back(static_cast<T>(random[k * static_cast<std::size_t>(inputs) + static_cast<std::size_t>(n)]));
    if (k % 2) x[k / 2 % x.size()] = special[k / 2 / x.size() % special.size()];
    cases.push_back(x);
  }
  return cases;
}

/// Whether a gradient by reverse mode is that of dual numbers, the functor's. Infinite numbers may be multiplied into
/// each term of a sum or into the sum, which gives an infinity or NaN; and where the branch of a select that is not
/// taken is NaN, nothing comes back from it in reverse mode.
template <class T>
bool same_gradient(T incoming, T got, T functors) {
  if (!std::isfinite(incoming)) return true;
  if (!std::isfinite(functors)) return !std::isfinite(got) || (std::isnan(functors) && got == 0);
  return alike(got, functors);
}

/// Compares the value and all gradients of a formula with what `value` and `gradients` return for the same inputs.
/// These take {z, query position, key position, captures...} and {gradient, z, ...}.
template <class T, class Value, class Gradients>
void check_against_functor(const PointwiseFormula& formula, const Value& value, const Gradients& gradients) {
  const PointwiseKernels<T>& kernels = formula.kernels<T>();
  for (const std::vector<T>& x : many_inputs<T>(4 + formula.captures())) {
    const std::vector<T> own(x.begin() + 1, x.end());
    const T expected = kernels.value(formula.functor(), own.data());
    const std::vector<T> got = value(own);
    BOOST_TEST(alike(got[0], expected), "value " << got[0] << ", the functor has " << expected);
    std::vector<T> expected_gradients(1 + static_cast<std::size_t>(formula.captures()));
    kernels.gradients(formula.functor(), x[0], own.data(), expected_gradients.data());
    const std::vector<T> got_gradients = gradients(x);
    BOOST_REQUIRE_EQUAL(got_gradients.size(), expected_gradients.size());
    for (std::size_t k = 0; k < got_gradients.size(); ++k)
      BOOST_TEST(same_gradient(x[0], got_gradients[k], expected_gradients[k]),
                 "gradient " << k << " is " << got_gradients[k] << ", the functor has " << expected_gradients[k]);
  }
}

/// The generated text of all formulas.
std::string text_of(const std::map<std::string, PointwiseFormula>& formulas) {
  std::string text = "#include \"tensor/formula/math.h\"\nnamespace fovea {\n";
  int number = 0;
  for (const auto& [key, formula] : formulas) {
    text += source_of(formula.value(), fmt::format("value_{}", number));
    text += source_of(formula.gradients(), fmt::format("gradients_{}", number));
    for (const char* type : {"float", "double"})
      for (const char* form : {"value", "gradients"})
        text += fmt::format(
            "extern \"C\" void {0}_{1}_{2}(const {1}* x, const {1}* constant, {1}* y) {{ {0}_{2}(x, constant, y); }}\n",
            form, type, number);
    ++number;
  }
  return text + "}\n";
}

/// Calls a function of the library that is compiled from text_of().
template <class T>
std::vector<T> call(const CompiledLibrary& library, const char* form, int number, const Expression& expression,
                    const std::vector<T>& x) {
  auto* function = library.function<void(const T*, const T*, T*)>(
      fmt::format("{}_{}_{}", form, std::is_same_v<T, float> ? "float" : "double", number));
  const std::vector<T> constants(expression.constants.begin(), expression.constants.end());
  std::vector<T> y(expression.results.size());
  function(x.data(), constants.data(), y.data());
  return y;
}

struct Scaled {
  static constexpr const char* name = "scaled";
  double factor;
  auto operator()(auto z, auto, auto by) const {
    using S = typename ScalarOf<decltype(z)>::type;
    return z * decltype(z)(S(factor)) + by;
  }
};

struct TimesZero {
  static constexpr const char* name = "times_zero";
  auto operator()(auto z, auto, auto unused) const { return z * decltype(z)(0) + decltype(z)(1) + unused - unused; }
};

/// sqrt of the positive numbers: the branch that is not taken has an infinite derivative at 0.
struct RootOfPositive {
  static constexpr const char* name = "root_of_positive";
  auto operator()(auto z, auto, auto x) const {
    using T = decltype(z);
    return z * select(x <= T(0), T(1), sqrt(x) / x + log(x));
  }
};

struct Ignores {
  static constexpr const char* name = "ignores";
  auto operator()(auto z, auto, auto) const { return z; }
};

/// Compares forward() and backward() of a formula on rows with value() and gradients() of single pairs. Rows have
/// several lengths, some longer than a block of vectors.
template <class T>
void check_rows(const PointwiseFormula& formula, std::size_t captures, bool per_key) {
  constexpr std::int64_t count = 3, stride = 700, query_position = 2;
  const std::int64_t first[] = {0, 3, 130}, end[] = {1, 20, 690};
  const PairRows<T> rows{count, stride, first, end, query_position};
  Generator generator(23);
  auto random = [&](std::int64_t n) {
    return random_tensor({n}, generator, 0.2, 2).to(dtype_of<T>).template to_vector<T>();
  };
  const std::int64_t of_row = per_key ? stride : 1;
  const std::vector<T> from = random(count * stride), given = random(count * stride);
  const std::vector<T> numbers = random(static_cast<std::int64_t>(captures) * count * of_row);
  std::vector<T> to(from.size()), gradient = given, capture_gradients(numbers.size(), T(0)),
                                  expected_captures = capture_gradients;
  std::vector<CaptureRow<T>> captured;
  for (std::size_t k = 0; k < captures * count; ++k)
    captured.push_back(
        {&numbers[k * static_cast<std::size_t>(of_row)], &capture_gradients[k * static_cast<std::size_t>(of_row)]});
  const PointwiseKernels<T>& kernels = formula.kernels<T>();
  kernels.forward(formula.functor(), rows, from.data(), to.data(), captured.data());
  kernels.backward(formula.functor(), rows, from.data(), gradient.data(), captured.data());
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t j = first[r]; j < end[r]; ++j) {
      const auto at = static_cast<std::size_t>(r * stride + j);
      std::vector<T> x{from[at], static_cast<T>(query_position + r), static_cast<T>(j)}, expected(1 + captures);
      auto index = [&](std::size_t k) {
        return (k * count + static_cast<std::size_t>(r)) * static_cast<std::size_t>(of_row) +
               static_cast<std::size_t>(per_key ? j : 0);
      };
      for (std::size_t k = 0; k < captures; ++k) x.push_back(numbers[index(k)]);
      const T value = kernels.value(formula.functor(), x.data());
      kernels.gradients(formula.functor(), given[at], x.data(), expected.data());
      if (!alike(to[at], value) || !alike(gradient[at], expected[0]))
        BOOST_ERROR("row " << r << ", key " << j << ": " << to[at] << " " << gradient[at] << ", alone " << value << " "
                           << expected[0]);
      for (std::size_t k = 0; k < captures; ++k) expected_captures[index(k)] += expected[1 + k];
    }
  for (std::size_t k = 0; k < expected_captures.size(); ++k)
    if (!(std::abs(capture_gradients[k] - expected_captures[k]) <=
          (sizeof(T) == 4 ? 1e-3 : 1e-10) * (1 + std::abs(expected_captures[k]))))
      BOOST_ERROR("gradient of a capture: " << capture_gradients[k] << ", expected " << expected_captures[k]);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(formulas)

BOOST_AUTO_TEST_CASE(recorded_expressions_compute_what_the_functors_compute) {
  const auto formulas = all_formulas();
  BOOST_TEST(formulas.size() >= 12u);
  for (const auto& named : formulas) BOOST_TEST_CONTEXT(named.first) {
      const PointwiseFormula& formula = named.second;
      const Expression value = formula.value(), gradients = formula.gradients();
      BOOST_TEST(value.results.size() == 1u);
      auto check = [&]<class T>(T) {
        check_against_functor<T>(
            formula, [&](const std::vector<T>& x) { return evaluate(value, x); },
            [&](const std::vector<T>& x) { return evaluate(gradients, x); });
      };
      check(float());
      check(double());
    }
}

BOOST_AUTO_TEST_CASE(reverse_mode_gives_the_derivatives_of_dual_numbers) {
  for (const PointwiseFormula& formula : {pointwise_formula<EveryOperation, Per::key>(EveryOperation{}),
                                          pointwise_formula<RootOfPositive, Per::query>(RootOfPositive{})})
    BOOST_TEST_CONTEXT(formula.name()) {
      const Expression value = formula.value(), gradients = formula.gradients();
      check_against_functor<double>(
          formula, [&](const std::vector<double>& x) { return evaluate(value, x); },
          [&](const std::vector<double>& x) { return evaluate(gradients, x); });
      for (double tie : {0.0, -0.75, 1.25}) {  // z = x
        const std::vector<double> x{tie, 0, 0, tie}, incoming{0.5, tie, 0, 0, tie};
        std::vector<double> expected(2);
        formula.kernels<double>().gradients(formula.functor(), 0.5, x.data(), expected.data());
        const std::vector<double> got = evaluate(gradients, incoming);
        for (std::size_t k = 0; k < 2; ++k) {
          BOOST_TEST(std::isfinite(got[k]));
          BOOST_TEST(alike(got[k], expected[k]), tie << ": " << got[k] << ", dual numbers have " << expected[k]);
        }
      }
    }
}

/// The interpreter of the CPU, one number at a time and on rows, against the functor as it was compiled.
BOOST_AUTO_TEST_CASE(interpreted_formulas_compute_what_the_functors_compute) {
  auto check = [&](const PointwiseFormula& formula) {
    const auto captures = static_cast<std::size_t>(formula.captures());
    for (bool per_key : {false, true}) {
      const PointwiseFormula interpreted = interpreted_formula(formula.value(), std::vector<bool>(captures, per_key));
      BOOST_TEST(interpreted.captures() == formula.captures());
      auto of_type = [&]<class T>(T) {
        const PointwiseKernels<T>& kernels = interpreted.kernels<T>();
        check_against_functor<T>(
            formula,
            [&](const std::vector<T>& x) { return std::vector<T>{kernels.value(interpreted.functor(), x.data())}; },
            [&](const std::vector<T>& x) {
              std::vector<T> gradients(1 + captures);
              kernels.gradients(interpreted.functor(), x[0], x.data() + 1, gradients.data());
              return gradients;
            });
        check_rows<T>(interpreted, captures, per_key);
      };
      of_type(float());
      of_type(double());
    }
  };
  for (const auto& named : all_formulas()) BOOST_TEST_CONTEXT(named.first) check(named.second);
}

BOOST_AUTO_TEST_CASE(equal_texts_are_one_formula_and_others_are_not) {
  auto identity = [](const char* text, bool per_key) {
    std::string key;
    interpreted_formula(parse_formula(text, {"a"}).expression, {per_key}).append_identity(key);
    return key;
  };
  BOOST_TEST(identity("z + 2 * a", true) == identity("(z + 2*a)", true));
  BOOST_TEST(identity("z + 2 * a", true) != identity("z + 3 * a", true));
  BOOST_TEST(identity("z + 2 * a", true) != identity("z - 2 * a", true));
  BOOST_TEST(identity("z + 2 * a", true) != identity("z + 2 * a", false));
}

BOOST_AUTO_TEST_CASE(text_is_read_as_python_reads_it) {
  const std::vector<double> x{0.7, 3, 5, -1.25};  // z, i, j, a
  const double z = x[0], j = x[2], a = x[3];
  auto of = [&](const char* text) { return evaluate(parse_formula(text, {"a"}).expression, x)[0]; };
  BOOST_TEST(of("z - a - 1") == z - a - 1);
  BOOST_TEST(of("z / a / 2 * j") == z / a / 2 * j);
  BOOST_TEST(of("-a ** 2 + z") == -(a * a) + z);
  BOOST_TEST(of("2 * -a * z") == 2 * -a * z);
  BOOST_TEST(of("z + a ** 3 ") == z + a * a * a);
  BOOST_TEST(of("1e-1*z+.5*a") == 1e-1 * z + .5 * a);
  BOOST_TEST(of("z + 1e-999 * a") == z);
  BOOST_TEST(of("where(a < 0 or i > j and z > 1, z, 2)") == z);
  BOOST_TEST(of("where(not a < 0 or (i != 3), z, 2)") == 2);
  BOOST_TEST(of("where(not not (a<0), minimum(z, a), maximum(z, i))") == a);
  BOOST_TEST(of("z * tanh( abs(a) ) - log1p(softplus(j))") == z * std::tanh(-a) - std::log1p(std::log1p(std::exp(j))),
             boost::test_tools::tolerance(1e-14));
}

/// The generated text is the source code for a device's compiler.
BOOST_AUTO_TEST_CASE(the_generated_text_computes_what_the_functors_compute, *cpu_only()) {
  const auto formulas = all_formulas();
  const CompiledLibrary compiled(text_of(formulas));
  int number = 0;
  for (const auto& named : formulas) BOOST_TEST_CONTEXT(named.first) {
      const PointwiseFormula& formula = named.second;
      const Expression value = formula.value(), gradients = formula.gradients();
      auto check = [&]<class T>(T) {
        check_against_functor<T>(
            formula, [&](const std::vector<T>& x) { return call(compiled, "value", number, value, x); },
            [&](const std::vector<T>& x) { return call(compiled, "gradients", number, gradients, x); });
      };
      check(float());
      check(double());
      ++number;
    }
}

/// The numbers in a method's options are arguments of the generated text, so one text serves all values.
BOOST_AUTO_TEST_CASE(one_generated_text_serves_all_values_of_an_option) {
  const auto a = pointwise_formula<Scaled, Per::key>(Scaled{2.5}), b = pointwise_formula<Scaled, Per::key>(Scaled{-7});
  BOOST_TEST(source_of(a.value(), "f") == source_of(b.value(), "f"));
  BOOST_TEST(source_of(a.gradients(), "f") == source_of(b.gradients(), "f"));
  BOOST_TEST(a.value().constants == std::vector<double>{2.5}, boost::test_tools::per_element());
  BOOST_TEST(b.value().constants == std::vector<double>{-7}, boost::test_tools::per_element());
}

/// A product with a value that happens to be 0 is kept, because x · 0 is NaN for an infinite x. A derivative that is 0
/// for all inputs is left out.
BOOST_AUTO_TEST_CASE(derivatives_that_are_always_0_are_left_out_and_other_zeros_are_kept) {
  const auto formula = pointwise_formula<TimesZero, Per::query>(TimesZero{});
  constexpr double infinity = std::numeric_limits<double>::infinity();
  BOOST_TEST(std::isnan(evaluate(formula.value(), std::vector<double>{infinity, 0, 0, 1})[0]));
  const auto ignores = pointwise_formula<Ignores, Per::query>(Ignores{});
  const auto gradients = evaluate(ignores.gradients(), std::vector<double>{infinity, 2, 0, 0, 3});
  BOOST_TEST(gradients[0] == infinity);
  BOOST_TEST(gradients[1] == 0.0);
}

BOOST_AUTO_TEST_SUITE_END()
