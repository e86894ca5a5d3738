// Every property of attention/properties, on the registry, and what concerns documents in one row.
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "attention/properties/property.h"
#include "autograd/operations/gather.h"
#include "tests/attention/attentions.h"
#include "tests/device.h"

using namespace fovea;
using namespace fovea::test;

namespace {

constexpr std::int64_t d = 6;

/// The specifications on which a property is checked. The two properties that take a thousand evaluations or pairs are
/// checked on single methods, not on sums of methods.
std::vector<std::string> subjects_of(const std::string& property) {
  std::vector<std::string> specifications = all_specifications();
  if (property == "every_method_has_second_derivatives" || property == "rows_of_two_thousand_keys_stay_finite")
    std::erase_if(specifications, [](const std::string& text) { return !find_method(text); });
  // mechanisms without projections of their own, of one head and of several
  else if (!std::getenv("FOVEA_TEST_METHODS"))
    for (const char* mechanism :
         {"classic(dot)", "classic(additive(hidden=2)+gaussian)", "classic(general+local_p(half_width=1))",
          "average(dot*2, laplace)", "concat(additive(hidden=2), general+window, head_input=split)"})
      specifications.emplace_back(mechanism);
  // methods that read queries after rotary has rotated them by their positions
  if (property == "documents_in_one_row_give_the_results_of_separate_rows")
    for (const char* more : {"rotary+local_p(half_width=1)", "rotary(pairs=halves)+general+local_p(half_width=2)",
                             "heads(rotary*1, local_p(half_width=1)*1)", "grouped+rotary+local_p(half_width=1)",
                             "differential+rotary+local_p(half_width=2)", "rotary+additive(hidden=2)",
                             "heads(linear*1, light_convolution(width=4)*1)", "linear+gate"})
      specifications.emplace_back(more);
  return specifications;
}

void check_all(const Property& property, const std::vector<std::string>& specifications) {
  const Outcome outcome = check(property, specifications);
  for (const Failure& failure : outcome.failures)
    BOOST_ERROR(failure.specification << " in place " << static_cast<int>(failure.place) << ": " << failure.reason);
  const bool is_whole = !std::getenv("FOVEA_TEST_METHODS");
  BOOST_TEST(outcome.checked >= (is_whole ? 60 : 0));
}

/// Adds a test for each property to the suite that is being declared. The name of a test is that of its property.
bool add_tests(bool of_gpu) {
  for (const Property& property : all_properties()) {
    if (property.needs_gpu != of_gpu) continue;
    auto* test = boost::unit_test::make_test_case([&property] { check_all(property, subjects_of(property.name)); },
                                                  property.name, __FILE__, __LINE__);
    if (of_gpu)
      test->add_precondition(
          [](boost::unit_test::test_unit_id) { return boost::test_tools::assertion_result(cuda_is_available()); });
    boost::unit_test::framework::current_auto_test_suite().add(test);
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_on_cuda)
const bool has_tests = add_tests(true);
BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(attention_properties)
const bool has_tests = add_tests(false);

// Outputs and gradients for two rows whose documents end at different positions; some documents are longer than a block
// or a chunk of an engine.
BOOST_AUTO_TEST_CASE(long_documents_in_one_row_give_the_results_of_separate_rows) {
  const std::vector<std::vector<std::int64_t>> lengths{{70, 1, 64, 3, 42}, {5, 150, 25}};
  constexpr std::int64_t T = 180;
  std::vector<std::int64_t> numbers;
  for (const auto& row : lengths)
    for (std::size_t k = 0; k < row.size(); ++k) numbers.insert(numbers.end(), row[k], static_cast<std::int64_t>(k));
  const Tensor documents = Tensor::from(numbers, {2, T});
  std::vector<std::string> specifications{"light_convolution(width=4)", "light_convolution(width=5,dynamic=true)",
                                          "sliding(left=3,right=9)+sinks(tokens=2)", "rotary+local_p(half_width=5)"};
  for (const MethodEntry& entry : registered_methods()) specifications.emplace_back(entry.card.name);
  auto compare = [&](const Subject& subject) {
    if (subject.place == Place::cross) return false;
    bool compared = false;
    Generator generator(25);
    const Variable rows(random_tensor({2, T, d}, generator), true);
    const Tensor cotangent = random_tensor({2, T, d}, generator);
    auto run = [&](const Variable& x, std::int64_t first, const Tensor& own) {
      const std::int64_t end = first + x.size(1);
      return subject.attention.forward({.query = x,
                                        .key = x,
                                        .value = x,
                                        .documents = own,
                                        .mask = test_mask(T, T).slice(2, first, end).slice(3, first, end),
                                        .causal = subject.place == Place::decoder});
    };
    for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fastest}) {
      AttentionEngineScope chosen(engine, 48);
      Variable together;
      try {
        together = run(rows, 0, documents);
      } catch (const Error& error) {
        const bool is_refused = std::string(error.what()).find("documents in one row") != std::string::npos;
        if (engine == AttentionEngine::composed && !is_refused) throw;
        continue;
      }
      compared = true;
      const Tensor gradient = grad(together, {rows}, cotangent)[0].value();
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t k = 0, first = 0; k < std::ssize(lengths[b]); first += lengths[b][k++]) {
          AttentionEngineScope plain(AttentionEngine::composed);
          auto own = [&](const Tensor& x) { return x.slice(0, b, b + 1).slice(1, first, first + lengths[b][k]); };
          const Variable x(own(rows.value()), true), alone = run(x, first, {});
          const std::string document = fmt::format("document {} of row {}", k, b);
          require_near(own(together.value()), alone.value(), 1e-11, "the output for " + document);
          require_near(own(gradient), grad(alone, {x}, own(cotangent))[0].value(), 1e-10,
                       "the gradient of " + document);
        }
    }
    return compared;
  };
  check_all({"long_documents", compare}, specifications);
}

BOOST_AUTO_TEST_CASE(documents_of_a_wrong_shape_order_or_place_are_errors) {
  Generator generator(21);
  auto attention = random_attention("global", Place::encoder);
  const Variable x = random_tensor({1, 4, d}, generator);
  auto with = [&](const Tensor& documents) {
    return
        [&attention, x, documents] { attention->forward({.query = x, .key = x, .value = x, .documents = documents}); };
  };
  BOOST_CHECK_EXCEPTION(with(Tensor::from(std::vector<std::int64_t>{1, 2, 1, 1}, {1, 4}))(), Error, [](auto& error) {
    return std::string(error.what()).find("document 1 of row 0 has tokens in two places") != std::string::npos;
  });
  BOOST_CHECK_THROW(with(Tensor::from(std::vector<std::int64_t>{1, 2, 3}, {1, 3}))(), Error);
}

BOOST_AUTO_TEST_SUITE_END()
