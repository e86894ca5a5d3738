// Windows between pointers that the caller gives, hard windows with a dilation, positions on a grid; and the blocks of
// the blockwise engine, which leave out keys that no query sees.
#include <algorithm>
#include <cmath>
#include <limits>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "attention/engine/blocks.h"
#include "attention/layers/multi_head.h"
#include "autograd/gradcheck.h"
#include "tensor/storage.h"
#include "tests/attention/attentions.h"

using namespace fovea;
using namespace fovea::test;

namespace {

constexpr std::int64_t B = 2, H = 2, T = 7, d = 6;

const AttentionEngine all_engines[]{AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fastest};

double largest_difference(const Variable& a, const Variable& b) {
  BOOST_REQUIRE(a.shape() == b.shape());
  const std::vector<double> x = a.value().to_vector<double>(), y = b.value().to_vector<double>();
  double largest = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double difference = std::abs(x[k] - y[k]);
    largest = difference <= largest ? largest : difference;  // a NaN stays
  }
  return largest;
}

/// Copies the parameters of `from` to an attention that has the same parameters or some of them.
void copy_parameters(Attention& to, Attention& from) {
  for (auto& parameter : to.parameters())
    for (auto& other : from.parameters())
      if (parameter.name == other.name) Variable(parameter.variable).value().copy_from(other.variable.value());
}

Tensor integers(const std::vector<std::int64_t>& values, const Shape& shape) { return Tensor::from(values, shape); }

/// Positions of left and right pointers for two sentences, two heads and seven queries, in all orders.
struct Pointers {
  Tensor left, right;
};
Pointers some_pointers() {
  std::vector<std::int64_t> left, right;
  for (std::int64_t k = 0; k < B * H * T; ++k) {
    left.push_back(3 * k % 7 == 1 ? k % 7 : k % 4);
    right.push_back(3 * k % 7 == 1 ? k % 7 : 6 - k % 5);
  }
  return {integers(left, {B, H, T}), integers(right, {B, H, T})};
}

/// Distributions [..., T] with 1 at the position.
Tensor one_hot(const Tensor& positions) {
  std::vector<double> rows;
  for (std::int64_t at : positions.to_vector<std::int64_t>())
    for (std::int64_t j = 0; j < T; ++j) rows.push_back(j == at ? 1 : 0);
  Shape shape = positions.shape();
  shape.push_back(T);
  return Tensor::from(rows, shape);
}

AttentionInput input_of(const Variable& x, bool causal) {
  return {.query = x,
          .key = x,
          .value = x,
          .key_lengths = Tensor::from(std::vector<std::int32_t>{7, 5}, {2}),
          .causal = causal};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_windows)

// ---- Pointers that the caller gives

BOOST_AUTO_TEST_CASE(pointers_as_positions_equal_distributions_with_all_mass_at_one_key) {
  const Pointers given = some_pointers();
  for (const char* options : {"", ",mask=exact", ",mask=prob_or", ",use=additive", ",use=additive,mask=exact",
                              ",segment=3", ",segment=2,mask=exact", ",use=additive,segment=3", ",renormalize=true"})
    for (bool causal : {false, true})
      for (AttentionEngine engine : all_engines) BOOST_TEST_CONTEXT(options << (causal ? ", causal" : "")) {
          AttentionEngineScope chosen(engine, 3);
          auto attention = random_attention(fmt::format("window(pointers=given{})", options),
                                            causal ? Place::decoder : Place::encoder);
          Generator generator(61);
          const Variable x(random_tensor({B, T, d}, generator), true);
          const Tensor cotangent = random_tensor({B, T, d}, generator);
          auto run = [&](const Variable& left, const Variable& right) {
            AttentionInput input = input_of(x, causal);
            input.left_pointer = left;
            input.right_pointer = right;
            AttentionTrace trace;
            if (engine == AttentionEngine::composed) input.trace = &trace;
            const Variable out = attention->forward(input);
            std::vector<Variable> all{out, grad(out, {x}, cotangent)[0]};
            for (const TracedQuantity& quantity : trace.quantities) all.push_back(quantity.value);
            return all;
          };
          const auto hard = run(given.left, given.right);
          for (const auto& soft :
               {run(one_hot(given.left), one_hot(given.right)), run(given.left, one_hot(given.right)),
                run(one_hot(given.left), given.right.to(DType::i32))})
            for (std::size_t k = 0; k < hard.size(); ++k) BOOST_TEST(largest_difference(hard[k], soft[k]) < 1e-12);
        }
}

