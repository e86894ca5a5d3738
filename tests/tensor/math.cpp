// The mathematics that formulas are made of, on the CPU: numbers and its vectors.
#include "tensor/formula/math.h"

#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include <math.h>

#include "tensor/cpu/simd.h"
#include "tensor/formula/functor_list.h"
#include "tensor/formula/functors.h"
#include "tensor/formula/gpu_math.h"
#include "tests/tensor/kernel_cases.h"

namespace fovea {

using RealTypes = std::tuple<float, double>;

/// |got − wanted| in units of the last place that T has at `wanted`; 0 where both are NaN or the same infinity.
template <class T>
static double error_in_ulp(T got, long double wanted) {
  T rounded = static_cast<T>(wanted);
  if (std::isnan(rounded) || std::isinf(rounded) || std::isnan(got) || std::isinf(got))
    return (std::isnan(rounded) && std::isnan(got)) || rounded == got ? 0 : 1e9;
  T size = std::max(std::fabs(rounded), std::numeric_limits<T>::min());
  T ulp = std::nextafter(size, std::numeric_limits<T>::infinity()) - size;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - wanted) / static_cast<long double>(ulp));
}

template <class T>
static bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// Numbers of [low, high]: half of them uniform, half with uniform logarithms of their magnitudes.
template <class T>
static std::vector<T> sample(double low, double high, int count = 400000) {
  std::mt19937_64 generator(20170612);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<T> x;
  double largest = std::log(std::max(std::fabs(low), std::fabs(high)));
  double smallest = std::log(low > 0 ? low : static_cast<double>(std::numeric_limits<T>::min()) * 2);
  while (static_cast<int>(x.size()) < count) {
    x.push_back(static_cast<T>(low + (high - low) * uniform(generator)));
    double magnitude = std::exp(smallest + (largest - smallest) * uniform(generator));
    double value = low < 0 && (generator() & 1) ? -magnitude : magnitude;
    if (low <= value && value <= high) x.push_back(static_cast<T>(value));
  }
  x.resize(x.size() / Vec<T>::lanes * Vec<T>::lanes);
  return x;
}

/// Checks that f is within `bound` ulp of the reference on every x, and that every lane equals the scalar bit for bit.
template <class T, class F, class Reference>
static void check_error(const char* name, double bound, const std::vector<T>& x, F f, Reference reference) {
  double worst = 0;
  T where = 0;
  std::size_t lanes_differ = 0;
  for (std::size_t i = 0; i < x.size(); i += Vec<T>::lanes) {
    Vec<T> y = f(Vec<T>::load(&x[i]));
    for (int lane = 0; lane < Vec<T>::lanes; ++lane) {
      T at = x[i + static_cast<std::size_t>(lane)], scalar = f(at);
      lanes_differ += !same_bits(y[lane], scalar) && !(std::isnan(y[lane]) && std::isnan(scalar));
      double error = error_in_ulp(scalar, reference(static_cast<long double>(at)));
      if (error > worst) worst = error, where = at;
    }
  }
  BOOST_TEST(worst < bound, name << ": " << worst << " ulp at " << where << ", promised " << bound);
  BOOST_TEST(lanes_differ == 0u, name << ": lanes differ from scalars");
}

#define FOVEA_FUNCTION(function) [](auto x) { return function(x); }

BOOST_AUTO_TEST_SUITE(math, *cpu_only())

