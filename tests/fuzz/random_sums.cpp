// Random sums of methods, in random places and sizes, with numbers out of range where no query sees them: all engines
// give one result, on the CPU and, by the fused engine, on a GPU. FOVEA_TEST_SEED chooses the first of the sums,
// FOVEA_TEST_SUMS how many are drawn:
//   FOVEA_TEST_SEED=1000 FOVEA_TEST_SUMS=5000 build/tests/test_attention --run_test=random_sums
#include <cmath>
#include <cstdlib>
#include <limits>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "autograd/operations.h"
#include "tests/attention/attentions.h"
#include "tests/device.h"

using namespace fovea;
using namespace fovea::test;

namespace {

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// Everything about one call that is drawn.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : generator_(seed) {
    std::vector<std::string> choices;
    for (const MethodEntry& entry : registered_methods())
      for (std::string& one : specifications_of(entry)) choices.push_back(std::move(one));
    const std::uint64_t terms = 1 + below(3);
    for (std::uint64_t k = 0; k < terms; ++k) {
      std::string one = choices[below(choices.size())];
      if (below(4) == 0) one = with_option(one, fmt::format("heads={}", 1 + below(2)));
      specification += (k > 0 ? "+" : "") + one;
    }
    place = all_places()[below(3)];
    keys = 1 + static_cast<std::int64_t>(below(9));
    queries = place == Place::cross ? 1 + static_cast<std::int64_t>(below(9)) : keys;
    length = static_cast<std::int64_t>(below(static_cast<std::uint64_t>(keys) + 1));
    scale = below(3) == 0 ? 10 : 1;
    dtype = below(4) == 0 ? DType::f32 : DType::f64;
    rows_of_block = 1 + static_cast<std::int64_t>(below(4));
    masks = below(3) == 0;
  }

  std::string str() const {
    return fmt::format("{} in place {}, {} queries, {} keys, length {}, scale {}, {}, blocks of {}{}", specification,
                       static_cast<int>(place), queries, keys, length, scale, name(dtype), rows_of_block,
                       masks ? ", with a mask" : "");
  }

  /// The output, and the gradients of states and parameters; empty if this attention or engine is not defined.
  std::vector<Tensor> results(AttentionEngine engine, double hidden, Device device = Device::cpu) const try {
    AttentionEngineScope chosen(engine, rows_of_block);
    const auto attention = random_attention(specification, place);
    attention->to(dtype);
    attention->to(device);
    Generator generator(2);
    auto states = [&](std::int64_t rows) { return random_tensor({2, rows, 6}, generator, -scale, scale); };
    Tensor numbers = states(keys);
    numbers.slice(0, 1, 2).slice(1, length, keys).fill(hidden);
    const Variable key(numbers.to(dtype).to(device), true);
    const Variable query = place == Place::cross ? Variable(states(queries).to(dtype).to(device), true) : key;
    AttentionInput input{.query = query, .key = key, .value = key};
    input.key_lengths = Tensor::from(std::vector<std::int64_t>{keys, length}, {2}).to(device);
    input.mask = test_mask(queries, keys).to(device);
    input.causal = place == Place::decoder;
    if (masks) {
      std::vector<std::uint8_t> allowed;
      for (std::int64_t k = 0; k < queries * keys; ++k) allowed.push_back(k * k % 7 != 2);
      input.allowed = Tensor::from(allowed, {1, 1, queries, keys}).to(device);
    }
    std::vector<Variable> leaves{key};
    if (place == Place::cross) leaves.push_back(query);
    for (auto& parameter : attention->parameters()) leaves.push_back(parameter.variable);
    const Variable out = attention->forward(input);
    std::vector<Tensor> found{out.value()};
    for (const Variable& g : grad(out, leaves, random_tensor(out.shape(), generator).to(dtype).to(device)))
      found.push_back(g.value());
    return found;
  } catch (const Error&) {
    return {};
  }

  std::string specification;
  Place place;
  std::int64_t keys, queries, length, rows_of_block;
  double scale;
  DType dtype;
  bool masks;

 private:
  std::uint64_t below(std::uint64_t n) {
    Tensor x = Tensor::empty({1}, DType::f64);
    fill_uniform(x, generator_, 0, static_cast<double>(n));
    return std::min(n - 1, static_cast<std::uint64_t>(x.item()));
  }
  static std::string with_option(const std::string& one, const std::string& option) {
    return one.back() == ')' ? one.substr(0, one.size() - 1) + "," + option + ")" : one + "(" + option + ")";
  }
  Generator generator_;
};

