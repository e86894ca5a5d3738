#include "nn/module.h"

#include <cmath>
#include <optional>

#include <boost/test/unit_test.hpp>

#include "autograd/operations.h"
#include "autograd/tape.h"
#include "nn/checkpoint.h"
#include "nn/layers.h"
#include "nn/shapes_only.h"
#include "tensor/storage.h"
#include "tests/device.h"
#include "tests/nn/values.h"

using namespace fovea;
using namespace fovea::test;

namespace {

class Block : public Module {
 public:
  Block() : first_(3, 5), second_(5, 2) {
    child("first", first_);
    scale_ = parameter("scale", {2}, Initializer::ones());
    child("second", second_);
  }
  Variable forward(const Variable& x) const {
    Scope scope = enter();
    return second_.forward(first_.forward(x)) * scale_;
  }

 private:
  Linear first_, second_;
  Variable scale_;
};

class Model : public Module {
 public:
  explicit Model(bool extra = false) : output_(2, 4), dropout_(0.5) {
    child("dropout", dropout_);
    if (extra) child("extra", extra_.emplace(7, 7));
    child("block", block_);
    child("output", output_);
  }
  Variable forward(const Variable& x) const { return output_.forward(block_.forward(x)); }
  using Module::child;

 private:
  std::optional<Linear> extra_;
  Block block_;
  Linear output_;
  Dropout dropout_;
};

std::vector<double> values_of(const Module& module, const std::string& name) {
  return state(module).at(name).to_vector<double>();
}

}  // namespace

BOOST_AUTO_TEST_CASE(shapes_only_are_counted_without_memory) {
  const std::size_t before = allocator_statistics().bytes_in_use;
  std::optional<Model> shapes;
  {
    ShapesOnly alone;
    shapes.emplace();
    Linear huge(1 << 20, 1 << 20);  // 4 TiB
    BOOST_TEST(huge.parameter_count() == (std::int64_t{1} << 40) + (1 << 20));
    BOOST_TEST(allocator_statistics().bytes_in_use - before < 4096u);
  }
  Model model;
  BOOST_TEST(shapes->describe() == model.describe());
  BOOST_CHECK_EXCEPTION(shapes->initialise(1), Error, [](const Error& error) {
    return error.what() ==
           std::string("'block.scale' has no memory for values, because it was constructed under ShapesOnly");
  });
  model.to(test_device());
  model.initialise(1);  // made after: whole
}

