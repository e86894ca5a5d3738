#include "nn/loss.h"

#include <cmath>

#include <boost/test/unit_test.hpp>

#include "tests/nn/module_gradcheck.h"
#include "tests/nn/values.h"
#include "tests/refusal.h"

using namespace fovea;
using namespace fovea::test;

BOOST_AUTO_TEST_CASE(cross_entropy_is_fairseqs_with_smoothing_and_ignored_targets) {
  Tensor logits = random_tensor({2, 3, 5}, 1, -3, 3);
  Tensor targets = Tensor::from<std::int32_t>({4, 0, -100, 2, -100, 1}, {2, 3});
  std::vector<double> x = logits.to_vector<double>();
  std::vector<std::int64_t> target = targets.to_vector<std::int64_t>();
  for (double smoothing : {0.0, 0.1}) {
    double total = 0;
    for (std::size_t row = 0; row < 6; ++row) {
      if (target[row] < 0) continue;
      double sum = 0;
      for (std::size_t v = 0; v < 5; ++v) sum += std::exp(x[row * 5 + v]);
      for (std::size_t v = 0; v < 5; ++v) {
        double weight = smoothing / 5 + (static_cast<std::int64_t>(v) == target[row] ? 1 - smoothing : 0);
        total -= weight * (x[row * 5 + v] - std::log(sum));
      }
    }
    CrossEntropyOptions options{.label_smoothing = smoothing};
    BOOST_TEST(std::abs(cross_entropy_loss(logits, targets, options, Total::sum).item() - total) < 1e-12);
    BOOST_TEST(std::abs(cross_entropy_loss(logits, targets, options).item() - total / 4) < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(losses_pass_gradcheck) {
  Tensor targets = Tensor::from<std::int64_t>({4, 0, -100, 2, 3, 1}, {2, 3});
  Tensor probabilities = random_tensor({3, 7}, 2, 0, 1);
  for (Total total : {Total::mean, Total::sum}) {
    auto smoothed = [&](auto& in) { return cross_entropy_loss(in[0], targets, {.label_smoothing = 0.1}, total); };
    auto binary = [&](auto& in) { return binary_cross_entropy_loss(in[0], probabilities, total); };
    BOOST_TEST(gradcheck(smoothed, {Variable(random_tensor({2, 3, 5}, 1), true)}) == "");
    BOOST_TEST(gradcheck(binary, {Variable(random_tensor({3, 7}, 3, -4, 4), true)}) == "");
  }
}

BOOST_AUTO_TEST_CASE(projected_cross_entropy_is_a_product_and_a_loss_and_passes_gradcheck) {
  // 5 classes make blocks of more than all rows; 40 000 make blocks of 64.
  for (auto [rows, V, biased] : {std::tuple(6, 5, true), {6, 5, false}, {130, 40000, true}}) {
    Variable states(random_tensor({2, rows / 2, 3}, 1), true), weight(random_tensor({3, V}, 2), true);
    Variable bias = biased ? Variable(random_tensor({V}, 3), true) : Variable();
    std::vector<std::int32_t> classes;
    for (int row = 0; row < rows; ++row) classes.push_back(row % 4 == 1 ? 0 : (row * 7919) % V);
    Tensor targets = Tensor::from(classes, {2, rows / 2});
    CrossEntropyOptions options{.label_smoothing = 0.1, .ignored = 0};
    auto projected = [&](auto& in) { return projected_cross_entropy(in[0], in[1], bias, targets, options); };
    Tensor unsmoothed;
    Variable loss = projected_cross_entropy(states, weight, bias, targets, options, &unsmoothed);
    const double plain = projected_cross_entropy(states, weight, bias, targets, {.ignored = 0}).item();
    BOOST_TEST(std::abs(unsmoothed.item() - plain) < 1e-10 * plain);
    Variable composed = cross_entropy_loss(linear(states, weight, bias), targets, options, Total::sum);
    BOOST_TEST(std::abs(loss.item() - composed.item()) < 1e-10 * composed.item());
    std::vector<Variable> inputs{states, weight};
    if (biased) inputs.push_back(bias);
    std::vector<Variable> fused = grad(loss * 0.3, inputs), expected = grad(composed * 0.3, inputs);
    for (std::size_t k = 0; k < inputs.size(); ++k)
      BOOST_TEST(largest_difference(fused[k].value(), expected[k].value()) < 1e-12);
    if (V > 5) continue;
    BOOST_TEST(gradcheck(projected, {states, weight}) == "");
    BOOST_TEST(gradgradcheck(projected, {states, weight}) == "");
    Variable turned(random_tensor({5, 3}, 4), true);  // a table that is the output's too
    BOOST_TEST(
        gradcheck(
            [&](auto& in) { return projected_cross_entropy(in[0], transpose(in[1], 0, 1), bias, targets, options); },
            {states, turned}) == "");
  }
  Tensor none = Tensor::from<std::int32_t>({0, 0}, {2});
  Variable states(random_tensor({2, 3}, 1), true), weight(random_tensor({3, 4}, 2), true);
  BOOST_TEST(message_of([&] {
               projected_cross_entropy(states, weight, {}, Tensor::of({1.7, 2}, {2}));
             }) == "projected_cross_entropy: an index is i32 or i64, not f64");
  Variable nothing = projected_cross_entropy(states, weight, {}, none, {.ignored = 0});
  BOOST_TEST(nothing.item() == 0);
  BOOST_TEST(grad(nothing, {weight})[0].value().to_vector<double>() == std::vector<double>(12, 0));
  Variable diverged = projected_cross_entropy(states * std::nan(""), weight, {}, none, {.ignored = 1});
  BOOST_TEST(grad(diverged * 0.0, {weight})[0].value().to_vector<double>() == std::vector<double>(12, 0));
}

BOOST_AUTO_TEST_CASE(the_loss_of_four_million_logits_takes_the_launches_of_a_few, *not_on_the_cpu()) {
  auto launches = [] {
    std::uint64_t total = 0;
    for (const LaunchCount& count : kernels(test_device()).launches()) total += count.launches;
    return total;
  };
  auto launches_for = [&](std::int64_t rows) {
    const std::int64_t words = 1 << 15;
    const Variable states = random_tensor({rows, 2}, 1), weight = random_tensor({2, words}, 2);
    const Tensor targets = here(Tensor::zeros({rows}, DType::i64));
    const std::uint64_t before = launches();
    projected_cross_entropy(states, weight, {}, targets, {});
    return launches() - before;
  };
  BOOST_TEST(launches_for(130) == launches_for(2));
}

BOOST_AUTO_TEST_CASE(binary_cross_entropy_is_its_formula_and_survives_large_logits) {
  Tensor logits = here(Tensor::of({0.5, -2, 1e4, -1e4}, {4})), targets = here(Tensor::of({1, 0.25, 1, 0}, {4}));
  auto one = [](double x, double t) {
    return -t * std::log(1 / (1 + std::exp(-x))) - (1 - t) * std::log(1 - 1 / (1 + std::exp(-x)));
  };
  double expected = one(0.5, 1) + one(-2, 0.25);
  BOOST_TEST(std::abs(binary_cross_entropy_loss(logits, targets, Total::sum).item() - expected) < 1e-12);
  BOOST_TEST(std::abs(binary_cross_entropy_loss(logits, targets).item() - expected / 4) < 1e-12);
}

BOOST_AUTO_TEST_CASE(binary_cross_entropy_of_an_infinite_logit_is_0_or_infinite) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const Variable logits(here(Tensor::of({inf, -inf, inf, -inf, inf, 2}, {6})), true);
  const Tensor targets = here(Tensor::of({1, 0, 0, 1, 0.25, 1}, {6}));
  const Variable losses = binary_cross_entropy(logits, targets);
  const std::vector<double> found = losses.value().to_vector<double>();
  BOOST_TEST((std::vector<double>(found.begin(), found.end() - 1) == std::vector<double>{0, 0, inf, inf, inf}));
  const std::vector<double> slopes = grad(sum(losses), {logits})[0].value().to_vector<double>();
  BOOST_TEST((std::vector<double>(slopes.begin(), slopes.end() - 1) == std::vector<double>{0, 0, 1, -1, 0.75}));
}

BOOST_AUTO_TEST_CASE(losses_refuse_what_does_not_fit) {
  Tensor logits = random_tensor({2, 5}, 1);
  BOOST_TEST(error_of([&] {
               cross_entropy_loss(logits, Tensor::from<std::int32_t>({1, 2, 3}, {3}));
             }) ==
             "cross_entropy_loss: the logits are f64 [2, 5], the targets i32 [3]; targets must have the logits' shape "
             "without its last size");
  BOOST_TEST(error_of([&] {
               cross_entropy_loss(logits, Tensor::from<std::int32_t>({-100, -100}, {2}));
             }) ==
             "cross_entropy_loss: all 2 targets are -100, the ignored one; a mean needs at least one other target");
  BOOST_TEST(error_of([&] {
               binary_cross_entropy_loss(logits, random_tensor({2, 4}, 1));
             }) == "binary_cross_entropy: the logits are f64 [2, 5], the targets f64 [2, 4]; both must have one shape");
  const Variable states(random_tensor({2, 3}, 1)), no_classes(here(Tensor::zeros({3, 0}, DType::f64)));
  BOOST_TEST(error_of([&] {
               projected_cross_entropy(states, no_classes, {}, Tensor::from<std::int32_t>({0, 1}, {2})).item();
             }).find("there is nothing to choose from") != std::string::npos);
}
BOOST_AUTO_TEST_CASE(a_wrong_target_is_named_by_its_place_among_all, *cpu_only()) {
  const Variable states(Tensor::of({1, 2, 3, 4, 5, 6}, {1, 3, 2})), weight(Tensor::of({1, 2, 3, 4}, {2, 2}));
  BOOST_TEST(
      message_of([&] {
        projected_cross_entropy(states, weight, {}, Tensor::of({-100, -100, 9}, {1, 3}, DType::i32), {.ignored = -100});
      }) == "cross_entropy: the target at [0, 2] of [1, 3] is 9; it must be in 0 to 1, or -100 to be ignored");
}
