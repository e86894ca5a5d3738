// What a backward rule keeps is what it was, or the pass says so; and what was never given a value.
#include <functional>

#include <boost/test/unit_test.hpp>

#include "autograd/operations.h"
#include "tests/autograd/random_inputs.h"
#include "tests/refusal.h"

using namespace fovea;
using namespace fovea::test;

namespace {

/// The root that backward starts from, and a tensor that its graph keeps.
struct Kept {
  Variable root;
  Tensor tensor;
};

struct KeptCase {
  const char* says;  ///< operation and tensor, as the error names them
  std::function<Kept()> make;
};

/// The cases; `inputs` gets the leaves that they make.
std::vector<KeptCase> kept_cases(std::vector<Variable>& inputs) {
  auto index = [] { return here(Tensor::from(std::vector<std::int32_t>{0, 2, 1, 2}, {2, 2})); };
  auto input = [&](const Shape& shape) { return inputs.emplace_back(random_input(shape, 1)); };
  return {
      {"multiply: input 1, f64 [3],",
       [=] {
         Variable a = input({3}), b = input({3});
         return Kept{a * b, b.value()};
       }},
      {"multiply: input 1, 'b', f64 [3],",
       [=] {
         Variable a = input({3}), b = input({3}).named("b");
         return Kept{a * b, b.value()};
       }},
      {"multiply: a constant input, f64 [3],",
       [=] {
         Variable constant(input({3}).value());
         return Kept{input({3}) * constant, constant.value()};
       }},
      {"exp: input 0, f64 [3],",
       [=] {
         Variable middle = input({3}) + 1.0;
         return Kept{exp(middle), middle.value()};
       }},
      {"where: its condition, bool [2, 3],",
       [=] {
         Tensor condition = here(Tensor::of({1, 0, 1, 1, 0, 0}, {2, 3}, DType::boolean));
         return Kept{where(condition, input({2, 3}), input({3})), condition};
       }},
      {"softmax: its result, f64 [2, 3],",
       [=] {
         Variable y = softmax(input({2, 3}));
         return Kept{y, y.value()};
       }},
      {"log_softmax: its result, f64 [2, 3],",
       [=] {
         Variable y = log_softmax(input({2, 3}));
         return Kept{y, y.value()};
       }},
      {"gather_rows: its index, i32 [2, 2],",
       [=] {
         Tensor rows = index();
         return Kept{gather_rows(input({3, 4}), rows), rows};
       }},
      {"scatter_rows: its index, i32 [2, 2],",
       [=] {
         Tensor rows = index();
         return Kept{scatter_rows(input({2, 2, 4}), rows, 3), rows};
       }},
      {"gather_last: its index, i32 [2, 2],",
       [=] {
         Tensor places = index();
         return Kept{gather_last(input({2, 3}), places), places};
       }},
      {"scatter_last: its index, i32 [2, 2],",
       [=] {
         Tensor places = index();
         return Kept{scatter_last(input({2, 2}), places, 3), places};
       }},
      {"cross_entropy: its targets, i32 [2],",
       [=] {
         Tensor targets = here(Tensor::from(std::vector<std::int32_t>{1, 2}, {2}));
         return Kept{cross_entropy(input({2, 3}), targets, {}), targets};
       }},
      {"lstm_cell: its result, f64 [2, 3],",
       [=] {
         LstmState state = lstm_cell(input({2, 12}), input({2, 3}));
         return Kept{state.hidden, state.cell.value()};
       }},
  };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(saved)

BOOST_AUTO_TEST_CASE(whatever_a_rule_keeps_is_refused_once_it_has_changed_in_place) {
  std::vector<Variable> inputs;
  for (bool create_graph : {false, true})
    for (const KeptCase& one : kept_cases(inputs)) {
      Kept unchanged = one.make(), kept = one.make();
      auto pass = [&](const Kept& of) {
        return message_of([&] { backward(sum(of.root), {}, {.create_graph = create_graph}); });
      };
      BOOST_TEST(pass(unchanged) == "no error", one.says);
      std::uint64_t version = kept.tensor.version();
      kept.tensor.fill(1);
      BOOST_TEST(pass(kept) == fmt::format("{} was saved for the backward pass and then changed in place (version {}, "
                                           "saved at {}); change a clone instead, or wait for the pass",
                                           one.says, version + 1, version));
    }
  // a gradient with a graph of its own holds its leaf, which holds the gradient
  for (Variable& leaf : inputs) leaf.clear_grad();
}

BOOST_AUTO_TEST_CASE(a_write_through_a_pointer_is_refused_and_reading_is_not) {
  Variable x = random_input({2, 3}, 1);
  Variable unchanged = x * x, changed = x * x;
  x.value().data<double>(), x.value().address();
  BOOST_TEST(message_of([&] { backward(sum(unchanged)); }) == "no error");
  x.value().mutable_data<double>();
  BOOST_TEST(message_of([&] { backward(sum(changed)); }).find("changed in place") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_refusal_says_where_and_the_engine_is_well_again) {
  Variable x = random_input({2, 3}, 1);
  auto probabilities = [&] {
    Scope outer("encoder"), inner("attention");
    return softmax(x);
  };
  Variable y = probabilities();
  y.value().slice(0, 0, 1).fill(0);  // through a view
  std::string message = message_of([&] { backward(sum(y * y)); });
  BOOST_TEST(message.ends_with("; recorded in encoder.attention"), message);
  BOOST_TEST(message_of([&] { backward(sum(probabilities())); }) == "no error");
}

BOOST_AUTO_TEST_CASE(an_input_that_is_another_tensor_by_now_is_refused) {
  auto message_after = [](const std::function<void(Variable&)>& change) {
    Variable x = random_input({2, 2}, 1);
    Variable y = sum(x * x);
    change(x);
    return message_of([&] { backward(y); });
  };
  std::string refused =
      "multiply: input 1, f64 [2, 2], was saved for the backward pass and then replaced by another tensor, {}; change "
      "a clone instead, or wait for the pass";
  BOOST_TEST(message_after([](Variable&) {}) == "no error");
  BOOST_TEST(message_after([](Variable& x) {
               x.value() = here(Tensor::full({2, 2}, 3, DType::f64));
             }) == fmt::format(fmt::runtime(refused), "f64 [2, 2]"));
  BOOST_TEST(message_after([](Variable& x) { x.value() = here(Tensor::full({3}, 3, DType::f32)); }) ==
             fmt::format(fmt::runtime(refused), "f32 [3]"));
  BOOST_TEST(message_after([](Variable& x) { x.value() = x.value().transpose(0, 1); }) ==
             fmt::format(fmt::runtime(refused), "f64 [2, 2]"));
  BOOST_TEST(message_after([](Variable& x) { x.value() = Tensor(); }) ==
             fmt::format(fmt::runtime(refused), "undefined"));
}

BOOST_AUTO_TEST_CASE(an_undefined_variable_says_so) {
  const std::string undefined = "Variable: undefined; it was never given a value";
  Variable a, x = random_input({3}, 1);
  const std::vector<std::function<void()>> uses = {
      [&] { a.set_grad(a); }, [&] { a.set_grad(x); }, [&] { a.clear_grad(); },
      [&] { a.named("a"); },  [&] { a.value(); },     [&] { std::as_const(a).value(); },
      [&] { a.shape(); },     [&] { a.size(0); },     [&] { a.rank(); },
      [&] { a.dtype(); },     [&] { a.device(); },    [&] { a.item(); },
      [&] { a.detach(); },
  };
  for (const auto& use : uses) BOOST_TEST(message_of(use) == undefined);
  BOOST_TEST(!a.defined());
  BOOST_TEST(!a.requires_grad());
  BOOST_TEST(!a.grad().defined());
  BOOST_TEST(a.is_leaf());
  BOOST_TEST(a.name() == "");
  BOOST_TEST(!a.is_sole_owner());
  BOOST_TEST(message_of([&] { backward(a); }) ==
             "backward: undefined does not depend on anything that requires a gradient");
}

BOOST_AUTO_TEST_CASE(an_operation_names_itself_where_an_operand_is_undefined) {
  const Variable a, x = random_input({3, 3}, 1);
  const Tensor index = here(Tensor::arange(3, DType::i64)), condition = here(Tensor::zeros({3, 3}, DType::boolean));
  const std::vector<std::pair<const char*, std::function<void()>>> uses = {
      {"add", [&] { a + x; }},
      {"add", [&] { x + a; }},
      {"subtract", [&] { x - a; }},
      {"multiply", [&] { a* x; }},
      {"divide", [&] { x / a; }},
      {"divide", [&] { 2 / a; }},
      {"affine", [&] { a + 2; }},
      {"exp", [&] { exp(a); }},
      {"maximum", [&] { maximum(x, a); }},
      {"where", [&] { where(condition, x, a); }},
      {"matmul", [&] { matmul(a, x); }},
      {"matmul", [&] { matmul(x, a); }},
      {"linear", [&] { linear(a, x); }},
      {"linear", [&] { linear(x, a); }},
      {"sum", [&] { sum(a); }},
      {"mean", [&] { mean(a, {0}); }},
      {"maximum_over", [&] { maximum_over(a, 0); }},
      {"sum_to", [&] { sum_to(a, {3}); }},
      {"broadcast_to", [&] { broadcast_to(a, {3}); }},
      {"cumulative_sum", [&] { cumulative_sum(a); }},
      {"reshape", [&] { reshape(a, {9}); }},
      {"permute", [&] { permute(a, {0}); }},
      {"transpose", [&] { transpose(a, 0, 1); }},
      {"unsqueeze", [&] { unsqueeze(a, 0); }},
      {"squeeze", [&] { squeeze(a, 0); }},
      {"slice", [&] { slice(a, 0, 0, 1); }},
      {"slices", [&] { slices(a, 0); }},
      {"select", [&] { select(a, 0, 0); }},
      {"concat",
       [&] {
         concat({a, x}, 0);
       }},
      {"concat",
       [&] {
         concat({x, a}, 0);
       }},
      {"cast", [&] { cast(a, DType::f32); }},
      {"gather_rows", [&] { gather_rows(a, index); }},
      {"scatter_rows", [&] { scatter_rows(a, index, 3); }},
      {"gather_last", [&] { gather_last(a, index); }},
      {"scatter_last", [&] { scatter_last(a, index, 3); }},
      {"softmax", [&] { softmax(a); }},
      {"log_softmax", [&] { log_softmax(a); }},
      {"layer_norm", [&] { layer_norm(x, a, x); }},
      {"add_norm", [&] { add_norm(a, x, {}, 0, x, x); }},
      {"add_norm", [&] { add_norm(x, x, {}, 0, a, x); }},
      {"dropout", [&] { dropout(a, DropoutMask(0.5, {})); }},
      {"dropout", [&] { dropout(a, 0); }},
      {"cross_entropy", [&] { cross_entropy(a, index); }},
      {"lstm_cell", [&] { lstm_cell(x, a); }},
  };
  for (const auto& [what, use] : uses)
    BOOST_TEST(message_of(use) == fmt::format("{}: an operand is undefined; it was never given a value", what));
}

BOOST_AUTO_TEST_CASE(a_gradient_is_like_its_variable) {
  Variable x = random_input({2, 3}, 1);
  BOOST_TEST(message_of([&] { x.set_grad(here(Tensor::zeros({3}, DType::f64))); }) ==
             "set_grad: the gradient is f64 [3], the variable f64 [2, 3]; they must be alike");
  BOOST_TEST(message_of([&] {
               x.set_grad(here(Tensor::zeros({2, 3})));
             }) == "set_grad: the gradient is f32 [2, 3], the variable f64 [2, 3]; they must be alike");
  BOOST_TEST(message_of([&] { x.set_grad(x); }) == "set_grad: a variable cannot be its own gradient");
  x.set_grad(here(Tensor::full({2, 3}, 2, DType::f64)));
  BOOST_TEST(x.grad().value().to_vector<double>()[5] == 2);
}

BOOST_AUTO_TEST_SUITE_END()
