// Scores, weights by position, and combinations of mechanisms: the worked examples of Watson's slides, and properties
// that all mechanisms have.
#include "autograd/gradcheck.h"
#include "tests/attention/mechanism.h"

using namespace fovea;
using namespace fovea::test;

namespace {

const AttentionShape two_wide{.model_dim = 2, .place = Place::cross};

/// The keys h_0, ..., h_3 and the query s of the slides.
Tensor toy_keys() { return Tensor::of({1, 0, 0, 1, 1, 1, 0.5, -0.5}, {1, 4, 2}); }
Tensor toy_query() { return Tensor::of({0.5, 1}, {1, 1, 2}); }

Mechanism toy(const std::string& specification, std::map<std::string, Values> own = {}, AttentionInput input = {}) {
  return Mechanism(specification, two_wide, std::move(own)).run(toy_query(), toy_keys(), input);
}

const std::map<std::string, Values> additive{{"additive.query_projection", {1, 0, 0, 1}},
                                             {"additive.key_projection", {0.5, 0, 0, 2}},
                                             {"additive.bias", {0.1, -0.1}},
                                             {"additive.vector", {1, -1}}};

/// The decoder's step t.
AttentionInput at_step(std::int64_t t) {
  AttentionInput input;
  input.query_offset = t;
  return input;
}

std::string error_of(const std::string& specification, const AttentionShape& shape) {
  try {
    attention_factory(specification)(shape);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(classic_attention)

BOOST_AUTO_TEST_CASE(scores_of_the_slides) {
  Mechanism dot = toy("classic(dot)");
  check_printed(dot.quantity("scores"), {0.5, 1, 1.5, -0.25});
  check_printed(dot.weights(), {0.171251, 0.282346, 0.465509, 0.080893});
  check_printed(dot.output(), {0.677208, 0.707409});

  Mechanism scaled = toy("classic(scaled_dot)");
  check_printed(scaled.quantity("scores"), {0.353553, 0.707107, 1.06066, -0.176777});
  check_printed(scaled.weights(), {0.198387, 0.282527, 0.402352, 0.116733});
  check_printed(scaled.output(), {0.659106, 0.626513});
  check_equal(toy("classic(global)").weights(), scaled.weights());

  Mechanism general = toy("classic(general)", {{"general.weight", {1, 0.5, 0, 1}}});
  check_printed(general.quantity("scores"), {0.5, 1.25, 1.75, -0.375});
  check_printed(general.weights(), {0.142365, 0.301386, 0.496902, 0.059347});
  check_printed(general.output(), {0.66894, 0.768615});

  Mechanism hidden = toy("classic(additive)", additive);
  check_printed(hidden.quantity("scores"), {0.084201, -0.456914, -0.193464, 0.790737});
  check_printed(hidden.weights(), {0.229011, 0.133307, 0.173487, 0.464195});
  check_printed(hidden.output(), {0.634595, 0.074696});

  const std::map<std::string, Values> rows{{"location.weight", {1, 0, -1, 0.5, 2, 0, 0, 1, 1, 0.5, 0, -1}}};
  Mechanism location = toy("classic(location(longest=6))", rows);
  check_printed(location.quantity("scores"), {0.5, 1, 0.5, 0.75});
  check_printed(location.weights(), {0.202727, 0.33424, 0.202727, 0.260306});
  check_printed(location.output(), {0.535607, 0.406814});
}

BOOST_AUTO_TEST_CASE(keys_beyond_the_table_of_location_have_weight_0) {
  Mechanism location = toy("classic(location(longest=2))", {{"location.weight", {1, 0, 0, 1}}});
  double e = std::exp(0.5);
  check_equal(location.weights(), {1 / (1 + e), e / (1 + e), 0, 0});
  check_equal(toy("classic(location(longest=2)+sinks)", {{"location.weight", {1, 0, 0, 1}}}).weights(),
              location.weights());
}

BOOST_AUTO_TEST_CASE(weights_by_position_of_the_slides) {
  Mechanism mean = toy("classic(mean)");
  check_printed(mean.weights(), {0.25, 0.25, 0.25, 0.25});
  check_printed(mean.output(), {0.625, 0.375});

  const AttentionInput second = at_step(1);
  Mechanism laplace = toy("classic(laplace)", {}, second);
  check_printed(laplace.weights(), {0.18394, 0.5, 0.18394, 0.067668});
  check_printed(laplace.quantity("density_sum"), {0.935547});
  check_printed(laplace.output(), {0.401713, 0.650106});
  check_printed(toy("classic(laplace(normalize=true))", {}, second).weights(),
                {0.196612, 0.534447, 0.196612, 0.072329});

  Mechanism gaussian = toy("classic(gaussian_location)", {}, second);
  check_printed(gaussian.weights(), {0.241971, 0.398942, 0.241971, 0.053991});
  check_printed(gaussian.quantity("density_sum"), {0.936875});
  check_printed(gaussian.output(), {0.510937, 0.613918});
  check_printed(toy("classic(gaussian_location(normalize=true))", {}, second).weights(),
                {0.258274, 0.425822, 0.258274, 0.057629});
  AttentionInput shorter = second;
  shorter.key_lengths = key_lengths({3});
  check_printed(toy("classic(gaussian_location(normalize=true))", {}, shorter).weights(),
                {0.274069, 0.451863, 0.274069, 0});
  check_printed(toy("classic(gaussian_location)", {}, shorter).weights(), {0.241971, 0.398942, 0.241971, 0});
}

BOOST_AUTO_TEST_CASE(far_from_all_keys_normalised_weights_do_not_underflow) {
  for (const char* specification :
       {"classic(gaussian_location(normalize=true))", "classic(laplace(normalize=true,scale=0.01))"})
    check_equal(row_sums(toy(specification, {}, at_step(5000)).weights_variable()), {1});
  check_equal(toy("classic(gaussian_location)", {}, at_step(5000)).weights(), {0, 0, 0, 0}, 0);
}

BOOST_AUTO_TEST_CASE(a_learned_scale_is_a_softplus_and_starts_where_the_option_says) {
  const AttentionInput second = at_step(1);
  double rho = std::log(std::expm1(2.5));
  check_equal(toy("classic(laplace(learned=true))", {{"laplace.rho", {rho}}}, second).weights(),
              toy("classic(laplace(scale=2.5))", {}, second).weights());
  auto fresh = attention_factory("classic(gaussian_location(learned=true,scale=2.5))")(two_wide);
  fresh->initialise(1);
  BOOST_TEST(std::abs(fresh->parameters().at(0).variable.item() - rho) < 1e-6);
}

BOOST_AUTO_TEST_CASE(windows_of_luong) {
  Values points;
  for (int j = 0; j < 8; ++j) points.insert(points.end(), {std::cos(j), std::sin(j)});
  Tensor keys = Tensor::from(points, {1, 8, 2});
  auto local = [&](const std::string& specification, const AttentionInput& input,
                   const std::map<std::string, Values>& own = {}) {
    return Mechanism(specification, two_wide, own).run(toy_query(), keys, input);
  };
  Mechanism middle = local("classic(dot+local_m(half_width=1))", at_step(2));
  check_printed(middle.weights(), {0, 0.527886, 0.350192, 0.121922, 0, 0, 0, 0});
  check_equal(middle.quantity("range"), {1, 3});
  Mechanism first = local("classic(dot+local_m(half_width=1))", at_step(0));
  check_printed(first.weights(), {0.351689, 0.648311, 0, 0, 0, 0, 0, 0});
  Mechanism late = local("classic(dot+local_m(half_width=1))", at_step(9));
  check_printed(late.weights(), {0, 0, 0, 0, 0, 0, 0.302954, 0.697046});
  check_equal(late.quantity("range"), {6, 7});
  check_equal(late.quantity("center"), {7});

  const std::map<std::string, Values> own{{"local_p.projection", {1, 0.25, -0.5, 1}}, {"local_p.vector", {1, -0.5}}};
  Mechanism predicted = local("classic(dot+local_p(half_width=2))", at_step(0), own);
  check_printed(predicted.quantity("center"), {2.801369});
  check_equal(predicted.quantity("range"), {0, 4});
  check_printed(predicted.weights(), {0.004208, 0.077473, 0.188839, 0.088869, 0.021302, 0, 0, 0});
  check_printed(row_sums(predicted.weights_variable()), {0.38069});
  check_printed(predicted.output(), {-0.134421, 0.233322});
  Mechanism window = local("classic(dot+local_m(half_width=2))", at_step(2));
  check_printed(window.weights(), {0.212888, 0.392442, 0.26034, 0.090639, 0.043691, 0, 0, 0});
  Mechanism exact = local("classic(dot+local_p(half_width=2,truncation=exact))", at_step(0), own);
  check_equal(exact.quantity("range"), {1, 4});
  Mechanism literal = local("classic(dot+local_p(half_width=2,center_scale=paper))", at_step(0), own);
  check_printed(literal.quantity("center"), {3.201564});

  Values normalised = predicted.weights();
  for (double& w : normalised) w /= row_sums(predicted.weights_variable())[0];
  check_equal(local("classic(dot+local_p(half_width=2,renormalize=true))", at_step(0), own).weights(), normalised);
  check_equal(local("classic(dot+local_m(half_width=8))", at_step(3)).weights(), local("classic(dot)", {}).weights());
}

BOOST_AUTO_TEST_CASE(windows_without_keys_give_rows_of_zeros) {
  AttentionInput none;
  none.key_lengths = key_lengths({0});
  const std::map<std::string, Values> own{{"local_p.projection", {1, 0.25, -0.5, 1}}, {"local_p.vector", {1, -0.5}}};
  check_equal(toy("classic(dot+local_m)", {}, none).output(), {0, 0}, 0);
  check_equal(toy("classic(dot+local_p)", own, none).output(), {0, 0}, 0);
  check_equal(toy("classic(dot+local_p(half_width=0.1,truncation=exact))", own, {}).weights(), {0, 0, 0, 0}, 0);
  // The table of locations ends before the window begins.
  std::map<std::string, Values> location{{"location.weight", {1, 2}}};
  check_equal(toy("classic(location(longest=1)+local_m(half_width=1))", location, at_step(3)).weights(), {0, 0, 0, 0},
              0);
}

BOOST_AUTO_TEST_CASE(fine_grained_weights_of_the_slides) {
  const std::map<std::string, Values> own{{"fine_grained.query_projection", {1, 0, 0, 1}},
                                          {"fine_grained.key_projection", {0.5, 0, 0, 2}},
                                          {"fine_grained.bias", {0.1, -0.1}},
                                          {"fine_grained.dimensions", {1, 0.5, -1, 0.5}}};
  Mechanism fine = toy("classic(fine_grained)", own);
  BOOST_TEST(fine.weights_variable().shape().str() == "[1, 1, 1, 4, 2]");
  BOOST_TEST(fine.quantity_variable("scores").shape().str() == "[1, 1, 1, 4, 2]");
  check_printed(fine.weights(), {0.229011, 0.264156, 0.133307, 0.26604, 0.173487, 0.303497, 0.464195, 0.166308});
  check_printed(fine.output(), {0.634595, 0.486383});
}

BOOST_AUTO_TEST_CASE(fine_grained_is_one_additive_head_for_each_dimension) {
  AttentionShape shape{.model_dim = 3, .place = Place::cross};
  auto fine = attention_factory("classic(fine_grained)")(shape);
  fine->to(DType::f64);
  Generator generator(12);
  std::map<std::string, Tensor> values;
  for (auto& parameter : fine->parameters()) {
    values[parameter.name] = random_tensor(parameter.variable.shape(), generator);
    parameter.variable.value().copy_from(values[parameter.name]);
  }
  Tensor query = random_tensor({2, 3, 3}, generator), key = random_tensor({2, 5, 3}, generator);
  AttentionInput input{.query = query, .key = key, .value = key, .key_lengths = key_lengths({5, 2})};
  Tensor out = fine->forward(input).value();
  for (std::int64_t k = 0; k < 3; ++k) {
    auto head = attention_factory("classic(additive)")(shape);
    head->to(DType::f64);
    for (auto& parameter : head->parameters()) {
      std::string part = parameter.name.substr(parameter.name.find('.') + 1);
      Tensor value = part == "vector" ? values["fine_grained.dimensions"].select(1, k) : values["fine_grained." + part];
      parameter.variable.value().copy_from(value);
    }
    check_equal(out.slice(2, k, k + 1).to_vector<double>(),
                head->forward(input).value().slice(2, k, k + 1).to_vector<double>());
  }
}

BOOST_AUTO_TEST_CASE(combined_mechanisms_of_the_slides) {
  const AttentionInput second = at_step(1);
  Mechanism average = toy("average(dot, gaussian_location(normalize=true))", {}, second);
  check_printed(average.output(), {0.611285, 0.681345});
  check_printed(average.weights(), {0.171251, 0.282346, 0.465509, 0.080893, 0.258274, 0.425822, 0.258274, 0.057629});
  Mechanism concat = toy("concat(dot, gaussian_location(normalize=true))",
                         {{"output.weight", {0.5, 0, 0, 0.5, 0.5, 0.1, -0.1, 0.5}}}, second);
  check_printed(concat.output(), {0.545757, 0.735882});
  check_printed(toy("concat(dot, gaussian_location(normalize=true), linear=false)", {}, second).output(),
                {0.677208, 0.707409, 0.545363, 0.655282});
}

BOOST_AUTO_TEST_CASE(a_trace_has_the_weights_of_all_mechanisms_in_order) {
  const AttentionShape shape{.model_dim = 2, .place = Place::cross};
  auto mixed = attention_factory("average(mean, average(fine_grained, dot))")(shape);
  mixed->initialise(3);
  mixed->to(DType::f64);
  AttentionTrace trace;
  Tensor query = toy_query(), keys = toy_keys();
  mixed->forward({.query = query, .key = keys, .value = keys, .trace = &trace});
  BOOST_TEST(trace.weights.shape().str() == "[1, 3, 1, 4, 2]");
  check_equal(select(trace.weights, 1, 0).value().to_vector<double>(), Values(8, 0.25));
  BOOST_TEST(trace.quantities.at(1).name == "head_2.head_1.scores");
}

BOOST_AUTO_TEST_CASE(equal_heads_average_to_one_head) {
  std::map<std::string, Values> heads;
  for (const char* head : {"head_1.", "head_2.", "head_3."})
    for (auto& [name, value] : additive) heads[head + name] = value;
  check_equal(toy("average(additive*3)", heads).output(), toy("classic(additive)", additive).output());
}

BOOST_AUTO_TEST_CASE(a_split_concatenation_is_multi_head_attention) {
  // W^Q, W^K, W^V and W^O of multi-head attention; the concatenation has no bias after W^O.
  AttentionShape shape{.model_dim = 6, .heads = 2, .place = Place::cross};
  auto projected = random_attention("heads(global*1, dot*1)", Place::cross);
  auto split = attention_factory("concat(scaled_dot, dot, head_input=split)")(shape);
  split->to(DType::f64);
  for (auto& parameter : split->parameters())
    for (auto& other : projected->parameters()) {
      if (other.name == "output.bias") other.variable.value().fill(0);
      if (other.name == parameter.name) parameter.variable.value().copy_from(other.variable.value());
    }
  Generator generator(5);
  Tensor query = random_tensor({2, 3, 6}, generator), key = random_tensor({2, 5, 6}, generator);
  AttentionInput input{.query = query, .key = key, .value = key, .key_lengths = key_lengths({5, 2})};
  check_equal(projected->forward(input).value().to_vector<double>(), split->forward(input).value().to_vector<double>());
}

BOOST_AUTO_TEST_CASE(the_additive_score_is_that_of_shu_with_its_matrices_side_by_side) {
  // v · tanh(W [q; k]): W_a and U_a are the two halves of W, and there is no b.
  Generator generator(6);
  AttentionShape shape{.model_dim = 3, .place = Place::cross, .key_dim = 4, .value_dim = 4};
  Tensor query = random_tensor({1, 1, 3}, generator), key = random_tensor({1, 5, 4}, generator);
  Tensor both = random_tensor({7, 2}, generator), v = random_tensor({2}, generator);
  Mechanism hidden("classic(additive(bias=false,hidden=2))", shape,
                   {{"additive.query_projection", both.slice(0, 0, 3).to_vector<double>()},
                    {"additive.key_projection", both.slice(0, 3, 7).to_vector<double>()},
                    {"additive.vector", v.to_vector<double>()}});
  hidden.run(query, key);
  Tensor pairs = Tensor::empty({5, 7}, DType::f64);
  pairs.slice(1, 0, 3).copy_from(query.reshape({1, 3}).expand({5, 3}));
  pairs.slice(1, 3, 7).copy_from(key.reshape({5, 4}));
  Variable scores = matmul(tanh(matmul(Variable(pairs), Variable(both))), Variable(v.reshape({2, 1})));
  check_equal(hidden.quantity("scores"), scores.value().to_vector<double>());
}

/// Gradients of the three inputs and of every parameter, d_q = 3, d_k = 2, d_v = 5, with padding.
std::string gradient_difference(const std::string& specification, const AttentionShape& shape) {
  auto attention = attention_factory(specification)(shape);
  attention->to(DType::f64);
  attention->train(false);
  Generator generator(7);
  std::vector<Variable> inputs{Variable(random_tensor({2, 3, 3}, generator), true),
                               Variable(random_tensor({2, 4, 2}, generator), true),
                               Variable(random_tensor({2, 4, 5}, generator), true)};
  for (auto& parameter : attention->parameters()) {
    parameter.variable.value().copy_from(random_tensor(parameter.variable.shape(), generator));
    inputs.push_back(parameter.variable.named(parameter.name));
  }
  auto f = [&](const std::vector<Variable>& x) {
    return attention->forward({.query = x[0], .key = x[1], .value = x[2], .key_lengths = key_lengths({4, 2})});
  };
  return gradcheck(f, inputs);
}

BOOST_AUTO_TEST_CASE(inputs_may_have_three_widths) {
  AttentionShape shape{.model_dim = 4, .place = Place::cross, .query_dim = 3, .key_dim = 2, .value_dim = 5};
  for (const char* specification :
       {"classic(additive(hidden=4))", "classic(general)", "classic(location(longest=7))", "classic(mean)",
        "classic(laplace)", "classic(fine_grained(hidden=2))", "classic(general+local_m(half_width=1))",
        "classic(additive+local_p(half_width=1))", "classic(general+local_p(half_width=1.5,renormalize=true))",
        "classic(fine_grained+local_p(half_width=2,truncation=exact))", "average(additive, general, fine_grained)",
        "concat(additive, mean, width=4)", "concat(dot, fine_grained(hidden=2), head_input=split, width=6)",
        "average(general, concat(mean, laplace))"})
    BOOST_TEST(gradient_difference(specification, shape) == "", specification);
  BOOST_TEST(
      error_of("classic(dot)", shape) ==
      "dot: queries have width 3, keys have width 2; they must be equal (general and additive allow two widths)");
}

BOOST_AUTO_TEST_CASE(decoding_step_by_step_equals_one_call) {
  AttentionShape shape{.model_dim = 3, .place = Place::cross};
  auto attention = attention_factory("average(additive, general, laplace)")(shape);
  attention->to(DType::f64);
  Generator generator(8);
  for (auto& parameter : attention->parameters())
    parameter.variable.value().copy_from(random_tensor(parameter.variable.shape(), generator));
  Tensor query = random_tensor({2, 4, 3}, generator), key = random_tensor({2, 5, 3}, generator);
  AttentionInput input{.query = query, .key = key, .value = key, .key_lengths = key_lengths({5, 3})};
  Tensor whole = attention->forward(input).value();
  DecoderMemory memory;
  for (std::int64_t t = 0; t < 4; ++t) {
    input.query = query.slice(1, t, t + 1);
    input.query_offset = t;
    input.memory = &memory;
    check_equal(attention->forward(input).value().to_vector<double>(), whole.slice(1, t, t + 1).to_vector<double>());
  }
  AttentionInput other = input;
  other.key = other.value = key.slice(1, 0, 4);
  other.key_lengths = {};
  BOOST_CHECK_THROW(attention->forward(other), Error);
}

BOOST_AUTO_TEST_CASE(parameters_are_those_of_the_papers_and_no_others) {
  AttentionShape shape{.model_dim = 10, .place = Place::cross, .key_dim = 20, .value_dim = 20};
  auto count = [&](const std::string& specification) {
    return attention_factory(specification)(shape)->parameter_count();
  };
  BOOST_TEST(count("classic(mean)") == 0);
  BOOST_TEST(count("classic(laplace)") == 0);
  BOOST_TEST(count("classic(gaussian_location(learned=true))") == 1);
  BOOST_TEST(count("classic(general)") == 10 * 20);
  BOOST_TEST(count("classic(additive(hidden=7))") == 10 * 7 + 20 * 7 + 7 + 7);
  BOOST_TEST(count("classic(location(longest=9))") == 10 * 9);
  BOOST_TEST(count("classic(general+local_m)") == 10 * 20);
  BOOST_TEST(count("classic(general+local_p(hidden=3))") == 10 * 20 + 10 * 3 + 3);
  BOOST_TEST(count("classic(fine_grained(hidden=7))") == 10 * 7 + 20 * 7 + 7 + 7 * 20);
  BOOST_TEST(count("concat(general*3, width=5)") == 3 * 10 * 20 + 3 * 20 * 5);
  BOOST_TEST(count("average(general*3)") == 3 * 10 * 20);
  BOOST_TEST(count("concat(multi_head(global, heads=2)*2, width=5)") == 2 * (110 + 2 * 210 + 110) + 20 * 5);
  BOOST_TEST(count("concat(multi_head(global, heads=2, output=false)*2, width=5)") == 2 * (110 + 2 * 210) + 20 * 5);
}

BOOST_AUTO_TEST_CASE(bad_combinations_point_at_the_column) {
  auto error = [](const std::string& specification) { return error_of(specification, two_wide); };
  BOOST_TEST(error("classic()") == "'classic()': classic() is empty (column 1); write classic(additive)");
  BOOST_TEST(error("classic(dot, general)") ==
             "'classic(dot, general)': classic(...) takes one mechanism (column 1); use average(...) or concat(...) "
             "for several");
  BOOST_TEST(error("gaussian + classic(dot)") ==
             "'gaussian + classic(dot)': classic(...) cannot be a term of a sum "
             "(column 12); put the sum inside it: classic(dot + gaussian)");
  BOOST_TEST(error("classic(heads(dot*2))") ==
             "'classic(heads(dot*2))': heads(...) assigns 2 heads, but classic (column 1) has 1");
  BOOST_TEST(
      error("average(heads(dot*1))") ==
      "'average(heads(dot*1))': heads(...) in attention of one head (column 9); use average(...) or concat(...)");
  BOOST_TEST(error("classic(gaussian(heads=3), heads=2)") ==
             "'classic(gaussian(heads=3), heads=2)': heads=3 (column 24), but there are 2 heads");
  BOOST_TEST(error("classic(dot, heads=3)") ==
             "classic: 3 heads do not divide the widths of query, key and value, 2, 2 and 2");
  BOOST_TEST(error("classic(average(dot))") ==
             "'classic(average(dot))': average(...) cannot be a term of a sum (column 9); put the sum inside it: "
             "average(dot + gaussian)");
  BOOST_TEST(error("average(dott)") == "'average(dott)': no method 'dott' (column 9); did you mean 'dot'?");
  BOOST_TEST(
      error("average(gaussian(heads=1))") ==
      "'average(gaussian(heads=1))': heads= in attention of one head (column 24); multi_head(...) has several heads");
  BOOST_TEST(error("concat(dot, widht=3)") ==
             "'concat(dot, widht=3)': concat has no option 'widht' (column 13); did you mean 'width'?");
  BOOST_TEST(error("average(dot*5, head_input=split)") ==
             "average: 5 mechanisms do not divide the width 2 (head_input=split)");
  BOOST_TEST(error("classic(dot, linear=true)") ==
             "'classic(dot, linear=true)': classic has no option 'linear' (column 14); it has heads");
}

/// Heads without projections are the heads of multi-head attention whose projections are identities.
BOOST_AUTO_TEST_CASE(heads_over_the_inputs_are_those_of_identical_projections) {
  constexpr std::int64_t d = 6;
  for (Place place : all_places())
    for (const std::string& sum : std::vector<std::string>{"gaussian(window=query) + gate + relative(clip=2)",
                                                           "heads(window*1, additive + alibi*2)",
                                                           "rotary(heads=2-3) + pointwise('z * a', a=offset:1)"}) {
      if (place == Place::cross && sum.find("relative") != std::string::npos) continue;
      const AttentionShape shape{.model_dim = d, .heads = 3, .place = place};
      const auto classic = attention_factory("classic(" + sum + ", heads=3)")(shape);
      const auto projected = attention_factory(sum)(shape);
      classic->to(DType::f64), projected->to(DType::f64);
      Generator generator(17);
      std::map<std::string, Tensor> drawn;
      for (auto& parameter : classic->parameters()) {
        drawn[parameter.name] = random_tensor(parameter.variable.shape(), generator);
        Variable(parameter.variable).value().copy_from(drawn[parameter.name]);
      }
      for (auto& parameter : projected->parameters()) {
        Tensor value = Variable(parameter.variable).value();
        if (drawn.count(parameter.name)) {
          value.copy_from(drawn[parameter.name]);
          drawn.erase(parameter.name);
          continue;
        }
        value.fill(0);
        if (value.rank() == 2)
          for (std::int64_t k = 0; k < d; ++k) value.select(0, k).select(0, k).fill(1);
      }
      BOOST_TEST(drawn.empty());
      classic->train(false), projected->train(false);
      const Tensor key = random_tensor({2, 5, d}, generator);
      const Tensor query = place == Place::cross ? random_tensor({2, 4, d}, generator) : key;
      const AttentionInput input{.query = query, .key = key, .value = key, .causal = place == Place::decoder};
      check_equal(classic->forward(input).value().to_vector<double>(),
                  projected->forward(input).value().to_vector<double>());
    }
}

BOOST_AUTO_TEST_CASE(bad_mechanisms_with_projections_point_at_the_column) {
  auto error = [](const std::string& specification, std::int64_t query_dim = 0) {
    return error_of(specification, {.model_dim = 8, .heads = 4, .layers = 2, .query_dim = query_dim});
  };
  BOOST_TEST(error("multi_head()") == "'multi_head()': multi_head() is empty (column 1); write multi_head(additive)");
  BOOST_TEST(error("average(mean, multi_head(dot, general))") ==
             "'average(mean, multi_head(dot, general))': multi_head(...) takes one mechanism (column 15); use "
             "average(...) or concat(...) for several");
  BOOST_TEST(error("gaussian + multi_head(dot)") ==
             "'gaussian + multi_head(dot)': multi_head(...) cannot be a term of a sum "
             "(column 12); put the sum inside it: multi_head(dot + gaussian)");
  BOOST_TEST(error("multi_head(average(dot))") ==
             "'multi_head(average(dot))': average(...) cannot be a term of a sum "
             "(column 12); put the sum inside it: average(dot + gaussian)");
  BOOST_TEST(
      error("average(multi_head(dot, hedas=2))") ==
      "'average(multi_head(dot, hedas=2))': multi_head has no option 'hedas' (column 25); did you mean 'heads'?");
  BOOST_TEST(error("average(multi_head(dot, heads=two))") ==
             "'average(multi_head(dot, heads=two))': heads=two (column 31); use an integer from 0 to 1024");
  BOOST_TEST(error("average(mean, multi_head(dot, heads=3))") ==
             "'average(mean, multi_head(dot, heads=3))': multi_head (column 15) has 3 heads, which do not divide the "
             "width 8; heads=N sets them");
  BOOST_TEST(error("average(multi_head(heads(dot*1, mean*2), heads=2), mean)") ==
             "'average(multi_head(heads(dot*1, mean*2), heads=2), mean)': heads(...) assigns 3 heads, but multi_head "
             "(column 9) has 2");
  BOOST_TEST(error("average(multi_head(gaussian(heads=2-3), heads=2), mean)") ==
             "'average(multi_head(gaussian(heads=2-3), heads=2), mean)': heads=2-3 (column 35), but there are 2 heads");
  BOOST_TEST(error("average(multi_head(gaussian(layers=3)), mean)") ==
             "'average(multi_head(gaussian(layers=3)), mean)': layers=3 (column 36), but there are 2 layers");
  BOOST_TEST(error("concat(general, multi_head(dot))", 4) ==
             "'concat(general, multi_head(dot))': multi_head (column 17) has queries 4 wide; they must be as wide as "
             "the model, 8");
  BOOST_TEST(error("average(multi_head(activation(width=12), output=false), mean)") ==
             "average: the output of mechanism 2 is 8 wide, that of mechanism 1 is 12; they must be equally wide");
  BOOST_TEST(error("concat(multi_head(activation(width=12), output=false), mean)").empty());
}

BOOST_AUTO_TEST_CASE(a_mask_has_a_head_for_all_or_for_each_mechanism_or_for_each_head) {
  auto attention =
      random_attention("concat(multi_head(man), multi_head(man, heads=1), average(man, mean))", Place::cross);
  Generator generator(9);
  Tensor x = random_tensor({1, 4, 6}, generator);
  auto output = [&](const Tensor& mask) {
    return attention->forward({.query = x, .key = x, .value = x, .mask = mask}).value().to_vector<double>();
  };
  Tensor masks = random_tensor({1, 3, 4, 4}, generator, 0, 1);
  auto heads = [&](const std::vector<std::int64_t>& of) {  // the mechanisms' masks, one for each head
    std::vector<Variable> all;
    for (std::int64_t k : of) all.emplace_back(masks.slice(1, k, k + 1));
    return concat(all, 1).value();
  };
  check_equal(output(masks), output(heads({0, 0, 1, 2, 2})));
  check_equal(output(masks.slice(1, 1, 2)), output(heads({1, 1, 1})));
  BOOST_TEST(output(masks) != output(heads({0, 1, 1, 2, 2})));
  std::string refused;
  try {
    output(heads({0, 1}));
  } catch (const Error& error) {
    refused = error.what();
  }
  BOOST_TEST(refused ==
             "attention: the mask is f64 [1, 2, 4, 4]; its dimension of heads is 2, expected 1, 3 (one per mechanism) "
             "or 5 (one per head of all mechanisms)");
}

BOOST_AUTO_TEST_CASE(a_head_has_one_score) {
  Tensor x = Tensor::of({1, 2, 3, 4}, {1, 2, 2});
  for (const char* specification : {"dot+general", "classic(additive+mean)", "general(heads=1)+dot(heads=1)"}) {
    auto attention = attention_factory(specification)({.model_dim = 2, .heads = 1});
    attention->to(DType::f64);
    BOOST_CHECK_THROW(attention->forward({.query = x, .key = x, .value = x}), Error);
  }
}

BOOST_AUTO_TEST_SUITE_END()