BOOST_AUTO_TEST_CASE(the_distributions_of_learned_pointers_when_given_make_the_same_window) {
  for (const char* options : {"", "mask=exact", "use=additive", "segment=3", "renormalize=true,mask=prob_or"})
    for (bool causal : {false, true}) {
      const Place place = causal ? Place::decoder : Place::encoder;
      auto learned = random_attention(fmt::format("window({})", options), place),
           given = random_attention(fmt::format("window(pointers=given{}{})", *options ? "," : "", options), place);
      copy_parameters(*given, *learned);
      Generator generator(62);
      const Variable x = random_tensor({B, T, d}, generator);
      AttentionTrace trace;
      AttentionInput input = input_of(x, causal);
      input.trace = &trace;
      const Variable expected = learned->forward(input);
      for (const TracedQuantity& quantity : trace.quantities) {
        if (quantity.name == "left_pointer") input.left_pointer = quantity.value;
        if (quantity.name == "right_pointer") input.right_pointer = quantity.value;
      }
      input.trace = nullptr;
      for (AttentionEngine engine : all_engines) {
        AttentionEngineScope chosen(engine, 3);
        BOOST_TEST(largest_difference(given->forward(input), expected) < 1e-12, options);
      }
    }
}

// Nguyen et al. 2020, eq. 6 and Figure 1: for l = 2 and r = 7 of ten keys the window is 0011111100. For l = 7 and r = 2
// it is empty by eq. 6, and the same window by eq. 9.
BOOST_AUTO_TEST_CASE(a_window_between_two_positions_is_that_of_the_paper) {
  auto window = [](const std::string& options, std::int64_t l, std::int64_t r) {
    auto attention = random_attention("window(pointers=given" + options + ")", Place::cross);
    Generator generator(63);
    AttentionTrace trace;
    attention->forward({.query = random_tensor({1, 1, d}, generator),
                        .key = random_tensor({1, 10, d}, generator),
                        .value = random_tensor({1, 10, d}, generator),
                        .left_pointer = integers({l}, {1, 1, 1}),
                        .right_pointer = integers({r}, {1, 1, 1}),
                        .trace = &trace});
    std::string text;
    for (const TracedQuantity& quantity : trace.quantities) {
      if (quantity.name != "window") continue;
      for (double m : quantity.value.value().slice(1, 0, 1).to_vector<double>())
        text += std::to_string(static_cast<int>(m));
    }
    return text;
  };
  BOOST_TEST(window("", 2, 7) == "0011111100");
  BOOST_TEST(window("", 7, 2) == "0011111100");
  BOOST_TEST(window("", 4, 4) == "0000200000");  // l = j = r counts twice
  BOOST_TEST(window(",mask=exact", 4, 4) == "0000100000");
  BOOST_TEST(window(",mask=discrete", 2, 7) == "0011111100");
  BOOST_TEST(window(",mask=discrete", 7, 2) == "0000000000");
  BOOST_TEST(window(",mask=discrete,segment=3", 4, 7) == "0001111110");
}

BOOST_AUTO_TEST_CASE(a_segment_longer_than_the_row_is_the_row) {
  Generator generator(77);
  auto random = [&] { return Variable(random_tensor({1, 1, T, d}, generator)); };
  AttentionContext in;
  in.query = random(), in.key = random(), in.value = random();
  std::vector<Capture> pointers;
  for (int k = 0; k < 2; ++k)
    pointers.insert(pointers.end(), {{Per::query_vector, random()}, {Per::key_vector, random()}});
  auto run = [&](AttentionEngine engine, std::int64_t segment) {
    AttentionEngineScope chosen(engine);
    PointerWindow window{};
    window.segment = segment, window.pointer_scale = 1;
    Plan plan;
    plan.windows.push_back({window, pointers});
    return attend(in, plan, 0, nullptr);
  };
  const Variable expected = run(AttentionEngine::composed, T);
  for (std::int64_t segment : {T + 1, std::int64_t{1} << 40, std::numeric_limits<std::int64_t>::max()})
    for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise, AttentionEngine::fused})
      BOOST_TEST(largest_difference(run(engine, segment), expected) < 1e-12);
}