BOOST_AUTO_TEST_CASE_TEMPLATE(errors_are_below_the_stated_bounds, T, RealTypes) {
  using L = long double;
  const bool single = sizeof(T) == 4;
  const double exp_end = single ? 87.3 : 708.3, greatest = static_cast<double>(std::numeric_limits<T>::max());
  const double denormal = static_cast<double>(std::numeric_limits<T>::denorm_min()) * 4;
  auto softplus_reference = [](L x) { return std::max(x, L(0)) + std::log1p(std::exp(-std::fabs(x))); };

  check_error("exp", 1.1, sample<T>(-exp_end, exp_end), FOVEA_FUNCTION(exp), [](L x) { return std::exp(x); });
  check_error("log", 0.9, sample<T>(0.5, 2), FOVEA_FUNCTION(log), [](L x) { return std::log(x); });
  check_error("log", 0.9, sample<T>(denormal, greatest / 2), FOVEA_FUNCTION(log), [](L x) { return std::log(x); });
  check_error("log1p", 1.5, sample<T>(-0.999, 3), FOVEA_FUNCTION(log1p), [](L x) { return std::log1p(x); });
  check_error("log1p", 1.5, sample<T>(1e-6, greatest / 2), FOVEA_FUNCTION(log1p), [](L x) { return std::log1p(x); });
  check_error("tanh", 2.6, sample<T>(-25, 25), FOVEA_FUNCTION(tanh), [](L x) { return std::tanh(x); });
  check_error("tanh", 2.6, sample<T>(-1, 1), FOVEA_FUNCTION(tanh), [](L x) { return std::tanh(x); });
  check_error("sigmoid", 2.6, sample<T>(-exp_end, exp_end), FOVEA_FUNCTION(sigmoid),
              [](L x) { return 1 / (1 + std::exp(-x)); });
  check_error("softplus", 1.8, sample<T>(-exp_end, exp_end), FOVEA_FUNCTION(softplus), softplus_reference);
  check_error("softplus", 1.8, sample<T>(-4, 4), FOVEA_FUNCTION(softplus), softplus_reference);
  check_error("erf", 1.5, sample<T>(-7, 7), FOVEA_FUNCTION(erf), [](L x) { return std::erf(x); });
  check_error("sin", 1.8, sample<T>(-1e4, 1e4), FOVEA_FUNCTION(sin), [](L x) { return std::sin(x); });
  check_error("sin", 1.8, sample<T>(-4, 4), FOVEA_FUNCTION(sin), [](L x) { return std::sin(x); });
  check_error("cos", 1.8, sample<T>(-1e4, 1e4), FOVEA_FUNCTION(cos), [](L x) { return std::cos(x); });
  check_error("cos", 1.8, sample<T>(-4, 4), FOVEA_FUNCTION(cos), [](L x) { return std::cos(x); });
  for (double end : {1e5, 1e9, 1e17, 1e30, greatest / 2}) {  // single numbers of a vector may be small
    check_error("sin", 3, sample<T>(-end, end), FOVEA_FUNCTION(sin), [](L x) { return std::sin(x); });
    check_error("cos", 3, sample<T>(-end, end), FOVEA_FUNCTION(cos), [](L x) { return std::cos(x); });
  }
  check_error("sqrt", 0.501, sample<T>(denormal, greatest), FOVEA_FUNCTION(sqrt), [](L x) { return std::sqrt(x); });
  check_error("floor", 0.1, sample<T>(-1e7, 1e7), FOVEA_FUNCTION(floor), [](L x) { return std::floor(x); });
  check_error("abs", 0.1, sample<T>(-1e7, 1e7), FOVEA_FUNCTION(abs), [](L x) { return std::fabs(x); });
}

/// Checks that a function of gpu_math.h is within `bound` ulp of the reference on every x, where the functions that
/// CUDA has are those of the C library, and divisions are exact.
template <class T, class F, class Reference>
static void check_gpu_error(const char* name, const std::vector<T>& x, F f, Reference reference, double bound = 2) {
  double worst = 0;
  T where = 0;
  for (T at : x)
    if (double error = error_in_ulp(f(at), reference(static_cast<long double>(at))); error > worst)
      worst = error, where = at;
  BOOST_TEST(worst < bound, name << ": " << worst << " ulp at " << where << ", promised " << bound);
}

#define FOVEA_GPU_FUNCTION(function) [](auto x) { return gpu::function(x); }

