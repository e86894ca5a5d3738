#include "nn/optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include <boost/test/unit_test.hpp>

#include "autograd/operations.h"
#include "nn/linear.h"
#include "tests/nn/module_gradcheck.h"
#include "tests/nn/values.h"
#include "tests/refusal.h"

using namespace fovea;
using namespace fovea::test;

namespace {

/// Parameters of awkward sizes, one that learns at a quarter of the rate, and one that no gradient reaches.
class Parameters : public Module {
 public:
  Parameters()
      : weight(parameter("weight", {7, 19}, Initializer::zeros())),
        bias(parameter("bias", {3}, Initializer::zeros(), 0.25)),
        idle(parameter("idle", {2}, Initializer::zeros())) {}
  Variable weight, bias, idle;
};

void set_gradients(Parameters& model, std::uint64_t seed) {
  DType type = model.weight.dtype();
  model.weight.set_grad(random_tensor({7, 19}, seed).to(type));
  model.bias.set_grad(random_tensor({3}, seed + 100).to(type));
}

/// An optimizer, and the same in plain numbers. Adafactor has no rule of one element.
struct Case {
  std::function<std::unique_ptr<Optimizer>(std::vector<NamedParameter>)> make;
  std::function<void(double& x, double g, double& m, double& v, double rate, int update)> rule = {};
};

Case sgd(double momentum, double decay) {
  return {[=](auto parameters) {
            return std::make_unique<Sgd>(parameters, Sgd::Options{.momentum = momentum, .weight_decay = decay});
          },
          [=](double& x, double g, double& m, double&, double rate, int) {
            m = momentum * m + g + decay * x;
            x -= rate * m;
          }};
}

template <class Kind>
Case adam(const Adam::Options& o) {
  return {[=](auto parameters) { return std::make_unique<Kind>(parameters, o); },
          [=](double& x, double g, double& m, double& v, double rate, int update) {
            bool decoupled = std::is_same_v<Kind, AdamW>;
            if (decoupled) x -= rate * o.weight_decay * x;
            if (!decoupled) g += o.weight_decay * x;
            m = o.beta1 * m + (1 - o.beta1) * g;
            v = o.beta2 * v + (1 - o.beta2) * g * g;
            double m_hat = m / (1 - std::pow(o.beta1, update)), v_hat = v / (1 - std::pow(o.beta2, update));
            x -= rate * m_hat / (std::sqrt(v_hat) + o.epsilon);
          }};
}

Case lion(const Lion::Options& o) {
  return {[=](auto parameters) { return std::make_unique<Lion>(parameters, o); },
          [=](double& x, double g, double& m, double&, double rate, int) {
            const double c = o.beta1 * m + (1 - o.beta1) * g;
            x -= rate * ((c > 0) - (c < 0) + o.weight_decay * x);
            m = o.beta2 * m + (1 - o.beta2) * g;
          }};
}

Case adafactor(double decay) {
  return {[=](auto parameters) { return std::make_unique<Adafactor>(parameters, Adafactor::Options{decay}); }};
}

std::vector<Case> all_optimizers() {
  return {sgd(0, 0),
          sgd(0.9, 0.01),
          adam<Adam>({}),
          adam<Adam>({.beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.01}),
          adam<AdamW>({.weight_decay = 0.1}),
          lion({}),
          lion({.beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1}),
          adafactor(0.01)};
}

/// √mean(x²)
double size_of_numbers(const std::vector<double>& x) {
  double squares = 0;
  for (double number : x) squares += number * number;
  return std::sqrt(squares / static_cast<double>(x.size()));
}

/// Adafactor for one parameter in plain numbers, a matrix of `columns` > 0 columns or a vector: the algorithm with sums
/// over rows and columns, as the paper writes it.
struct PlainAdafactor {
  std::size_t columns;
  std::vector<double> of_rows = {}, of_columns = {}, square = {};