BOOST_AUTO_TEST_CASE(a_window_of_no_keys_is_empty) {
  for (const char* specification : {"window", "window(mask=discrete)"}) {
    auto attention = random_attention(specification, Place::encoder);
    const Variable x = Tensor::zeros({B, 0, d}, DType::f64);
    BOOST_TEST(attention->forward({.query = x, .key = x, .value = x}).shape() == x.shape());
  }
}

BOOST_AUTO_TEST_CASE(without_a_pointer_the_window_reaches_to_the_first_or_last_key) {
  auto attention = random_attention("window(pointers=given,mask=exact)", Place::encoder);
  auto plain = random_attention("global", Place::encoder);
  copy_parameters(*plain, *attention);
  Generator generator(64);
  const Variable x = random_tensor({B, T, d}, generator);
  BOOST_TEST(largest_difference(attention->forward(input_of(x, false)), plain->forward(input_of(x, false))) < 1e-14);
}

BOOST_AUTO_TEST_CASE(given_distributions_have_their_gradients) {
  for (const char* options : {"", ",mask=exact,segment=2", ",use=additive"}) {
    auto attention = random_attention(fmt::format("window(pointers=given{})", options), Place::encoder);
    Generator generator(65);
    const Tensor x = random_tensor({1, 5, d}, generator);
    auto f = [&](const std::vector<Variable>& pointers) {
      return attention->forward(
          {.query = x, .key = x, .value = x, .left_pointer = pointers[0], .right_pointer = pointers[1]});
    };
    const std::vector<Variable> pointers{Variable(random_tensor({1, 2, 5, 5}, generator, 0, 1), true),
                                         Variable(random_tensor({1, 1, 1, 5}, generator, 0, 1), true)};
    BOOST_TEST(gradcheck(f, pointers) == "", options);
  }
}

BOOST_AUTO_TEST_CASE(pointers_of_a_wrong_shape_or_type_are_errors_of_one_line) {
  auto attention = random_attention("window(pointers=given)", Place::encoder);
  auto discrete = random_attention("window(pointers=given,mask=discrete)", Place::encoder);
  Generator generator(66);
  const Tensor x = random_tensor({B, T, d}, generator);
  auto refused = [&](Attention& of, const Variable& left, const std::string& text) {
    BOOST_CHECK_EXCEPTION(of.forward({.query = x, .key = x, .value = x, .left_pointer = left}), Error,
                          [&](const Error& error) { return std::string(error.what()).starts_with(text); });
  };
  const std::string expected = "attention: left_pointer is ";
  refused(*attention, integers({1, 2}, {1, 1, 2}),
          expected + "i64 [1, 1, 2]; expected positions, i32 or i64 [2, 2, 7]");
  refused(*attention, Tensor::zeros({B, H, T}, DType::f64), expected);
  refused(*attention, Tensor::zeros({B, H, T, 3}, DType::f64), expected);
  refused(*discrete, Tensor::zeros({1, 1, 1, T}, DType::f64), "window: mask=discrete needs two positions");
  refused(*random_attention("average(window(pointers=given), dot)", Place::encoder), integers({1}, {1}), expected);
  BOOST_CHECK_THROW(random_attention("window(pointers=given,forward_only=true)", Place::encoder), Error);
}

// ---- Dilation

