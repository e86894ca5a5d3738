#include "nn/layers.h"

#include <cmath>
#include <map>

#include <boost/test/unit_test.hpp>

#include "autograd/node.h"
#include "autograd/operations.h"
#include "nn/embedding.h"
#include "nn/joint_linear.h"
#include "nn/optimizer.h"
#include "tensor/gemm.h"
#include "tensor/reduce.h"
#include "tests/nn/module_gradcheck.h"
#include "tests/nn/values.h"

using namespace fovea;
using namespace fovea::test;

BOOST_AUTO_TEST_CASE(linear_is_the_sum_of_products) {
  Linear layer(3, 2);
  randomise(layer);
  Tensor x = random_tensor({5, 3}, 1);
  std::vector<double> in = x.to_vector<double>(), out = layer.forward(x).value().to_vector<double>();
  std::vector<double> weight = layer.weight().value().to_vector<double>(),
                      bias = layer.bias().value().to_vector<double>();
  for (std::size_t row = 0; row < 5; ++row)
    for (std::size_t column = 0; column < 2; ++column) {
      double expected = bias[column];
      for (std::size_t k = 0; k < 3; ++k) expected += in[row * 3 + k] * weight[k * 2 + column];
      BOOST_TEST(std::abs(out[row * 2 + column] - expected) < 1e-14);
    }
}

BOOST_AUTO_TEST_CASE(parameters_written_through_a_pointer_change_the_next_output, *cpu_only()) {
  const Precision before = matmul_precision();
  for (Precision precision : {Precision::f32, Precision::bf16}) {
    FeedForward layer(64, 96);
    layer.to(test_device());
    layer.initialise(1);
    layer.train(false);
    set_matmul_precision(precision);
    Tensor x = random_tensor({32, 64}, 1).to(DType::f32);
    Tensor once = layer.forward(x).value();
    for (const NamedParameter& parameter : layer.parameters()) {
      Tensor value = parameter.variable.value();
      std::fill_n(value.mutable_data<float>(), value.elements(), 0.0f);
    }
    Tensor zero = layer.forward(x).value();
    set_matmul_precision(before);
    BOOST_TEST(global_norm(std::vector{once}).item() > 1);
    BOOST_TEST(global_norm(std::vector{zero}).item() == 0);
  }
}

BOOST_AUTO_TEST_CASE(the_small_layers_pass_gradcheck) {
  auto check = [](Module& module, const DifferentiableFunction& forward, const Tensor& x) {
    randomise(module);
    BOOST_TEST(module_gradcheck(module, forward, {x}) == "");
  };
  Linear dense(3, 5), plain(3, 5, {.bias = false});
  LayerNorm norm(7);
  RmsNorm rms(7);
  FeedForward relu(3, 5), gelu(3, 5, {.activation = Activation::gelu, .dropout = 0.3});
  FeedForward dropped(3, 17, {.dropout = 0.5}), gated(3, 5, {.activation = Activation::gelu_tanh, .gated = true});
  PositionEncoding learned(Positions::learned, 3, 4);
  check(
      dense, [&](auto& x) { return dense.forward(x[0]); }, random_tensor({2, 3, 3}, 1));
  check(
      plain, [&](auto& x) { return plain.forward(x[0]); }, random_tensor({4, 3}, 2));
  check(
      norm, [&](auto& x) { return norm.forward(x[0]); }, random_tensor({3, 7}, 3));
  check(
      rms, [&](auto& x) { return rms.forward(x[0]); }, random_tensor({3, 7}, 3));
  check(
      relu, [&](auto& x) { return relu.forward(x[0]); }, random_tensor({2, 3, 3}, 4));
  check(
      gelu, [&](auto& x) { return gelu.forward(x[0]); }, random_tensor({5, 3}, 5));
  check(
      gated, [&](auto& x) { return gated.forward(x[0]); }, random_tensor({2, 3, 3}, 8));
  check(
      dropped, [&](auto& x) { return dropped.forward(x[0]); }, random_tensor({3, 3}, 6));
  check(
      learned, [&](auto& x) { return learned.forward(x[0], 1); }, random_tensor({2, 3, 3}, 7));
}

