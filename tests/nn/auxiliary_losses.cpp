#include "nn/auxiliary_losses.h"

#include <thread>

#include <boost/test/unit_test.hpp>

#include "autograd/gradcheck.h"
#include "autograd/operations.h"
#include "tests/device.h"
#include "tests/nn/sequence_models.h"
#include "tests/nn/values.h"

using namespace fovea;
using namespace fovea::test;

namespace {

using Values = std::vector<double>;

Values per_sentence(const AuxiliaryLosses& losses, const std::vector<std::int32_t>& lengths) {
  return losses.per_sentence(i32(lengths, {std::ssize(lengths)})).value().to_vector<double>();
}

/// Two sentences, two heads, three queries.
Variable example() { return here(Tensor::of({1, 2, 3, 3, 4, 5, 10, 20, 30, 30, 40, 50}, {2, 2, 3})); }

void check_close(const Values& found, const Values& expected) {
  BOOST_TEST_REQUIRE(found.size() == expected.size());
  for (std::size_t k = 0; k < found.size(); ++k)
    BOOST_TEST(found[k] == expected[k], boost::test_tools::tolerance(1e-12));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(auxiliary_losses)

BOOST_AUTO_TEST_CASE(modules_add_to_the_innermost_object_of_their_thread) {
  BOOST_TEST(AuxiliaryLosses::current() == nullptr);
  {
    AuxiliaryLosses outer;
    {
      AuxiliaryLosses inner;
      BOOST_TEST(AuxiliaryLosses::current() == &inner);
      AuxiliaryLosses::current()->add(&inner, 1, example());
      BOOST_TEST(!inner.empty());
    }
    BOOST_TEST(AuxiliaryLosses::current() == &outer);
    BOOST_TEST(outer.empty());
    AuxiliaryLosses* of_another_thread = &outer;
    std::thread([&] { of_another_thread = AuxiliaryLosses::current(); }).join();
    BOOST_TEST(of_another_thread == nullptr);
  }
  BOOST_TEST(AuxiliaryLosses::current() == nullptr);
}

BOOST_AUTO_TEST_CASE(a_term_is_the_mean_over_heads_and_real_queries) {
  AuxiliaryLosses losses;
  losses.add(&losses, 0.5, example());
  check_close(per_sentence(losses, {3, 3}), {0.5 * 3, 0.5 * 30});
  check_close(per_sentence(losses, {1, 2}), {0.5 * 2, 0.5 * 25});
  check_close(per_sentence(losses, {0, 2}), {0, 0.5 * 25});
}

BOOST_AUTO_TEST_CASE(lengths_that_a_module_knows_win) {
  AuxiliaryLosses losses;
  losses.add(&losses, 1, example(), i32({2, 1}, {2}));
  check_close(per_sentence(losses, {3, 3}), {2.5, 20});
}

BOOST_AUTO_TEST_CASE(what_is_behind_the_end_of_a_sentence_may_be_anything) {
  Tensor values = here(Tensor::of({1, 2, std::nan(""), 3, 4, INFINITY}, {1, 2, 3}));
  Variable leaf(values, true);
  AuxiliaryLosses losses;
  losses.add(&losses, 1, leaf);
  const Variable term = losses.per_sentence(i32({2}, {1}));
  check_close(term.value().to_vector<double>(), {2.5});
  backward(sum(term));
  check_close(leaf.grad().value().to_vector<double>(), {0.25, 0.25, 0, 0.25, 0.25, 0});
}

BOOST_AUTO_TEST_CASE(values_without_sentences_or_queries_hold_for_all) {
  AuxiliaryLosses losses;
  losses.add(&losses, 2, Variable(here(Tensor::of({1, 3}, {1, 2, 1}))));
  check_close(per_sentence(losses, {1, 2, 5}), {4, 4, 4});
}

BOOST_AUTO_TEST_CASE(terms_of_several_owners_are_added) {
  AuxiliaryLosses losses;
  int first = 0, second = 0;
  losses.add(&first, 1, example());
  losses.add(&second, -0.1, Variable(here(Tensor::of({7}, {1, 1, 1}))));
  check_close(per_sentence(losses, {3, 3}), {3 - 0.7, 30 - 0.7});
}

BOOST_AUTO_TEST_CASE(calls_of_one_owner_are_consecutive_queries) {
  AuxiliaryLosses together, steps;
  together.add(&together, 0.3, example());
  for (std::int64_t t = 0; t < 3; ++t) steps.add(&steps, 0.3, slice(example(), 2, t, t + 1));
  for (const std::vector<std::int32_t>& lengths : {std::vector<std::int32_t>{3, 3}, {1, 2}, {2, 1}})
    check_close(per_sentence(steps, lengths), per_sentence(together, lengths));
}

BOOST_AUTO_TEST_CASE(gradients_are_those_of_the_mean) {
  auto loss = [](const std::vector<Variable>& x) {
    AuxiliaryLosses losses;
    int spans = 0;
    losses.add(&losses, -0.1, slice(x[0] * x[0], 2, 0, 1));
    losses.add(&losses, -0.1, slice(x[0] * x[0], 2, 1, 3));
    losses.add(&spans, 0.7, sigmoid(x[1]));
    const Variable weights = here(Tensor::of({1, 10}, {2}));
    return sum(losses.per_sentence(i32({2, 3}, {2})) * weights);
  };
  const std::vector<Variable> inputs{Variable(example().value(), true),
                                     Variable(here(Tensor::of({0.3, -2}, {1, 2, 1})), true)};
  BOOST_TEST(gradcheck(loss, inputs) == "");
}

BOOST_AUTO_TEST_CASE(values_of_another_rank_are_refused) {
  AuxiliaryLosses losses;
  BOOST_TEST(error_of([&] {
               losses.add(&losses, 1, Variable(here(Tensor::of({1, 2}, {1, 2}))));
             }).starts_with("auxiliary losses: the values are "));
}

BOOST_AUTO_TEST_SUITE_END()