/// The bounds that cuda/attention/README.md states. CUDA documents the errors of its own functions.
BOOST_AUTO_TEST_CASE_TEMPLATE(what_gpus_make_of_their_functions_is_as_precise_as_stated, T, RealTypes) {
  using L = long double;
  const double end = sizeof(T) == 4 ? 87.3 : 708.3, greatest = static_cast<double>(std::numeric_limits<T>::max());
  const double denormal = static_cast<double>(std::numeric_limits<T>::denorm_min()) * 4;
  auto sigmoid = [](L x) { return 1 / (1 + std::exp(-x)); };
  auto softplus = [](L x) { return std::max(x, L(0)) + std::log1p(std::exp(-std::fabs(x))); };
  for (double most : {4.0, end}) {
    check_gpu_error("sigmoid", sample<T>(-most, most), FOVEA_GPU_FUNCTION(sigmoid), sigmoid, 2.6);
    check_gpu_error("softplus", sample<T>(-most, most), FOVEA_GPU_FUNCTION(softplus), softplus);
    check_gpu_error("exp", sample<T>(-most, most), FOVEA_GPU_FUNCTION(exp), [](L x) { return std::exp(x); });
    check_gpu_error(
        "tanh", sample<T>(-most, most), FOVEA_GPU_FUNCTION(tanh), [](L x) { return std::tanh(x); }, 2.6);
    check_gpu_error("erf", sample<T>(-most, most), FOVEA_GPU_FUNCTION(erf), [](L x) { return std::erf(x); });
    check_gpu_error("sin", sample<T>(-most, most), FOVEA_GPU_FUNCTION(sin), [](L x) { return std::sin(x); });
    check_gpu_error("cos", sample<T>(-most, most), FOVEA_GPU_FUNCTION(cos), [](L x) { return std::cos(x); });
  }
  for (auto [low, high] : {std::pair(0.9, 1.1), std::pair(denormal, greatest / 2)}) {
    check_gpu_error("log", sample<T>(low, high), FOVEA_GPU_FUNCTION(log), [](L x) { return std::log(x); });
    check_gpu_error("sqrt", sample<T>(low, high), FOVEA_GPU_FUNCTION(sqrt), [](L x) { return std::sqrt(x); });
  }
  check_gpu_error("log1p", sample<T>(-0.999, 3), FOVEA_GPU_FUNCTION(log1p), [](L x) { return std::log1p(x); });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(sine_and_cosine_stay_within_one_for_any_argument, T, RealTypes) {
  const T one = 1 + std::numeric_limits<T>::epsilon();
  for (T x : sample<T>(-1e30, 1e30, 20000)) {
    BOOST_REQUIRE_LE(std::fabs(sin(x)), one);
    BOOST_REQUIRE_LE(std::fabs(cos(x)), one);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(special_values_are_right, T, RealTypes) {
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T greatest = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::min();
  const T far = sizeof(T) == 4 ? T(88) : T(709);
  auto check = [&](const char* name, auto f, std::initializer_list<std::pair<T, T>> table) {
    for (auto [x, wanted] : table) {
      Vec<T> lanes = f(Vec<T>(x));
      for (T got : {f(x), lanes[0], lanes[Vec<T>::lanes - 1]})
        BOOST_TEST((std::isnan(wanted) ? std::isnan(got) : same_bits(got, wanted)),
                   name << "(" << x << ") = " << got << ", wanted " << wanted);
    }
  };
  check("exp", FOVEA_FUNCTION(exp),
        {{0, 1},
         {T(-0.0), 1},
         {inf, inf},
         {-inf, 0},
         {nan, nan},
         {far + 1, inf},
         {-far, 0},
         {-greatest, 0},
         {greatest, inf}});
  check("log", FOVEA_FUNCTION(log),
        {{1, 0}, {0, -inf}, {T(-0.0), -inf}, {-least, nan}, {-1, nan}, {-inf, nan}, {inf, inf}, {nan, nan}});
  check("log1p", FOVEA_FUNCTION(log1p),
        {{0, 0}, {-1, -inf}, {T(-1.5), nan}, {-inf, nan}, {inf, inf}, {nan, nan}, {least, least}});
  check("tanh", FOVEA_FUNCTION(tanh),
        {{0, 0}, {T(-0.0), T(-0.0)}, {50, 1}, {-50, -1}, {inf, 1}, {-inf, -1}, {nan, nan}, {least, least}});
  check("sigmoid", FOVEA_FUNCTION(sigmoid), {{0, T(0.5)}, {T(-1e4), 0}, {T(1e4), 1}, {-inf, 0}, {inf, 1}, {nan, nan}});
  check("softplus", FOVEA_FUNCTION(softplus),
        {{T(-1e4), 0}, {T(1e4), T(1e4)}, {-inf, 0}, {inf, inf}, {nan, nan}, {greatest, greatest}});
  check("erf", FOVEA_FUNCTION(erf), {{0, 0}, {T(-0.0), T(-0.0)}, {10, 1}, {-10, -1}, {inf, 1}, {-inf, -1}, {nan, nan}});
  check("sin", FOVEA_FUNCTION(sin), {{0, 0}, {inf, nan}, {-inf, nan}, {nan, nan}});
  check("cos", FOVEA_FUNCTION(cos), {{0, 1}, {inf, nan}, {-inf, nan}, {nan, nan}});
  check("sqrt", FOVEA_FUNCTION(sqrt), {{4, 2}, {0, 0}, {-1, nan}, {inf, inf}, {nan, nan}});
  check("floor", FOVEA_FUNCTION(floor), {{T(-0.5), -1}, {T(2.5), 2}, {inf, inf}, {nan, nan}});
  check("abs", FOVEA_FUNCTION(abs), {{T(-0.0), 0}, {-inf, inf}, {-3, 3}, {nan, nan}});
}

BOOST_AUTO_TEST_CASE_TEMPLATE(every_nan_stays_nan, T, RealTypes) {
  // The payload of a NaN runs through the integer arithmetic too; it must not turn into a number.
  using Bits = std::make_unsigned_t<IntegerOf<T>>;
  std::mt19937_64 generator(3);
  for (int k = 0; k < 2000; ++k) {
    Bits quiet = static_cast<Bits>(generator()) | approximation::bits_of(std::numeric_limits<T>::quiet_NaN());
    T x = approximation::from_bits<T>(quiet);
    for (T y : {exp(x), log(x), log1p(x), tanh(x), sigmoid(x), softplus(x), erf(x), sin(x), cos(x), sqrt(x)})
      BOOST_REQUIRE(std::isnan(y));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(exp_ends_exactly_where_numbers_do, T, RealTypes) {
  using C = approximation::Constants<T>;
  const T inf = std::numeric_limits<T>::infinity();
  BOOST_TEST(std::isfinite(exp(T(C::exp_greatest))));
  BOOST_TEST(exp(std::nextafter(T(C::exp_greatest), inf)) == inf);
  BOOST_TEST(exp(T(C::exp_least)) >= std::numeric_limits<T>::min());
  BOOST_TEST(exp(std::nextafter(T(C::exp_least), -inf)) == T(0));
}

/// Central difference of f along input k against the derivative that duals give, at random points.
template <class F, std::size_t... i>
static void check_derivatives(const F& f, std::index_sequence<i...>) {
  std::mt19937_64 generator(11);
  std::uniform_real_distribution<double> magnitude(0.2, 2.5);
  for (int k = 0; k < static_cast<int>(sizeof...(i)); ++k) {
    for (int trial = 0; trial < 200; ++trial) {
      double x[] = {(static_cast<void>(i), magnitude(generator) * (generator() & 1 ? 1 : -1))...};
      const double h = 1e-5;
      double above = f((x[i] + (int{i} == k ? h : 0))...), below = f((x[i] - (int{i} == k ? h : 0))...);
      if (std::isnan(above) || std::isnan(below)) continue;  // log and sqrt of negative numbers
      double wanted = (above - below) / (2 * h), got = differentiated(f, k)(1.0, x[i]...);
      BOOST_TEST(std::fabs(got - wanted) <= 1e-7 * (1 + std::fabs(wanted)) * (1 + std::fabs(above)),
                 F::name << ", order " << derivative_order<F> + 1 << ", input " << k << " at " << x[0] << ": " << got
                         << ", differences give " << wanted);
    }
    if constexpr (derivative_order<F> == 0)
      check_derivatives(differentiated(f, k), std::make_index_sequence<sizeof...(i) + 1>{});
  }
}

template <class... F>
static void check_all_derivatives(FunctorList<F...>) {
  (check_derivatives(F{}, std::make_index_sequence<arity<F>>{}), ...);
}

BOOST_AUTO_TEST_CASE(first_and_second_derivatives_of_every_formula_agree_with_differences) {
  check_all_derivatives(ElementwiseFunctors{});
}

BOOST_AUTO_TEST_CASE_TEMPLATE(partial_loads_and_stores_touch_only_their_elements, T, RealTypes) {
  using V = Vec<T>;
  for (int count = 0; count < V::lanes; ++count) {
    std::vector<T> from(static_cast<std::size_t>(count)), to(static_cast<std::size_t>(V::lanes) + 1, T(-7));
    for (int lane = 0; lane < count; ++lane) from[static_cast<std::size_t>(lane)] = T(lane + 1);
    V v = V::load_partial(from.data(), count);
    for (int lane = 0; lane < V::lanes; ++lane) BOOST_TEST(v[lane] == (lane < count ? T(lane + 1) : T(0)));
    (v + V(T(1))).store_partial(to.data(), count);
    for (int lane = 0; lane <= V::lanes; ++lane)
      BOOST_TEST(to[static_cast<std::size_t>(lane)] == (lane < count ? T(lane + 2) : T(-7)));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(horizontal_sums_and_maxima_see_every_lane, T, RealTypes) {
  using V = Vec<T>;
  T x[V::lanes];
  for (int largest = 0; largest < V::lanes; ++largest) {
    T sum = 0;
    for (int lane = 0; lane < V::lanes; ++lane) x[lane] = T(lane == largest ? 100 : -lane - 1), sum += x[lane];
    BOOST_TEST(horizontal_max(V::load(x)) == T(100));
    BOOST_TEST(horizontal_sum(V::load(x)) == sum);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace fovea