  void update(std::vector<double>& x, const std::vector<double>& g, double rate, double weight_decay, int t) {
    const double beta = 1 - std::pow(t, -0.8);
    auto take_in = [&](std::vector<double>& mean, const std::vector<double>& now) {
      mean.resize(now.size());
      for (std::size_t i = 0; i < now.size(); ++i) mean[i] = beta * mean[i] + (1 - beta) * now[i];
    };
    std::vector<double> v(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) v[i] = g[i] * g[i] + 1e-30;
    if (columns == 0) {
      take_in(square, v);
      v = square;
    } else {
      std::vector<double> rows_now(g.size() / columns), columns_now(columns);
      for (std::size_t i = 0; i < g.size(); ++i) rows_now[i / columns] += v[i];
      for (std::size_t i = 0; i < g.size(); ++i) columns_now[i % columns] += v[i];
      take_in(of_rows, rows_now);
      take_in(of_columns, columns_now);
      double total = 0;
      for (double row : of_rows) total += row;
      for (std::size_t i = 0; i < g.size(); ++i) v[i] = of_rows[i / columns] * of_columns[i % columns] / total;
    }
    std::vector<double> u(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) u[i] = g[i] / std::sqrt(v[i]);
    const double step = rate * std::max(1e-3, size_of_numbers(x)) / std::max(1.0, size_of_numbers(u));
    for (std::size_t i = 0; i < g.size(); ++i) x[i] -= rate * weight_decay * x[i] + step * u[i];
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(optimizers_follow_their_formulas) {
  for (const Case& c : all_optimizers())
    for (DType type : {DType::f64, DType::f32}) {
      if (!c.rule) continue;
      Parameters model;
      randomise(model);
      model.to(type);
      struct Plain {
        Variable of;
        double factor;  // of the rate
        std::vector<double> x = of.value().to_vector<double>(), m = std::vector<double>(x.size()), v = m;
      };
      std::vector<Plain> plain{{model.weight, 1}, {model.bias, 0.25}};
      std::vector<double> idle = model.idle.value().to_vector<double>();
      auto optimizer = c.make(model.parameters());
      for (int update = 1; update <= 5; ++update) {
        double rate = 0.1 / update;
        set_gradients(model, static_cast<std::uint64_t>(update));
        for (Plain& p : plain) {
          const std::vector<double> g = p.of.grad().value().to_vector<double>();
          for (std::size_t i = 0; i < g.size(); ++i)
            c.rule(p.x[i], 0.5 * g[i], p.m[i], p.v[i], rate * p.factor, update);
        }
        optimizer->step(rate, here(Tensor::full({}, 0.5, DType::f64)));
      }
      double tolerance = type == DType::f64 ? 1e-13 : 1e-5;
      for (const Plain& p : plain)
        BOOST_TEST(largest_difference(p.of.value(), Tensor::from(p.x, p.of.shape())) < tolerance);
      BOOST_TEST(model.idle.value().to_vector<double>() == idle);
    }
}

BOOST_AUTO_TEST_CASE(adafactor_follows_the_algorithm_of_its_paper) {
  for (double start : {1.0, 1e-4})  // parameters that are smaller than 1e-3 move as if they were as large
    for (DType type : {DType::f64, DType::f32}) {
      Parameters model;
      randomise(model);
      for (Variable* p : {&model.weight, &model.bias}) p->value().copy_from((*p * start).value());
      model.to(type);
      PlainAdafactor of_weight{19}, of_bias{0};
      auto weight = model.weight.value().to_vector<double>(), bias = model.bias.value().to_vector<double>();
      Adafactor optimizer(model.parameters(), {.weight_decay = 0.3});
      for (int t = 1; t <= 3; ++t) {
        set_gradients(model, static_cast<std::uint64_t>(t));
        optimizer.step(0.1, here(Tensor::full({}, t, DType::f64)));  // the step does not depend on the gradients' scale
        std::vector<double> of_w = model.weight.grad().value().to_vector<double>(),
                            of_b = model.bias.grad().value().to_vector<double>();
        for (std::vector<double>* g : {&of_w, &of_b})
          for (double& number : *g) number *= t;
        of_weight.update(weight, of_w, 0.1, 0.3, t);
        of_bias.update(bias, of_b, 0.1 * 0.25, 0.3, t);
      }
      const double tolerance = start * (type == DType::f64 ? 1e-13 : 1e-5);
      BOOST_TEST(largest_difference(model.weight.value(), Tensor::from(weight, {7, 19})) < tolerance);
      BOOST_TEST(largest_difference(model.bias.value(), Tensor::from(bias, {3})) < tolerance);
    }
}

BOOST_AUTO_TEST_CASE(adafactor_treats_the_last_two_dimensions_as_matrices_and_leaves_out_rows_without_gradient) {
  class Stack : public Module {
   public:
    explicit Stack(const Shape& shape) : p(parameter("p", shape, Initializer::zeros())) {}
    Variable p;
  } stack({2, 3, 5}), second({3, 5});
  const Tensor start = random_tensor({2, 3, 5}, 1).to(DType::f32),
               gradient = random_tensor({2, 3, 5}, 2).to(DType::f32);
  gradient.select(0, 1).select(0, 2).fill(0);
  for (Stack* each : {&stack, &second}) {
    each->to(test_device());
    each->initialise(1);
    const bool whole = each == &stack;
    each->p.value().copy_from(whole ? start : start.select(0, 1));
    each->p.set_grad((whole ? gradient : gradient.select(0, 1)).clone());
    Adafactor(each->parameters(), {}).step(0.1);
  }
  // Both matrices share the sizes of parameter and update, so that their steps are parallel to those of one alone.
  const auto moved = [](const Tensor& now, const Tensor& before) {
    auto x = now.to_vector<double>(), y = before.to_vector<double>();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= y[i];
    return x;
  };
  const auto in_stack = moved(stack.p.value().select(0, 1), start.select(0, 1)),
             alone = moved(second.p.value(), start.select(0, 1));
  for (std::size_t i = 0; i < alone.size(); ++i) {
    BOOST_TEST(std::abs(in_stack[i] / in_stack[0] * alone[0] - alone[i]) < 1e-5);
    BOOST_TEST((alone[i] == 0) == (i >= 10));
  }
}

BOOST_AUTO_TEST_CASE(every_kind_of_optimizer_can_leave_vectors_out_of_weight_decay) {
  for (OptimizerKind kind :
       {OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::sgd, OptimizerKind::lion, OptimizerKind::adafactor}) {
    auto trained = [&](double decay, Decayed decayed) {
      Parameters model;
      randomise(model);
      OptimizerOptions options;
      options.kind = kind;
      options.weight_decay = decay;
      options.decayed = decayed;
      const auto optimizer = make_optimizer(model.parameters(), options);
      for (std::uint64_t update = 0; update < 3; ++update) {
        set_gradients(model, update);
        optimizer->step(0.1);
      }
      return std::pair(model.weight.value().to_vector<double>(), model.bias.value().to_vector<double>());
    };
    const auto all = trained(0.3, Decayed::all), matrices = trained(0.3, Decayed::matrices),
               none = trained(0, Decayed::all);
    BOOST_TEST(matrices.first == all.first);
    BOOST_TEST(matrices.second == none.second);
    BOOST_TEST(matrices.first != none.first);
    BOOST_TEST(matrices.second != all.second);
  }
}

BOOST_AUTO_TEST_CASE(a_kind_of_optimizer_is_the_class_with_the_same_options) {
  auto trained = [](auto make) {
    Parameters model;
    randomise(model);
    const std::unique_ptr<Optimizer> optimizer = make(model.parameters());
    for (std::uint64_t update = 0; update < 3; ++update) {
      set_gradients(model, update);
      optimizer->step(0.1);
    }
    return model.weight.value().to_vector<double>();
  };
  auto check = [&](const OptimizerOptions& options, auto make) {
    BOOST_TEST(trained([&](auto parameters) { return make_optimizer(parameters, options); }) == trained(make));
  };
  const Adam::Options numbers{.beta1 = 0.7, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.2};
  OptimizerOptions of_adam{
      .kind = OptimizerKind::adam, .beta1 = 0.7, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.2};
  check(of_adam, adam<Adam>(numbers).make);
  of_adam.kind = OptimizerKind::adamw;
  check(of_adam, adam<AdamW>(numbers).make);
  check({.kind = OptimizerKind::sgd, .momentum = 0.6, .weight_decay = 0.2}, sgd(0.6, 0.2).make);
  check({.kind = OptimizerKind::lion, .beta1 = 0.7, .beta2 = 0.9, .weight_decay = 0.2},
        lion({.beta1 = 0.7, .beta2 = 0.9, .weight_decay = 0.2}).make);
  check({.kind = OptimizerKind::adafactor, .weight_decay = 0.2}, adafactor(0.2).make);
  check({.kind = OptimizerKind::adamw}, adam<AdamW>({}).make);
  check({.kind = OptimizerKind::lion}, lion({}).make);  // its beta2 is not Adam's
}

BOOST_AUTO_TEST_CASE(lion_moves_by_the_rate_where_a_gradient_is_infinite) {
  Parameters model;
  randomise(model);
  set_gradients(model, 1);
  const std::vector<double> before = model.bias.value().to_vector<double>();
  model.bias.set_grad(here(Tensor::of({INFINITY, 0.2, -INFINITY}, {3})));
  lion({}).make(model.parameters())->step(0.1);
  const std::vector<double> after = model.bias.value().to_vector<double>();
  for (const auto& [k, sign] : {std::pair(0, 1.), {1, 1.}, {2, -1.}})
    BOOST_TEST(std::abs(before[std::size_t(k)] - 0.1 * 0.25 * sign - after[std::size_t(k)]) < 1e-6);  // its own rate
}

BOOST_AUTO_TEST_CASE(adafactor_moves_by_the_sign_of_a_huge_gradient) {
  for (double size : {1e20, 3e38}) {
    Parameters model;
    model.to(test_device());
    model.initialise(1);
    for (Variable p : {model.weight, model.bias}) {
      p.value().fill(1);
      p.set_grad(here(Tensor::full(p.shape(), -size)));
    }
    Adafactor(model.parameters(), {}).step(0.1);
    BOOST_TEST(std::abs(model.weight.value().to_vector<double>()[0] - 1.1) < 1e-6);
    BOOST_TEST(std::abs(model.bias.value().to_vector<double>()[0] - 1.025) < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_of_nan_makes_the_parameter_nan) {
  for (const Case& c : all_optimizers()) {
    Parameters model;
    randomise(model);
    set_gradients(model, 1);
    model.bias.set_grad(here(Tensor::of({0.3, NAN, -2}, {3})));
    c.make(model.parameters())->step(0.1);
    BOOST_TEST(std::isnan(model.bias.value().to_vector<double>()[1]));
    BOOST_TEST(std::isfinite(model.weight.value().to_vector<double>()[0]));
  }
}

BOOST_AUTO_TEST_CASE(an_optimizer_that_is_saved_goes_on_as_if_never_stopped) {
  for (const Case& c : all_optimizers()) {
    Parameters straight, resumed;
    randomise(straight);
    randomise(resumed);
    straight.to(DType::f32);
    resumed.to(DType::f32);
    auto train = [](Parameters& model, Optimizer& optimizer, std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t update = begin; update < end; ++update) {
        set_gradients(model, update);
        optimizer.step(0.1);
      }
    };
    auto uninterrupted = c.make(straight.parameters()), before = c.make(resumed.parameters());
    auto after = c.make(resumed.parameters());
    train(straight, *uninterrupted, 0, 6);
    train(resumed, *before, 0, 3);
    after->load_state(before->state(), "a.safetensors");
    train(resumed, *after, 3, 6);
    BOOST_TEST(straight.weight.value().to_vector<float>() == resumed.weight.value().to_vector<float>());
  }
}

BOOST_AUTO_TEST_CASE(the_states_of_optimizers_of_different_parameters_fit_into_one_checkpoint) {
  Parameters model;
  model.to(test_device());
  model.initialise(1);
  std::vector<NamedParameter> first = model.parameters(), last{first.back()};
  first.pop_back();
  NamedTensors all = Adam(first, {}).state();
  const NamedTensors others = Adam(last, {}).state();
  const std::size_t tensors = all.size() + others.size();
  all.insert(others.begin(), others.end());
  BOOST_TEST(all.size() == tensors);
}

BOOST_AUTO_TEST_CASE(a_state_needs_a_name_for_each_parameter) {
  Parameters one, other;
  std::vector<NamedParameter> both = one.parameters();
  both.push_back(other.parameters()[0]);
  const Adam adam(both, {});
  BOOST_TEST(message_of([&] { adam.state(); }) ==
             "optimizer: two parameters are named 'weight'; a checkpoint needs a name of its own for each");
}

BOOST_AUTO_TEST_CASE(the_state_of_another_optimizer_is_refused) {
  Parameters model;
  model.to(test_device());
  model.initialise(1);
  Adam adam(model.parameters(), {});
  Sgd sgd(model.parameters(), {.momentum = 0.9});
  BOOST_TEST(error_of([&] { sgd.load_state(adam.state(), "a.safetensors"); }) ==
             "a.safetensors: the tensors are not those of the model; 3 missing: 'sgd.velocity.bias' [3]; "
             "6 unexpected: 'adam.mean.bias' [3] (the first of each kind is named)");
}

BOOST_AUTO_TEST_CASE(a_count_of_updates_that_cannot_be_is_refused_and_changes_nothing) {
  Parameters model;
  model.to(test_device());
  randomise(model);
  Adafactor adafactor(model.parameters(), {});
  set_gradients(model, 1);
  adafactor.step(0.01);
  NamedTensors before;
  for (const auto& [name, value] : adafactor.state()) before[name] = value.clone();
  for (const auto& [count, text] :
       {std::pair<std::int64_t, const char*>{-5, "-5"}, {INT64_MAX, "9223372036854775807"}}) {
    NamedTensors wrong;
    for (const auto& [name, value] : before) wrong.emplace(name, value.clone()).first->second.fill(7);
    wrong["updates.bias"] = Tensor::from<std::int64_t>({count}, {1});
    BOOST_TEST(error_of([&] { adafactor.load_state(wrong, "a.safetensors"); }) ==
               fmt::format("a.safetensors: 'updates.bias' is {}; it must be in 0 to 2^53", text));
    for (const auto& [name, value] : adafactor.state())
      BOOST_TEST(value.to_vector<double>() == before[name].to_vector<double>(), name);
  }
}

BOOST_AUTO_TEST_CASE(the_clip_scale_bounds_the_norm_of_the_mean) {
  auto scale = [](double norm, double max_norm, double count) {
    return clip_scale(here(Tensor::full({}, norm, DType::f64)), max_norm, count).item();
  };
  BOOST_TEST(scale(6, 3, 1) == 0.5);
  BOOST_TEST(scale(3, 3, 1) == 1);
  BOOST_TEST(scale(6, 3, 2) == 0.5);
  BOOST_TEST(scale(70, 3, 7) == 0.3 / 7);
  BOOST_TEST(scale(70, 0, 7) == 1.0 / 7);
  for (double wrong : {NAN, INFINITY}) BOOST_TEST(scale(wrong, 3, 7) == 1.0 / 7);
  for (const auto& [most, text] : {std::pair(NAN, "nan"), {-1., "-1"}})
    BOOST_TEST(
        error_of([&, most = most] { scale(6, most, 1); }) ==
        fmt::format("clip: the largest norm is {}; it must be a positive number, or 0 to turn clipping off", text));
  BOOST_TEST(error_of([&] { scale(0, 1, 0); }) ==
             "clip: the gradients are sums over 0 items; there must be some, to take a mean");
  BOOST_TEST(error_of([&] { clip_scale(here(Tensor::full({3}, 1)), 1); }) ==
             "clip_scale: the norm is f32 [3]; it must be f64 [], as global_norm() returns it");
  Parameters model;
  randomise(model);
  set_gradients(model, 1);
  BOOST_TEST(error_of([&] { Adam(model.parameters(), {}).step(0.1, here(Tensor::full({}, 1))); }) ==
             "optimizer: the gradient scale is f32 []; it must be f64 []");
}

BOOST_AUTO_TEST_CASE(a_parameter_may_be_a_number) {
  class Temperature : public Module {
   public:
    Temperature() : value(parameter("value", {}, Initializer::ones())) {}
    Variable value;
  };
  for (const Case& c : all_optimizers())
    for (const Tensor& scale : {Tensor(), here(Tensor::full({1}, 1, DType::f64))}) {
      Temperature model;
      model.to(test_device());
      model.initialise(1);
      model.value.set_grad(here(Tensor::full({}, 2)));
      c.make(model.parameters())->step(0.1, scale);
      BOOST_TEST(model.value.item() < 1);
    }
}

BOOST_AUTO_TEST_CASE(a_clipped_step_takes_no_wait) {
  Parameters model;
  randomise(model);
  set_gradients(model, 1);
  Adam adam(model.parameters(), {});
  const std::uint64_t before = kernels(test_device()).synchronizations();
  adam.step(1e-3, clip_scale(gradient_norm(model.parameters()), 1, 17));
  BOOST_TEST(kernels(test_device()).synchronizations() == before);
}

BOOST_AUTO_TEST_CASE(clipping_bounds_the_joint_norm) {
  Parameters model;
  randomise(model);
  set_gradients(model, 1);
  std::vector<double> before = model.weight.grad().value().to_vector<double>();
  double squares = 0;
  for (const Variable* p : {&model.weight, &model.bias})
    for (double g : p->grad().value().to_vector<double>()) squares += g * g;
  double norm = std::sqrt(squares);

  BOOST_TEST(std::abs(clip_gradients(model.parameters(), 2 * norm).item() - norm) < 1e-12);
  BOOST_TEST(std::abs(clip_gradients(model.parameters(), 0).item() - norm) < 1e-12);  // 0: any norm will do
  BOOST_TEST(model.weight.grad().value().to_vector<double>() == before);
  BOOST_TEST(std::abs(clip_gradients(model.parameters(), norm / 4).item() - norm) < 1e-12);
  std::vector<double> after = model.weight.grad().value().to_vector<double>();
  for (std::size_t i = 0; i < after.size(); ++i) BOOST_TEST(std::abs(after[i] - before[i] / 4) < 1e-14);
  BOOST_TEST(std::abs(clip_gradients(model.parameters(), norm).item() - norm / 4) < 1e-12);

  set_gradients(model, 1);  // scaled as they are read: the same update
  Parameters scaled;
  randomise(scaled);
  set_gradients(scaled, 1);
  Sgd a(model.parameters(), {}), b(scaled.parameters(), {});
  b.step(0.1, clip_scale(gradient_norm(scaled.parameters()), norm / 4));
  clip_gradients(model.parameters(), norm / 4);
  a.step(0.1);
  BOOST_TEST(largest_difference(model.weight.value(), scaled.weight.value()) < 1e-15);

  after = model.weight.grad().value().to_vector<double>();
  for (double wrong : {NAN, INFINITY}) {
    model.bias.set_grad(here(Tensor::of({1, wrong, 2}, {3})));
    BOOST_TEST(!std::isfinite(clip_gradients(model.parameters(), 1).item()));
    BOOST_TEST(model.weight.grad().value().to_vector<double>() == after);
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_that_two_parameters_share_is_clipped_once) {
  class Pair : public Module {
   public:
    Pair() : a(parameter("a", {3}, Initializer::ones())), b(parameter("b", {3}, Initializer::ones())) {}
    Variable a, b;
  } pair;
  pair.to(test_device());
  pair.initialise(1);
  backward(sum((pair.a + pair.b) * 2.0));
  BOOST_TEST(clip_gradients(pair.parameters(), std::sqrt(6.0)).item() == std::sqrt(24.0));
  for (const Variable* p : {&pair.a, &pair.b})
    BOOST_TEST(largest_difference(p->grad().value(), here(Tensor::full({3}, 1))) < 1e-6);
}

BOOST_AUTO_TEST_CASE(a_parameter_under_two_names_is_refused) {
  Parameters model;
  std::vector<NamedParameter> parameters = model.parameters();
  parameters.push_back(parameters[0]);
  parameters.back().name = "tied";
  for (const Case& c : all_optimizers())
    BOOST_TEST(message_of([&] { c.make(parameters); }) ==
               "optimizer: 'weight' and 'tied' are the same parameter; list it once");
}

BOOST_AUTO_TEST_CASE(zero_grad_drops_what_backward_would_add_to) {
  Linear layer(3, 1);
  layer.to(test_device());
  layer.initialise(1);
  Adam optimizer(layer.parameters(), {});
  Tensor x = here(Tensor::full({1, 3}, 2));
  for (int k = 0; k < 2; ++k) {
    optimizer.zero_grad();
    BOOST_TEST(!layer.weight().grad().defined());
    backward(layer.forward(x));
    BOOST_TEST(layer.weight().grad().value().to_vector<double>() == std::vector<double>(3, 2));
  }
}

BOOST_AUTO_TEST_CASE(every_optimizer_fits_a_line) {
  for (const Case& c : all_optimizers()) {
    Linear layer(2, 1);
    layer.to(test_device());
    layer.initialise(1);
    layer.to(DType::f64);
    auto optimizer = c.make(layer.parameters());
    Tensor x = random_tensor({64, 2}, 1);
    Variable y = Variable(x.slice(1, 0, 1)) * 0.5 - Variable(x.slice(1, 1, 2)) * 0.25 + 0.125;
    double first = 0, last = 0;
    for (int update = 0; update < 200; ++update) {
      optimizer->zero_grad();
      Variable loss = mean(square(layer.forward(x) - y));
      backward(loss);
      optimizer->step(0.05);
      (update == 0 ? first : last) = loss.item();
    }
    BOOST_TEST(last < 0.1 * first);
  }
}

BOOST_AUTO_TEST_CASE(a_parameter_that_gets_its_first_gradient_late_is_corrected_by_its_own_count) {
  Parameters model, resumed;
  for (Parameters* each : {&model, &resumed}) {
    each->to(test_device());
    each->initialise(1);
    each->to(DType::f64);
  }
  const Adam::Options options{.beta2 = 0.999, .epsilon = 1e-12};
  Adam adam(model.parameters(), options), before(resumed.parameters(), options), after(resumed.parameters(), options);
  auto update = [](Parameters& of, Optimizer& optimizer, int k) {
    optimizer.zero_grad();
    of.weight.set_grad(here(Tensor::full({7, 19}, 1, DType::f64)));
    if (k >= 90) of.idle.set_grad(here(Tensor::full({2}, 1, DType::f64)));
    optimizer.step(1e-3);
  };
  for (int k = 0; k < 95; ++k) {
    const double from = model.idle.value().to_vector<double>()[0];
    update(model, adam, k);
    const double moved = from - model.idle.value().to_vector<double>()[0];
    BOOST_TEST(std::abs(moved - (k < 90 ? 0 : 1e-3)) < 1e-9, "update " << k);
    update(resumed, k < 91 ? static_cast<Optimizer&>(before) : after, k);
    if (k == 90) after.load_state(before.state(), "a.safetensors");
  }
  BOOST_TEST(model.idle.value().to_vector<double>() == resumed.idle.value().to_vector<double>());
  BOOST_TEST(model.weight.value().to_vector<double>() == resumed.weight.value().to_vector<double>());
}

BOOST_AUTO_TEST_CASE(a_checkpoint_without_counts_of_parameters_is_read_as_if_all_had_all_updates) {
  Parameters model;
  randomise(model);
  Adam first(model.parameters(), {}), second(model.parameters(), {});
  for (std::uint64_t update = 0; update < 3; ++update) {
    set_gradients(model, update);
    first.step(0.1);
  }
  NamedTensors old = first.state();
  old["updates"] = Tensor::from<std::int64_t>({4}, {1});  // as until parameters had counts and for a while after
  second.load_state(old, "a.safetensors");
  for (const auto& [name, value] : first.state())
    BOOST_TEST(second.state().at(name).to_vector<double>() == value.to_vector<double>());

  std::erase_if(old, [](const auto& entry) { return entry.first.starts_with("updates."); });
  old["updates"] = Tensor::from<std::int64_t>({3}, {1});
  second.load_state(old, "a.safetensors");
  for (const auto& [name, value] : second.state())
    if (name.starts_with("updates")) BOOST_TEST(value.item() == 3);
}

BOOST_AUTO_TEST_CASE(options_that_are_no_numbers_are_refused) {
  Parameters model;
  model.initialise(1);
  auto refusal = [&](const Adam::Options& options) { return error_of([&] { Adam(model.parameters(), options); }); };
  BOOST_TEST(refusal({.beta1 = NAN}) == "Adam: beta1 is nan; it must be in [0, 1)");
  BOOST_TEST(refusal({.beta2 = 1}) == "Adam: beta2 is 1; it must be in [0, 1)");
  BOOST_TEST(refusal({.epsilon = NAN}) == "Adam: epsilon is nan; it must be finite and at least 0");
  BOOST_TEST(refusal({.weight_decay = NAN}) == "Adam: weight_decay is nan; it must be finite and at least 0");
  BOOST_TEST(error_of([&] { Sgd(model.parameters(), {.momentum = NAN}); }) ==
             "Sgd: momentum is nan; it must be finite and at least 0");
  BOOST_TEST(error_of([&] { Lion(model.parameters(), {.beta1 = NAN}); }) == "Lion: beta1 is nan; it must be in [0, 1)");
  BOOST_TEST(error_of([&] { Lion(model.parameters(), {.beta2 = 1}); }) == "Lion: beta2 is 1; it must be in [0, 1)");
  BOOST_TEST(error_of([&] { Lion(model.parameters(), {.weight_decay = -1}); }) ==
             "Lion: weight_decay is -1; it must be finite and at least 0");
  BOOST_TEST(error_of([&] { Adafactor(model.parameters(), {.weight_decay = NAN}); }) ==
             "Adafactor: weight_decay is nan; it must be finite and at least 0");
  Sgd sgd(model.parameters(), {});
  BOOST_TEST(error_of([&] { sgd.step(NAN); }) == "optimizer: the learning rate is nan; it must be a finite number");
}

BOOST_AUTO_TEST_CASE(adafactor_stays_finite_where_one_row_has_no_gradient_beside_large_ones) {
  for (float size : {1e8F, 1e12F, 1e14F}) {
    Variable p(Tensor::of({1, 2, 3, 4, 5, 6}, {3, 2}, DType::f32).to(test_device()), true);
    p.set_grad(Variable(Tensor::of({0, 0, size, size / 2, 0, size}, {3, 2}, DType::f32).to(test_device())));
    Adafactor({{"p", p, {}}}, {}).step(0.1);
    for (double x : p.value().to_vector<double>()) BOOST_TEST(std::isfinite(x), size);
    BOOST_TEST(p.value().to_vector<double>()[0] == 1);  // no gradient, no step
  }
}

BOOST_AUTO_TEST_CASE(parameters_that_share_memory_are_refused_by_every_optimizer) {
  const Tensor memory = Tensor::of({1, 2, 3, 4}, {2, 2}).to(test_device());
  const Variable a(memory, true), b(memory.slice(0, 1, 2), true), apart(memory.clone(), true);
  for (const auto& make : {+[](std::vector<NamedParameter> all) { Lion(std::move(all), {}); },
                           +[](std::vector<NamedParameter> all) { Adafactor(std::move(all), {}); },
                           +[](std::vector<NamedParameter> all) { Adam(std::move(all), {}); }}) {
    BOOST_TEST(error_of([&] {
                 make({{"a", a, {}}, {"apart", apart, {}}, {"b", b, {}}});
               }) == "optimizer: 'a' and 'b' share memory; make them one parameter");
    BOOST_TEST(error_of([&] { make({{"a", a, {}}, {"apart", apart, {}}}); }) == "");
  }
}