BOOST_AUTO_TEST_CASE(parameters_have_full_names_in_the_order_of_registration) {
  Model model;
  std::vector<std::string> names;
  for (const NamedParameter& p : model.parameters()) names.push_back(p.name);
  std::vector<std::string> expected = {"block.scale",         "block.first.weight", "block.first.bias",
                                       "block.second.weight", "block.second.bias",  "output.weight",
                                       "output.bias"};
  BOOST_TEST(names == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(counts_add_up) {
  Model model;
  BOOST_TEST(model.parameter_count() == 2 + (15 + 5) + (10 + 2) + (8 + 4));
  std::vector<ModuleCount> counts = model.module_counts();
  BOOST_TEST(counts.size() == 5u);
  BOOST_TEST(counts[0].name == "");
  BOOST_TEST(counts[1].name == "block");
  BOOST_TEST(counts[1].parameters == 34);
  BOOST_TEST(counts[3].name == "block.second");
  BOOST_TEST(counts[3].parameters == 12);
  BOOST_TEST(model.describe().find("block.first.weight   [3, 5]  Xavier-uniform           15\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_name_is_given_once_and_has_no_dot) {
  Model model;
  Linear other(1, 1);
  BOOST_TEST(error_of([&] { model.child("block", other); }) ==
             "module '' already has a parameter or module named 'block'");
  BOOST_TEST(error_of([&] { model.child("a.b", other); }) ==
             "'a.b' cannot name a parameter or module: names are not empty and have no dot");
  BOOST_TEST(error_of([&] { model.child("", other); }).find("not empty") != std::string::npos);
  model.child("other", other);
  BOOST_TEST(error_of([&] { model.child("again", other); }) ==
             "module 'again' is already part of another module, as 'other'");
}

BOOST_AUTO_TEST_CASE(initial_values_depend_on_the_seed_and_the_name_only) {
  Model plain, larger(true), reseeded;
  plain.to(test_device());
  plain.initialise(11);
  larger.to(test_device());
  larger.initialise(11);
  reseeded.to(test_device());
  reseeded.initialise(12);
  BOOST_TEST(values_of(plain, "block.first.weight") == values_of(larger, "block.first.weight"));
  BOOST_TEST(values_of(plain, "output.weight") == values_of(larger, "output.weight"));
  BOOST_TEST(values_of(plain, "output.weight") != values_of(reseeded, "output.weight"));

  Model f64;
  f64.to(DType::f64);
  f64.to(test_device());
  f64.initialise(11);
  std::vector<double> wide = values_of(f64, "output.weight"), narrow = values_of(plain, "output.weight");
  for (std::size_t i = 0; i < wide.size(); ++i) BOOST_TEST(static_cast<float>(wide[i]) == narrow[i]);
}

BOOST_AUTO_TEST_CASE(parameters_of_one_shape_start_apart) {
  class Twins : public Module {
   public:
    Twins() : a_(3, 3), b_(3, 3) {
      child("twin_a", a_);
      child("twin_b", b_);
    }

   private:
    Linear a_, b_;
  } twins;
  twins.to(test_device());
  twins.initialise(1);
  std::vector<double> a = values_of(twins, "twin_a.weight"), b = values_of(twins, "twin_b.weight");
  for (std::size_t i = 0; i < a.size(); ++i) BOOST_TEST(a[i] != b[i]);
}

BOOST_AUTO_TEST_CASE(a_model_that_was_not_initialised_shows_it) {
  Model model;
  model.to(test_device());
  BOOST_TEST(std::isnan(sum(model.forward(here(Tensor::full({1, 3}, 1)))).item()));
}

BOOST_AUTO_TEST_CASE(initial_values_have_the_distribution_they_name) {
  struct Case {
    Initializer initializer;
    Shape shape;
    std::string description;
    double mean, deviation, bound;
  };
  double xavier = std::sqrt(6.0 / (200 + 300)), vector = std::sqrt(6.0 / 60001), inf = INFINITY;
  std::vector<Case> cases = {
      {Initializer::xavier_uniform(), {200, 300}, "Xavier-uniform", 0, xavier / std::sqrt(3.0), xavier},
      {Initializer::uniform(0, 1), {60000}, "U(0, 1)", 0.5, 1 / std::sqrt(12.0), 1},
      {Initializer::xavier_uniform(), {60000}, "Xavier-uniform", 0, vector / std::sqrt(3.0), vector},
      {Initializer::xavier_uniform(), {3, 200, 300}, "Xavier-uniform", 0, xavier / std::sqrt(3.0), xavier},
      {Initializer::uniform(0.25), {200, 300}, "U(-0.25, 0.25)", 0, 0.25 / std::sqrt(3.0), 0.25},
      {Initializer::normal(0.0442), {200, 300}, "N(0, 0.0442)", 0, 0.0442, inf},
      {Initializer::zeros(), {200, 300}, "zeros", 0, 0, 0},
      {Initializer::ones(), {200, 300}, "ones", 1, 0, 1},
      {Initializer::constant(-0.5), {200, 300}, "constant -0.5", -0.5, 0, 0.5},
  };
  for (const Case& c : cases) {
    BOOST_TEST_CONTEXT(c.description << " " << c.shape.str()) {
      BOOST_TEST(c.initializer.description == c.description);
      Generator generator(3);
      Tensor values = Tensor::empty(c.shape, DType::f64);
      c.initializer.fill(values, generator);
      double sum = 0, squares = 0, largest = 0, n = static_cast<double>(values.elements());
      for (double x : values.to_vector<double>()) {
        sum += x;
        squares += (x - c.mean) * (x - c.mean);
        largest = std::max(largest, std::abs(x));
      }
      // 5 standard errors of the mean and of the deviation
      BOOST_TEST(std::abs(sum / n - c.mean) <= 5 * c.deviation / std::sqrt(n));
      BOOST_TEST(std::abs(std::sqrt(squares / n) - c.deviation) <= 5 * c.deviation / std::sqrt(2 * n));
      BOOST_TEST(largest <= c.bound);
      if (c.bound < inf) BOOST_TEST(largest >= 0.999 * c.bound);
    }
  }
}

BOOST_AUTO_TEST_CASE(training_reaches_every_part) {
  Model model;
  Linear part(1, 1);
  model.child("part", part);
  BOOST_TEST((model.training() && part.training()));
  model.train(false);
  BOOST_TEST((!model.training() && !part.training()));
}

BOOST_AUTO_TEST_CASE(evaluating_leaves_every_part_in_the_mode_it_was_in) {
  Model model, whole;
  Linear part(1, 1), frozen(1, 1);
  model.child("part", part);
  model.child("frozen", frozen);
  whole.child("model", model);
  frozen.train(false);
  {
    Evaluating evaluating(whole);
    Evaluating inside(model);
    BOOST_TEST((!whole.training() && !model.training() && !part.training() && !frozen.training()));
  }
  BOOST_TEST((whole.training() && model.training() && part.training() && !frozen.training()));

  whole.train(false);
  part.train();
  { Evaluating evaluating(whole); }
  BOOST_TEST((!whole.training() && !model.training() && part.training() && !frozen.training()));
}

BOOST_AUTO_TEST_CASE(a_cast_model_is_the_same_model) {
  Model model;
  model.to(test_device());
  model.initialise(1);
  Tensor x = here(Tensor::of({0.5, -1, 2}, {1, 3}));
  std::vector<double> narrow = model.forward(x.to(DType::f32)).value().to_vector<double>();
  model.to(DType::f64);
  std::vector<double> wide = model.forward(x).value().to_vector<double>();
  for (std::size_t i = 0; i < wide.size(); ++i) BOOST_TEST(std::abs(wide[i] - narrow[i]) < 1e-5);
  BOOST_CHECK_THROW(model.to(DType::bf16), Error);
}

BOOST_AUTO_TEST_CASE(the_tape_names_the_module) {
  Model model;
  model.to(test_device());
  model.initialise(1);
  Variable y = model.forward(here(Tensor::full({1, 3}, 1)));
  std::string tape = tape_text(y);
  BOOST_TEST(tape.find("in block.second\n") != std::string::npos, tape);
  BOOST_TEST(model.parameters()[1].variable.name() == "block.first.weight");
}

BOOST_AUTO_TEST_CASE(a_state_that_is_loaded_is_the_state_that_was_saved) {
  Model saved, loaded;
  saved.to(test_device());
  saved.initialise(1);
  loaded.to(test_device());
  loaded.initialise(2);
  NamedTensors values = state(saved);
  values.at("output.bias") = values.at("output.bias").to(DType::f64);  // another type is cast
  load_state(loaded, values, "a.safetensors");
  for (const auto& [name, value] : values) BOOST_TEST(value.to_vector<double>() == values_of(loaded, name));
}

BOOST_AUTO_TEST_CASE(a_state_of_another_model_is_refused_and_changes_nothing) {
  Model model, larger(true);
  model.to(test_device());
  model.initialise(1);
  larger.to(test_device());
  larger.initialise(2);
  std::vector<double> before = values_of(model, "output.weight");
  BOOST_TEST(error_of([&] { load_state(model, state(larger), "a.safetensors"); }) ==
             "a.safetensors: the tensors are not those of the model; 2 unexpected: 'extra.bias' [7] "
             "(the first of each kind is named)");
  BOOST_TEST(error_of([&] { load_state(larger, state(model), "a.safetensors"); }) ==
             "a.safetensors: the tensors are not those of the model; 2 missing: 'extra.bias' [7] "
             "(the first of each kind is named)");
  NamedTensors reshaped = state(larger);
  reshaped.erase("block.scale");
  reshaped["output.weight"] = here(Tensor::zeros({3, 4}));
  BOOST_TEST(error_of([&] { load_state(model, reshaped, "a.safetensors"); }) ==
             "a.safetensors: the tensors are not those of the model; 1 missing: 'block.scale' [2]; "
             "2 unexpected: 'extra.bias' [7]; 1 of another shape: 'output.weight' [3, 4], expected [2, 4] "
             "(the first of each kind is named)");
  BOOST_TEST(before == values_of(model, "output.weight"));
}