BOOST_AUTO_TEST_CASE(a_dilation_equals_a_mask_of_every_nth_key) {
  struct Case {
    const char* specification;
    std::int64_t left, right, step[2];  // of both heads
  };
  for (const Case& c : {Case{"sliding(left=2,right=1,dilation=3)", 2, 1, {3, 3}},
                        Case{"heads(sliding(left=2,right=1)*1, sliding(left=2,right=1,dilation=4)*1)", 2, 1, {1, 4}},
                        Case{"sliding(left=9,right=9,dilation=16)", 9, 9, {16, 16}}})
    for (Place place : all_places())
      for (std::int64_t queries : {1, 4, 50})
        for (AttentionEngine engine : all_engines) BOOST_TEST_CONTEXT(c.specification << ", blocks of " << queries) {
            AttentionEngineScope chosen(engine, queries);
            const std::int64_t I = place == Place::cross ? 41 : 53, J = 53;
            std::vector<std::uint8_t> allowed;
            for (std::int64_t step : c.step)
              for (std::int64_t i = 0; i < I; ++i)
                for (std::int64_t j = 0; j < J; ++j)
                  allowed.push_back((j - i) % step == 0 && i - c.left * step <= j && j <= i + c.right * step);
            auto dilated = random_attention(c.specification, place), plain = random_attention("global", place);
            copy_parameters(*plain, *dilated);
            Generator generator(67);
            const Variable key(random_tensor({B, J, d}, generator), true),
                query = place == Place::cross ? Variable(random_tensor({B, I, d}, generator), true) : key;
            const Tensor cotangent = random_tensor({B, I, d}, generator);
            AttentionInput input{.query = query,
                                 .key = key,
                                 .value = key,
                                 .key_lengths = Tensor::from(std::vector<std::int32_t>{53, 20}, {2}),
                                 .causal = place == Place::decoder};
            const Variable out = dilated->forward(input);
            input.allowed = Tensor::from(allowed, {1, H, I, J});
            const Variable expected = plain->forward(input);
            BOOST_TEST(largest_difference(out, expected) < 1e-12);
            BOOST_TEST(largest_difference(grad(out, {key}, cotangent)[0], grad(expected, {key}, cotangent)[0]) < 1e-11);
          }
}

// Blocks of queries that are the least common multiple of the steps apart: the sixteenth is beyond 64 bits.
BOOST_AUTO_TEST_CASE(dilations_may_have_any_common_multiple) {
  auto attention =
      random_attention("sliding(dilation=1048576)+sliding(dilation=1048575)+sliding(dilation=1048573)", Place::encoder);
  Generator generator(76);
  const Variable x = random_tensor({B, T, d}, generator);
  auto run = [&](AttentionEngine engine) {
    AttentionEngineScope chosen(engine);
    return attention->forward(input_of(x, false));
  };
  BOOST_TEST(largest_difference(run(AttentionEngine::blockwise), run(AttentionEngine::composed)) < 1e-12);
  AttentionContext in;
  in.query = in.key = in.value = random_tensor({1, 1, T, d}, generator);
  in.query_positions = in.key_positions = Tensor::arange(T, DType::f64);
  Plan plan;  // of a method's author, whose steps may be of any size
  plan.dilations = {{5}, {std::int64_t{1} << 62}};
  AttentionEngineScope blocks(AttentionEngine::blockwise);
  BOOST_TEST(largest_difference(attend(in, plan, 0, nullptr), in.value) < 1e-12);  // a query sees its own key alone
}

BOOST_AUTO_TEST_CASE(every_engine_draws_the_same_dropout_in_blocks_of_some_keys) {
  for (const char* specification :
       {"sliding(left=5,right=3)", "sliding(left=5,right=3,dilation=3)", "heads(sliding(left=5)*1, global*1)",
        "sliding(left=4,right=2,dilation=2)+fine_grained(hidden=2)", "sliding(left=2,right=0)+sinks(tokens=1)"}) {
    auto attention = attention_factory(specification)({.model_dim = d, .heads = 2, .dropout = 0.4});
    attention->initialise(5);
    attention->to(DType::f64);
    attention->train(true);
    Generator generator(68);
    const Variable x(random_tensor({B, 300, d}, generator), true);
    auto run = [&](AttentionEngine engine) {
      AttentionEngineScope chosen(engine, 40);
      RandomScope random({77});
      const Variable out = attention->forward({.query = x, .key = x, .value = x});
      return std::pair(out, grad(sum(square(out)), {x})[0]);
    };
    const auto composed = run(AttentionEngine::composed), blocks = run(AttentionEngine::blockwise);
    BOOST_TEST(largest_difference(composed.first, blocks.first) < 1e-12, specification);
    BOOST_TEST(largest_difference(composed.second, blocks.second) < 1e-11, specification);
  }
}

// ---- Blocks