BOOST_AUTO_TEST_CASE(layers_of_one_input_are_what_each_is_alone) {
  struct Layers : Module {
    Linear wide{3, 5}, narrow{3, 2};
    Layers() {
      child("wide", wide);
      child("narrow", narrow);
    }
  } layers;
  randomise(layers);
  Variable x(random_tensor({130, 2, 3}, 1), true);  // rows enough for one product
  std::vector<Variable> together = forward_together({&layers.wide, &layers.narrow}, x);
  Variable wide = layers.wide.forward(x), narrow = layers.narrow.forward(x);
  BOOST_TEST(largest_difference(together[0].value(), wide.value()) < 1e-14);
  BOOST_TEST(largest_difference(together[1].value(), narrow.value()) < 1e-14);

  std::vector<Variable> inputs{x};
  for (const NamedParameter& parameter : layers.parameters()) inputs.push_back(parameter.variable);
  auto gradients = [&](const Variable& a, const Variable& b) {
    return grad(sum(a * a * a) + sum(b * b), inputs, {}, {.create_graph = true});
  };
  auto total = [](const std::vector<Variable>& all) {
    Variable total;
    for (const Variable& one : all) total = total.defined() ? total + sum(one * one) : sum(one * one);
    return total;
  };
  auto of_joint = gradients(together[0], together[1]), of_each = gradients(wide, narrow);
  auto second_of_joint = grad(total(of_joint), inputs), second_of_each = grad(total(of_each), inputs);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    BOOST_TEST(largest_difference(of_joint[k].value(), of_each[k].value()) < 1e-9);
    BOOST_TEST(largest_difference(second_of_joint[k].value(), second_of_each[k].value()) < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(layers_of_one_input_take_the_launches_of_one_each, *not_on_the_cpu()) {
  Linear query(3, 5), key(3, 5), value(3, 5);
  for (Module* layer : {&query, &key, &value}) randomise(*layer);
  const Variable x = random_tensor({130, 2, 3}, 1);
  auto launches = [] {
    std::uint64_t total = 0;
    for (const LaunchCount& count : kernels(test_device()).launches()) total += count.launches;
    return total;
  };
  const std::uint64_t before = launches();
  query.forward(x);
  const std::uint64_t of_one = launches() - before;
  forward_together({&query, &key, &value}, x);
  BOOST_TEST(launches() - before == 4 * of_one);
}

/// Layers whose parameters a GPU stores side by side.
struct SideBySide : Module {
  Linear wide{3, 5}, narrow{3, 2}, last{3, 4};
  SideBySide() {
    child("wide", wide);
    child("narrow", narrow);
    child("last", last);
    store_side_by_side({wide.weight(), narrow.weight(), last.weight()});
    store_side_by_side({wide.bias(), narrow.bias(), last.bias()});
  }
  std::vector<const Linear*> all() const { return {&wide, &narrow, &last}; }
};

BOOST_AUTO_TEST_CASE(parameters_that_are_stored_side_by_side_are_parameters_of_their_own) {
  SideBySide joint;
  struct Apart : Module {
    Linear wide{3, 5}, narrow{3, 2}, last{3, 4};
    Apart() {
      child("wide", wide);
      child("narrow", narrow);
      child("last", last);
    }
  } apart;
  for (Module* layers : {static_cast<Module*>(&joint), static_cast<Module*>(&apart)}) {
    layers->to(test_device());
    layers->initialise(7);
    layers->to(DType::f64);
  }
  auto values = [](const Module& layers) {
    std::map<std::string, std::vector<double>> all;
    for (const NamedParameter& p : layers.parameters()) all[p.name] = p.variable.value().to_vector<double>();
    return all;
  };
  BOOST_TEST((values(joint) == values(apart)));
  const std::int64_t elements = joint.parameter_count();
  BOOST_TEST(elements == apart.parameter_count());
  Sgd step(joint.parameters(), {}), step_apart(apart.parameters(), {});
  const Variable x = random_tensor({130, 2, 3}, 1);
  const std::vector<Variable> directions{random_tensor({130, 2, 5}, 2), random_tensor({130, 2, 2}, 3),
                                         random_tensor({130, 2, 4}, 4)};
  auto loss = [&](const std::vector<Variable>& results) {
    Variable total;
    for (std::size_t k = 0; k < results.size(); ++k) {
      const Variable part = sum(results[k] * directions[k]);
      total = total.defined() ? total + part : part;
    }
    return total;
  };
  for (int round = 0; round < 2; ++round) {
    backward(loss(forward_together(joint.all(), x)));
    backward(loss({apart.wide.forward(x), apart.narrow.forward(x), apart.last.forward(x)}));
  }
  step.step(0.1);
  step_apart.step(0.1);
  joint.to(Device::cpu);
  apart.to(Device::cpu);
  for (const auto& [name, expected] : values(apart)) {
    const std::vector<double> got = values(joint).at(name);
    for (std::size_t k = 0; k < expected.size(); ++k) BOOST_TEST(std::abs(got[k] - expected[k]) < 1e-10, name);
  }
  for (const NamedParameter& p : joint.parameters()) BOOST_TEST(p.variable.value().is_contiguous());
}

BOOST_AUTO_TEST_CASE(layers_side_by_side_take_one_product_and_two_for_their_gradients, *not_on_the_cpu()) {
  SideBySide layers;
  layers.to(test_device());
  layers.initialise(7);
  auto products = [] {
    for (const LaunchCount& count : kernels(test_device()).launches())
      if (count.kernel == "gemm") return count.launches;
    return std::uint64_t{0};
  };
  const Variable x(random_tensor({130, 2, 3}, 1).to(DType::f32), true);
  std::uint64_t before = products();
  const std::vector<Variable> results = forward_together(layers.all(), x);
  BOOST_TEST(products() - before == 1u);
  // the gradients of the results are side by side, as those that fused attention makes
  const Tensor g = random_tensor({260, 11}, 2).to(DType::f32);
  std::int64_t first = 0;
  Variable total;
  for (const Variable& result : results) {
    const std::int64_t end = first + result.size(-1);
    const Tensor direction = g.slice(1, first, end);
    const Variable part =
        record("part", Tensor::zeros({}, DType::f32, test_device()), {result},
               [direction, shape = result.shape()](const Variable&) { return Variable(direction.reshape(shape)); });
    total = total.defined() ? total + part : part;
    first = end;
  }
  before = products();
  backward(total);
  BOOST_TEST(products() - before == 2u);
  const Tensor of_bias = sum(g, {0});
  first = 0;
  for (const Linear* layer : layers.all()) {
    const std::int64_t end = first + layer->weight().size(1);
    const Tensor g_of_layer = g.slice(1, first, end), flat = x.value().reshape({-1, 3});
    BOOST_TEST(largest_difference(layer->weight().grad().value(), matmul(flat.transpose(0, 1), g_of_layer)) < 1e-4);
    BOOST_TEST(largest_difference(layer->bias().grad().value(), of_bias.slice(0, first, end)) < 1e-4);
    first = end;
  }
}

BOOST_AUTO_TEST_CASE(an_embedding_passes_gradcheck_and_its_padding_row_gets_no_gradient) {
  Tensor tokens = Tensor::from<std::int32_t>({3, 1, 3, 0, 2, 0}, {2, 3});
  Embedding open(4, 3, {.padding = std::nullopt, .scale = true});
  randomise(open);
  BOOST_TEST(module_gradcheck(open, [&](auto&) { return open.forward(tokens); }, {}) == "");

  Embedding padded(4, 3);
  padded.to(test_device());
  padded.initialise(1);
  padded.to(DType::f64);
  Variable weight = padded.weight();
  Tensor zero = here(Tensor::zeros({3}, DType::f64)), mask = here(Tensor::of({0, 1, 1, 1}, {4, 1}));
  Variable direction = random_tensor({2, 3, 3}, 1);
  Variable gradient = grad(sum(padded.forward(tokens) * direction), {weight})[0];
  Variable unpadded = grad(sum(open.forward(tokens) * direction) / std::sqrt(3.0), {open.weight()})[0];
  BOOST_TEST(largest_difference(gradient.value(), (unpadded * Variable(mask)).value()) < 1e-14);

  // Twice: of (row + 1)^2, so that the padding row, which is 0, has a first derivative to lose, too.
  Variable y = sum(square(padded.forward(tokens) + 1.0) * direction);
  Variable first = grad(y, {weight}, {}, {.create_graph = true})[0];
  Variable second = grad(sum(first), {weight})[0];
  BOOST_TEST(largest_difference(first.value().select(0, 0), zero) == 0);
  BOOST_TEST(largest_difference(second.value(), (gradient * 2.0).value()) < 1e-14);
  BOOST_TEST(largest_difference(weight.value().select(0, 0), zero) == 0);
}

BOOST_AUTO_TEST_CASE(a_padding_row_gets_a_gradient_from_a_shared_output_layer_alone) {
  Embedding table(4, 3);
  table.to(test_device());
  table.initialise(1);
  table.to(DType::f64);
  const Variable states = table.forward(Tensor::from<std::int32_t>({3, 0, 1}, {3}));
  const Variable logits = matmul(states, transpose(table.weight(), 0, 1));
  const Variable both = grad(sum(logits), {table.weight()})[0],
                 of_output = grad(sum(matmul(states.detach(), transpose(table.weight(), 0, 1))), {table.weight()})[0];
  BOOST_TEST(largest_difference(both.value().select(0, 0), of_output.value().select(0, 0)) == 0);
  const Tensor zeros = here(Tensor::zeros({3}, DType::f64));
  BOOST_TEST(largest_difference(both.value().select(0, 0), zeros) > 0);

  // and by the row that it then has, the vector of padding is not changed
  Variable weight = table.weight();
  weight.value().select(0, 0).fill(2);
  const Tensor tokens = here(Tensor::from<std::int32_t>({3, 0, 1, 0}, {2, 2}));
  const Tensor vectors = table.forward(tokens).value();
  for (std::int64_t b : {0, 1}) BOOST_TEST(largest_difference(vectors.select(0, b).select(0, 1), zeros) == 0);
  BOOST_TEST(largest_difference(vectors.select(0, 0).select(0, 0), weight.value().select(0, 3)) == 0);
}

BOOST_AUTO_TEST_CASE(an_rms_norm_divides_by_the_root_mean_square) {
  RmsNorm norm(5, 0.01);
  randomise(norm);
  const Tensor x = random_tensor({2, 3, 5}, 1), update = random_tensor({2, 3, 5}, 2);
  const AddedAndNormed given = norm.forward(Residual{.states = x, .update = update});
  const auto a = x.to_vector<double>(), b = update.to_vector<double>(), y = given.normed.value().to_vector<double>(),
             gain = norm.parameters()[0].variable.value().to_vector<double>();
  for (std::size_t row = 0; row < 6; ++row) {
    double squares = 0;
    for (std::size_t k = row * 5; k < row * 5 + 5; ++k) squares += (a[k] + b[k]) * (a[k] + b[k]);
    for (std::size_t k = row * 5; k < row * 5 + 5; ++k)
      BOOST_TEST(std::abs(y[k] - (a[k] + b[k]) / std::sqrt(squares / 5 + 0.01) * gain[k - row * 5]) < 1e-14);
  }
  BOOST_TEST(largest_difference(given.sum.value(), (Variable(x) + update).value()) == 0);
}

BOOST_AUTO_TEST_CASE(an_rms_norm_of_a_large_row_is_that_of_the_row_divided) {
  for (const auto& [dtype, factor] : {std::pair(DType::f32, 1e30), {DType::f64, 1e300}}) {
    RmsNorm norm(5, 0);
    randomise(norm);
    norm.to(dtype);
    const Tensor x = random_tensor({3, 5}, 1).to(dtype), cotangent = random_tensor({3, 5}, 2).to(dtype);
    auto normed = [&](double scale) {
      Variable leaf((Variable(x) * scale).value(), true);
      const Variable y = norm.forward(leaf);
      return std::pair(y.value(), (grad(y, {leaf}, Variable(cotangent))[0] * scale).value());
    };
    const auto [small, small_gradient] = normed(1);
    const auto [large, large_gradient] = normed(factor);
    const double rounding = dtype == DType::f32 ? 2e-6 : 1e-14;
    BOOST_TEST(largest_difference(large, small) < rounding);
    BOOST_TEST(largest_difference(large_gradient, small_gradient) < 4 * rounding);
  }
}

BOOST_AUTO_TEST_CASE(layers_refuse_options_that_are_no_numbers) {
  BOOST_TEST(error_of([] { RmsNorm(3, NAN); }) == "RmsNorm: epsilon is nan; it must be at least 0");
  BOOST_TEST(error_of([] { LayerNorm(3, NAN); }) == "LayerNorm: epsilon is nan; it must be at least 0");
  BOOST_TEST(error_of([] { Embedding(4, 3, {.deviation = NAN}); }) ==
             "Embedding: the standard deviation is nan; it must be positive, or 0 for d^-1/2");
  BOOST_TEST(error_of([] { Dropout(NAN); }) == "Dropout: the probability is nan; it must be in [0, 1)");
}

BOOST_AUTO_TEST_CASE(gelu_by_tanh_is_exact_for_large_numbers) {
  FeedForward layer(1, 1, {.activation = Activation::gelu_tanh});
  layer.to(test_device());
  layer.initialise(1);
  for (const NamedParameter& p : layer.parameters()) Variable(p.variable).value().fill(p.variable.rank() == 2 ? 1 : 0);
  for (double x : {1e20, 3e38, double{INFINITY}}) {
    Variable both(here(Tensor::of({x, -x}, {2, 1}, DType::f32)), true);
    const Variable y = layer.forward(both);
    BOOST_TEST(y.value().to_vector<float>() == (std::vector<float>{float(x), 0}), boost::test_tools::per_element());
    BOOST_TEST(grad(sum(slice(y, 0, 1, 2)), {both}, {}, {.retain_graph = true})[0].value().to_vector<float>() ==
                   (std::vector<float>{0, 0}),
               boost::test_tools::per_element());
    BOOST_TEST(grad(sum(slice(y, 0, 0, 1)), {both})[0].value().to_vector<float>() == (std::vector<float>{1, 0}),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(tokens_that_have_changed_before_the_pass_are_refused) {
  for (bool padded : {false, true}) {
    Embedding embedding(7, 3, {.padding = padded ? std::optional<std::int64_t>(0) : std::nullopt});
    randomise(embedding);
    Tensor tokens = here(Tensor::from(std::vector<std::int32_t>{1, 2, 3, 0}, {2, 2}));
    Variable rows = embedding.forward(tokens);
    tokens.fill(1);
    BOOST_CHECK_EXCEPTION(backward(sum(rows)), Error, [](const Error& error) {
      return std::string(error.what()).starts_with("gather_rows: its index, i32 [2, 2], was saved for the backward ");
    });
  }
}

BOOST_AUTO_TEST_CASE(an_embedding_starts_with_deviation_one_over_sqrt_d) {
  Embedding table(500, 256);
  table.to(test_device());
  table.initialise(3);
  double squares = 0;
  for (double x : table.weight().value().to_vector<double>()) squares += x * x;
  BOOST_TEST(std::abs(std::sqrt(squares / (499 * 256)) - 1.0 / 16) < 5 * (1.0 / 16) / std::sqrt(2.0 * 499 * 256));
  BOOST_TEST(table.describe().find("N(0, 0.0625), row 0 zero") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(sinusoids_are_halves_of_sines_and_cosines) {
  std::int64_t T = 5, d = 8;
  std::vector<double> table = sinusoidal_positions(T, d).to_vector<double>();
  for (std::int64_t p = 0; p < T; ++p)
    for (std::int64_t k = 0; k < d / 2; ++k) {
      double angle = static_cast<double>(p) * std::pow(10000.0, -static_cast<double>(k) / (d / 2.0 - 1));
      BOOST_TEST(std::abs(table[static_cast<std::size_t>(p * d + k)] - std::sin(angle)) < 1e-14);
      BOOST_TEST(std::abs(table[static_cast<std::size_t>(p * d + d / 2 + k)] - std::cos(angle)) < 1e-14);
    }
  BOOST_TEST(largest_difference(sinusoidal_positions(7, 6).slice(0, 3, 7), sinusoidal_positions(4, 6, 3)) == 0);
  BOOST_TEST(largest_difference(sinusoidal_positions(4, 2).slice(1, 0, 1),
                                here(Tensor::of({0, std::sin(1), std::sin(2), std::sin(3)}, {4, 1}))) < 1e-15);
}

BOOST_AUTO_TEST_CASE(positions_continue_where_they_are_told_to) {
  for (Positions kind : {Positions::sinusoidal, Positions::learned}) {
    PositionEncoding positions(kind, 6, 9);
    positions.to(test_device());
    positions.initialise(1);
    positions.to(DType::f64);
    Tensor x = random_tensor({2, 7, 6}, 1);
    Tensor tail = positions.forward(x.slice(1, 4, 7), 4).value();
    BOOST_TEST(largest_difference(positions.forward(x).value().slice(1, 4, 7), tail) < 1e-14);
  }
  PositionEncoding learned(Positions::learned, 6, 9);
  BOOST_TEST(error_of([&] {
               learned.forward(random_tensor({1, 10, 6}, 1));
             }) ==
             "position encoding: a text has 10 tokens, more than the 9 positions that the model has learned; cut it");
}

BOOST_AUTO_TEST_CASE(dropout_acts_in_training_only) {
  Dropout layer(0.25);
  Tensor x = here(Tensor::full({100, 100}, 1, DType::f64));
  double dropped = 0;
  RandomScope random({1});
  for (double v : layer.forward(x).value().to_vector<double>()) {
    BOOST_REQUIRE((v == 0 || std::abs(v - 4.0 / 3) < 1e-12));
    dropped += v == 0;
  }
  BOOST_TEST(std::abs(dropped / 1e4 - 0.25) < 5 * std::sqrt(0.25 * 0.75 / 1e4));
  layer.train(false);
  BOOST_TEST(largest_difference(layer.forward(x).value(), x) == 0);
  const Residual sum{.states = x, .update = x, .dropout = layer.current_probability()};
  BOOST_TEST(largest_difference(sum.sum().value(), here(Tensor::full({100, 100}, 2, DType::f64))) == 0);
  BOOST_CHECK_THROW(Dropout(1.0), Error);
}

BOOST_AUTO_TEST_CASE(the_fused_feed_forward_is_the_plain_one) {
  FeedForward layer(4, 7);
  randomise(layer);
  std::vector<NamedParameter> p = layer.parameters();
  Variable x(random_tensor({3, 2, 4}, 1), true);
  Variable fused = layer.forward(x);
  Variable plain = linear(relu(linear(x, p[0].variable, p[1].variable)), p[2].variable, p[3].variable);
  BOOST_TEST(largest_difference(fused.value(), plain.value()) < 1e-14);
  Variable direction(random_tensor({3, 2, 4}, 2));
  std::vector<Variable> leaves = {x, p[0].variable, p[1].variable};
  Gradients a = grad(fused, leaves, direction), b = grad(plain, leaves, direction);
  for (std::size_t k = 0; k < leaves.size(); ++k) BOOST_TEST(largest_difference(a[k].value(), b[k].value()) < 1e-13);
}