double largest_number(const std::vector<Tensor>& tensors) {
  double largest = 0;
  for (const Tensor& x : tensors)
    for (double number : x.to_vector<double>()) largest = std::max(largest, std::abs(number));
  return largest;
}

/// The largest difference beyond `rounding`, divided by the largest number of b if that is greater than 1.
double difference(const Tensor& a, const Tensor& b, double rounding) {
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double largest = x.size() == y.size() ? 0 : std::nan(""), scale = 1;
  for (double number : y) scale = std::max(scale, std::abs(number));
  for (std::size_t k = 0; k < std::min(x.size(), y.size()); ++k) {
    const double one = std::abs(x[k] - y[k]) - rounding;
    largest = one <= largest ? largest : one;
  }
  return largest / scale;
}

bool are_finite(const std::vector<Tensor>& tensors) {
  return std::ranges::all_of(tensors, [](const Tensor& x) {
    return std::ranges::all_of(x.to_vector<double>(), [](double number) { return std::isfinite(number); });
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(random_sums)

BOOST_AUTO_TEST_CASE(all_engines_give_one_result_whatever_is_hidden) {
  const std::uint64_t first = number_of("FOVEA_TEST_SEED", 1), sums = number_of("FOVEA_TEST_SUMS", 300);
  int compared = 0, compared_on_gpu = 0;
  for (std::uint64_t seed = first; seed < first + sums; ++seed) {
    const Draw draw(seed);
    const auto expected = draw.results(AttentionEngine::composed, 0);
    if (expected.empty()) continue;  // the methods exclude each other, or are not defined in this place
    BOOST_TEST(are_finite(expected), "FOVEA_TEST_SEED=" << seed << ": " << draw.str() << " is not finite");
    // densities are as large as exp(40), and small gradients may be differences of large numbers
    const double rounding = (draw.dtype == DType::f64 ? 1e-15 : 1e-6) * largest_number(expected);
    std::vector<std::pair<AttentionEngine, Device>> ways{{AttentionEngine::composed, Device::cpu},
                                                         {AttentionEngine::blockwise, Device::cpu},
                                                         {AttentionEngine::fused, Device::cpu}};
    if (cuda_is_available()) ways.emplace_back(AttentionEngine::fused, Device::cuda);
    for (auto [engine, device] : ways) {
      const auto found = draw.results(engine, std::numeric_limits<double>::quiet_NaN(), device);
      if (found.empty()) continue;  // no fused form
      ++compared, compared_on_gpu += device == Device::cuda;
      double largest = 0;
      for (std::size_t k = 0; k < found.size(); ++k) {
        if (k == 1 && draw.place != Place::cross) continue;  // there hidden zeros are queries too, and have gradients
        const double one = difference(found[k], expected[k], rounding);
        largest = one <= largest ? largest : one;  // a NaN stays
      }
      BOOST_TEST(largest <= (draw.dtype == DType::f64 ? 1e-8 : 2e-3),
                 "FOVEA_TEST_SEED=" << seed << ": " << draw.str() << ", engine " << static_cast<int>(engine) << " on "
                                    << name(device) << " differs by " << largest);
    }
  }
  BOOST_TEST(compared > static_cast<int>(sums / 2));
  if (cuda_is_available()) BOOST_TEST(compared_on_gpu > static_cast<int>(sums / 8));
}

BOOST_AUTO_TEST_SUITE_END()