// Heads with different windows are in separate blocks; parts of the plan that act on all heads are then divided between
// the blocks.
BOOST_AUTO_TEST_CASE(computing_heads_in_separate_blocks_changes_nothing) {
  const std::vector<std::string> windows{"sliding(left=1,right=1,heads=1)",
                                         "sliding(left=2,right=0,dilation=2,heads=2)",
                                         "sliding(left=1,right=0,heads=1)+sliding(left=1,right=1,dilation=3,heads=2)",
                                         "sinks(tokens=2,heads=1)+sliding(left=1,right=1,heads=2)"};
  for (const std::string sum : {"global",
                                "additive(hidden=2)",
                                "additive(hidden=2,heads=1)",
                                "general",
                                "location(longest=5)",
                                "relative(clip=2)",
                                "relative_2d(clip=2)",
                                "t5(buckets=4,max_distance=3)",
                                "gaussian",
                                "dman(clip=2)",
                                "sman(width=fixed,distance=3)",
                                "persistent(vectors=2)",
                                "sinks(logit=true)",
                                "differential",
                                "laplace(learned=true)",
                                "local_p(half_width=2)",
                                "adaptive_span(ramp=2,longest=4)",
                                "window(pointers=given)",
                                "window(pointers=given,use=additive)",
                                "window",
                                "sparsemax",
                                "fine_grained(hidden=2)",
                                "grouped+rotary",
                                "man",
                                "talking_heads"})
    for (const std::string& window : windows) BOOST_TEST_CONTEXT(sum << "+" << window) {
        if (sum == "sinks(logit=true)" && window.starts_with("sinks")) continue;
        auto attention = random_attention(sum + "+" + window, Place::encoder);
        Generator generator(74);
        std::vector<Variable> inputs{Variable(random_tensor({B, 2 * T, d}, generator), true)};
        for (auto& parameter : attention->parameters()) inputs.push_back(parameter.variable);
        const Tensor cotangent = random_tensor({B, 2 * T, d}, generator);
        auto run = [&](AttentionEngine engine) {
          AttentionEngineScope chosen(engine, 3);
          AttentionTrace trace;
          AttentionInput input = input_of(inputs[0], false);
          input.mask = test_mask(2 * T, 2 * T);
          input.trace = &trace;
          const Variable out = attention->forward(input);
          std::vector<Variable> all{out, trace.weights};
          for (const Variable& gradient : grad(out, inputs, cotangent)) all.push_back(gradient);
          return all;
        };
        const auto together = run(AttentionEngine::composed), apart = run(AttentionEngine::blockwise);
        for (std::size_t k = 0; k < together.size(); ++k)
          BOOST_TEST(largest_difference(together[k], apart[k]) < 1e-11, "result " << k);
      }
}

// The bounds of local_p and the mask of man are of two heads, which may lie before or behind those of a block.
BOOST_AUTO_TEST_CASE(blocks_of_other_heads_do_not_read_the_windows_of_some) {
  for (const char* specification : {"heads(local_p(half_width=2)*2, sliding(left=1)*1, sinks(tokens=1)*1)",
                                    "heads(sinks(tokens=1)*1, sliding(left=1)*1, local_p(half_width=2)*2)",
                                    "heads(man*2, sliding(left=1)*1, sinks(tokens=1)*1)"}) {
    auto attention = attention_factory(specification)({.model_dim = 8, .heads = 4, .place = Place::encoder});
    attention->to(DType::f64);
    Generator generator(75);
    for (auto& parameter : attention->parameters())
      Variable(parameter.variable).value().copy_from(random_tensor(parameter.variable.shape(), generator));
    const Variable x = random_tensor({B, T, 8}, generator);
    const Tensor mask = random_tensor({1, 4, T, T}, generator, 0, 1);
    auto run = [&](AttentionEngine engine) {
      AttentionEngineScope chosen(engine, 3);
      return attention->forward({.query = x, .key = x, .value = x, .mask = mask});
    };
    BOOST_TEST(largest_difference(run(AttentionEngine::blockwise), run(AttentionEngine::composed)) < 1e-12,
               specification);
  }
}

namespace {

/// The pairs that the blockwise engine computes for all heads of one sentence of n tokens.
std::int64_t pairs_of(const std::string& specification, std::int64_t n, const Tensor& documents = {},
                      Place place = Place::encoder, std::int64_t queries = 0) {
  auto attention = random_attention(specification, place);
  Generator generator(69);
  const Variable x = random_tensor({1, n, d}, generator);
  auto [in, plan] =
      dynamic_cast<MultiHeadAttention&>(*attention)
          .call({.query = x, .key = x, .value = x, .documents = documents, .causal = place == Place::decoder});
  std::int64_t pairs = 0, covered = 0;
  for (const PairBlock& block : pair_blocks(in, plan, queries)) {
    pairs += block.heads.count * block.queries.count * block.keys.count;
    covered += block.heads.count * block.queries.count;
  }
  BOOST_TEST(covered == H * n);
  return pairs;
}

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_leave_out_keys_that_no_query_sees) {
  constexpr std::int64_t n = 4096, all = H * n * n;
  BOOST_TEST(pairs_of("global", n) == all);
  BOOST_TEST(pairs_of("global", n, {}, Place::decoder) < all * 0.6);
  // for windows of w keys, a block computes less than 3 w keys for each query
  const std::int64_t band = 3 * H * n * 129;
  BOOST_TEST(pairs_of("sliding(left=64,right=64)", n) < band);
  for (int dilation : {2, 4, 16})
    BOOST_TEST(pairs_of(fmt::format("sliding(left=64,right=64,dilation={})", dilation), n) < band);
  BOOST_TEST(pairs_of("sliding(left=64,right=64)+alibi+relative+gaussian+relative_2d", n) < band);
  BOOST_TEST(pairs_of("heads(sliding(left=64,right=64)*1, sliding(left=64,right=64,dilation=8)*1)+t5", n) < band);
  BOOST_TEST(pairs_of("heads(sliding(left=64,right=64)*1, global*1)", n) < all / 2 + band);
  BOOST_TEST(pairs_of("local_m(half_width=5)", n, {}, Place::encoder, 1) < H * n * 12);
  // exceptions: pointers over all keys, and heads that read each other
  BOOST_TEST(pairs_of("sliding(left=64,right=64)+window", n) == all);
  BOOST_TEST(pairs_of("heads(sliding(left=64,right=64)*1, global*1)+talking_heads", n) == all);
  std::vector<std::int64_t> numbers;
  for (std::int64_t t = 0; t < n; ++t) numbers.push_back(t / 256);
  BOOST_TEST(pairs_of("global", n, integers(numbers, {1, n})) <= H * n * 512);
}

// A matrix of all pairs would be 16 times as large.
BOOST_AUTO_TEST_CASE(the_memory_of_a_dilated_window_is_linear_in_the_number_of_positions) {
  auto attention = random_attention("sliding(left=8,right=8,dilation=4)", Place::encoder);
  AttentionEngineScope blocks(AttentionEngine::blockwise);
  auto peak_bytes = [&](std::int64_t n) {
    Generator generator(70);
    const Variable x(random_tensor({1, n, d}, generator), true);
    const std::size_t before = allocator_statistics().bytes_in_use;
    reset_peak();
    grad(sum(attention->forward({.query = x, .key = x, .value = x})), {x});
    return static_cast<double>(allocator_statistics().peak_bytes - before);
  };
  peak_bytes(500);
  const double few = peak_bytes(1000), many = peak_bytes(4000);
  BOOST_TEST(many < 6 * few, fmt::format("{} bytes for 1000 positions, {} for 4000", few, many));
}

// ---- Positions on a grid

BOOST_AUTO_TEST_CASE(a_grid_of_one_row_equals_relative_positions_of_a_sequence) {
  for (Place place : {Place::encoder, Place::decoder}) {
    auto grid = random_attention("relative_2d(clip=2)", place),
         sequence = random_attention("relative(clip=2,values=false)", place);
    copy_parameters(*sequence, *grid);
    for (auto& parameter : grid->parameters())
      for (auto& other : sequence->parameters())
        if (parameter.name == "relative_2d.columns" && other.name == "relative.key_table")
          Variable(other.variable).value().copy_from(parameter.variable.value());
    Generator generator(71);
    const Variable x = random_tensor({B, T, d}, generator);
    AttentionInput input = input_of(x, place == Place::decoder);
    const Variable expected = sequence->forward(input);
    BOOST_TEST(largest_difference(grid->forward(input), expected) < 1e-12);
    std::vector<std::int64_t> positions;
    for (std::int64_t t = 0; t < T; ++t) positions.insert(positions.end(), {4, t + 9});
    input.grid = integers(positions, {T, 2});
    BOOST_TEST(largest_difference(grid->forward(input), expected) < 1e-12);
  }
}

// z_ij = q_i (k_j + R + C) / sqrt(D), by loops over numbers, for two sentences with different grids.
BOOST_AUTO_TEST_CASE(relative_positions_on_a_grid_are_those_of_the_paper) {
  constexpr std::int64_t clip = 1, D = 3;
  auto attention = random_attention("relative_2d(clip=1)", Place::encoder);
  auto& multi_head = dynamic_cast<MultiHeadAttention&>(*attention);
  Generator generator(72);
  const Variable x = random_tensor({B, T, d}, generator, -2, 2);
  std::vector<std::int64_t> grid;
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t t = 0; t < T; ++t) grid.insert(grid.end(), {t / (3 + b), t % (3 + b)});
  auto [in, plan] = multi_head.call({.query = x, .key = x, .value = x, .grid = integers(grid, {B, T, 2})});
  const std::vector<double> q = in.query.value().to_vector<double>(), k = in.key.value().to_vector<double>();
  std::vector<double> tables[2];
  for (auto& parameter : attention->parameters()) {
    if (parameter.name == "relative_2d.rows") tables[0] = parameter.variable.value().to_vector<double>();
    if (parameter.name == "relative_2d.columns") tables[1] = parameter.variable.value().to_vector<double>();
  }
  std::vector<double> expected;
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t i = 0; i < T; ++i) {
        std::vector<double> e;
        double total = 0;
        for (std::int64_t j = 0; j < T; ++j) {
          double z = 0;
          for (std::int64_t c = 0; c < D; ++c) {
            double key = k[static_cast<std::size_t>(((b * H + h) * T + j) * D + c)];
            for (std::int64_t axis : {0, 1}) {
              const std::int64_t distance = grid[static_cast<std::size_t>(((b * T) + j) * 2 + axis)] -
                                            grid[static_cast<std::size_t>(((b * T) + i) * 2 + axis)];
              key += tables[axis][static_cast<std::size_t>((std::clamp(distance, -clip, clip) + clip) * D + c)];
            }
            z += q[static_cast<std::size_t>(((b * H + h) * T + i) * D + c)] * key;
          }
          e.push_back(std::exp(z / std::sqrt(double(D))));
          total += e.back();
        }
        for (double y : e) expected.push_back(y / total);
      }
  for (AttentionEngine engine : all_engines) {
    AttentionEngineScope chosen(engine, 3);
    AttentionTrace trace;
    attend(in, plan, 0, &trace);
    BOOST_TEST(largest_difference(trace.weights, Tensor::from(expected, {B, H, T, T})) < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(decoding_with_a_memory_works_on_a_grid) {
  auto attention = random_attention("relative_2d(clip=2)", Place::decoder);
  Generator generator(73);
  const Tensor x = random_tensor({B, T, d}, generator);
  std::vector<std::int64_t> grid;
  for (std::int64_t t = 0; t < T; ++t) grid.insert(grid.end(), {t / 3, t % 3});
  const Tensor whole_grid = integers(grid, {1, T, 2});
  const Variable whole = attention->forward({.query = x, .key = x, .value = x, .grid = whole_grid, .causal = true});
  DecoderMemory memory;
  for (std::int64_t t = 0; t < T; ++t) {
    const Tensor step = x.slice(1, t, t + 1);
    const Variable out = attention->forward({.query = step,
                                             .key = step,
                                             .value = step,
                                             .grid = whole_grid.slice(1, 0, t + 1),
                                             .causal = true,
                                             .query_offset = t,
                                             .memory = &memory});
    BOOST_TEST(largest_difference(out, slice(whole, 1, t, t + 1)) < 1e-12);
  }
  BOOST_CHECK_EXCEPTION(
      attention->forward({.query = x, .key = x, .value = x, .grid = whole_grid.slice(1, 0, 3)}), Error,
      [](const Error& error) {
        return std::string(error.what()).starts_with("attention: the grid is i64 [1, 3, 2]; expected");
      });
}

BOOST_AUTO_TEST_SUITE_END()
