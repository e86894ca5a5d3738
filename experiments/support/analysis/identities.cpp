// Statements of the papers about their methods: both sides of each equation are computed on random numbers.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/core.h>

#include "autograd/operations.h"
#include "experiments/support/analysis/commands.h"
#include "experiments/support/attend/attention_case.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/text/split_mix.h"
#include "nn/layers.h"
#include "tensor/random.h"

namespace fovea {

namespace {

using Values = std::vector<double>;

// The random sentences: their number, tokens of each, width of the states; and the tokens that stay the same where
// others behind them change.
constexpr std::int64_t sentences = 2, length = 9, width = 6, same = length - 3;

double largest_difference(const Values& left, const Values& right) {
  require(left.size() == right.size(), "{} numbers and {} cannot be compared", left.size(), right.size());
  double largest = 0;
  for (std::size_t k = 0; k < left.size(); ++k) largest = std::max(largest, std::abs(left[k] - right[k]));
  return largest;
}

/// Random numbers; the same for the same name and seed.
Tensor random_numbers(std::uint64_t seed, const std::string& name, const Shape& shape) {
  Tensor values = Tensor::empty(shape, DType::f64);
  Generator generator(stable_hash(name) + seed);
  fill_normal(values, generator);
  return values;
}
Tensor random_states(std::uint64_t seed) { return random_numbers(seed, "states", {sentences, length, width}); }

/// An attention, its inputs and parameters. Those that are not given are random: parameters of the same name have the
/// same values in all attentions.
struct Call {
  std::string specification;
  Place place = Place::encoder;
  std::map<std::string, Tensor> given = {};
  int heads = 2;
};

/// The quantities that the attention computes, such as its "window", and its "output".
std::map<std::string, Values> computed(std::uint64_t seed, Call call) {
  AttentionCase options{.method = call.specification, .heads = call.heads, .place = call.place, .seed = seed};
  options.precision = AttentionCase::Precision::f64;
  call.given.try_emplace("query", random_states(seed));
  std::map<std::string, Values> all;
  for (const auto& [name, tensor] : attend_case(
           options, {.source = call.specification, .tensors = {call.given.begin(), call.given.end()}, .metadata = {}}))
    all[name] = tensor.to_vector<double>();
  return all;
}
Values output(std::uint64_t seed, const Call& call) { return computed(seed, call).at("output"); }

/// A matrix of all pairs of tokens, [1, 1, length, n], with ones everywhere or on its diagonal only.
Tensor mask_of(bool is_identity) {
  Tensor mask = Tensor::full({1, 1, length, length}, is_identity ? 0 : 1, DType::f64);
  for (std::int64_t i = 0; i < length; ++i) mask.slice(2, i, i + 1).slice(3, i, i + 1).fill(1);
  return mask;
}

/// Fan et al. 2021, section 3: a feed-forward layer is mask attention with M = I, one head and a ReLU.
double feed_forward_difference(std::uint64_t seed) {
  const NoGrad off;
  FeedForward block(width, 2 * width);
  block.to(DType::f64);
  block.train(false);
  std::map<std::string, Tensor> given{{"mask", mask_of(true)}};
  for (auto& p : block.parameters()) {
    Tensor values = p.variable.value();
    values.copy_from(random_numbers(seed, p.name, values.shape()));
    given[(p.name.starts_with("inner") ? "value" : "output") + p.name.substr(5)] = values;
  }
  return largest_difference(
      output(seed, {.specification = fmt::format("man + activation(function=relu, width={})", 2 * width),
                    .given = given,
                    .heads = 1}),
      block.forward(Variable(random_states(seed))).value().to_vector<double>());
}

/// Nguyen et al. 2020, appendix, corrected: m̂ = E(m) + φ_L φ_R, where the expectation is that of the discrete window
/// between independent pointers, which may be in either order. mask=exact is that expectation.
double expected_window_difference(std::uint64_t seed) {
  const auto paper = computed(seed, {"window"});  // [sentences, H, length, length]
  const Values &left = paper.at("left_pointer"), &right = paper.at("right_pointer");
  Values expected(left.size(), 0), window = paper.at("window");
  for (std::size_t row = 0; row < window.size(); row += length)
    for (std::size_t l = 0; l < length; ++l)
      for (std::size_t r = 0; r < length; ++r)
        for (std::size_t j = std::min(l, r); j <= std::max(l, r); ++j)
          expected[row + j] += left[row + l] * right[row + r];
  for (std::size_t k = 0; k < window.size(); ++k) window[k] -= left[k] * right[k];
  return std::max(largest_difference(expected, window),
                  largest_difference(expected, computed(seed, {"window(mask=exact)"}).at("window")));
}

/// Watson's slides: the worked example of fine-grained attention, with four keys and one query of width 2.
double fine_grained_difference(std::uint64_t seed) {
  return largest_difference(output(seed, {.specification = "classic(fine_grained)",
                                          .place = Place::cross,
                                          .given = {{"query", Tensor::of({0.5, 1}, {1, 1, 2})},
                                                    {"key", Tensor::of({1, 0, 0, 1, 1, 1, 0.5, -0.5}, {1, 4, 2})},
                                                    {"fine_grained.query_projection", Tensor::of({1, 0, 0, 1}, {2, 2})},
                                                    {"fine_grained.key_projection", Tensor::of({0.5, 0, 0, 2}, {2, 2})},
                                                    {"fine_grained.bias", Tensor::of({0.1, -0.1}, {2})},
                                                    {"fine_grained.dimensions", Tensor::of({1, 0.5, -1, 0.5}, {2, 2})}},
                                          .heads = 1}),
                            {0.634595, 0.486383});
}

/// The largest difference between the results of the first `same` tokens, with and without others behind them.
double same_token_difference(const Values& left, const Values& right) {
  const auto first = [](const Values& all) {
    Values some;
    for (std::size_t k = 0; k < all.size(); ++k)
      if (k % (all.size() / sentences) < std::size_t(same * width)) some.push_back(all[k]);
    return some;
  };
  return largest_difference(first(left), first(right));
}

double padding_difference(std::uint64_t seed, const std::string& specification) {
  const Tensor lengths = Tensor::from(std::vector<std::int32_t>(sentences, same), {sentences});
  return same_token_difference(output(seed, {.specification = specification, .given = {{"lengths", lengths}}}),
                               output(seed, {.specification = specification,
                                             .given = {{"query", random_states(seed).slice(1, 0, same).clone()}}}));
}

double later_token_difference(std::uint64_t seed, const std::string& specification) {
  Tensor other = random_states(seed);
  other.slice(1, same, length).copy_from(random_numbers(seed, "other tokens", {sentences, length - same, width}));
  return same_token_difference(output(seed, {specification, Place::decoder}),
                               output(seed, {specification, Place::decoder, {{"query", other}}}));
}

/// Fan et al. 2021, eq. 10: |a W_Q - c W_K|² is at most 9 times the largest of the squared distances of the steps a
/// W_Q, b W_K, b W_Q, c W_K. Returns by how much, as a share of that, the distance is above the bound in 10 000 random
/// draws.
double above_distance_bound(std::uint64_t seed) {
  constexpr std::int64_t count = 10'000;
  const NoGrad off;
  const auto draw = [&](const char* name, std::int64_t rows) {
    return Variable(random_numbers(seed, name, {count, rows, width}));
  };
  const Variable a = draw("a", 1), b = draw("b", 1), c = draw("c", 1), query = draw("W_Q", width),
                 key = draw("W_K", width);
  const auto squared = [](const Variable& from, const Variable& to) {
    const Variable step = from - to;
    return sum(step * step, {2}).value().to_vector<double>();
  };
  const Variable aq = matmul(a, query), bq = matmul(b, query), bk = matmul(b, key), ck = matmul(c, key);
  const Values whole = squared(aq, ck), first = squared(aq, bk), second = squared(bk, bq), third = squared(bq, ck);
  double above = 0;
  for (std::size_t k = 0; k < whole.size(); ++k)
    above = std::max(above, whole[k] / std::max({first[k], second[k], third[k]}) - 9);
  return above;
}

/// The largest difference over all kinds of localness.
std::function<double(std::uint64_t)> with_any_method(double (*difference)(std::uint64_t, const std::string&)) {
  return [=](std::uint64_t seed) {
    double largest = 0;
    for (const char* method :
         {"global", "gaussian", "gaussian(window=layer)", "relative", "window", "window(use=additive)", "sman", "dman"})
      largest = std::max(largest, difference(seed, method));
    return largest;
  };
}

struct Identity {
  const char *paper, *statement;
  double tolerance;
  std::function<double(std::uint64_t seed)> difference;
};

/// The difference between the results of two attentions, the largest one if they have a part {score}, which then is
/// each score in turn.
std::function<double(std::uint64_t)> between(const std::string& left, const std::string& right,
                                             Place place = Place::encoder) {
  return [=](std::uint64_t seed) {
    double largest = 0;
    for (const char* score : {"dot", "scaled_dot", "general", "additive", "location"}) {
      const auto with_score = [&](const std::string& text) {
        return fmt::format(fmt::runtime(text), fmt::arg("score", score));
      };
      largest = std::max(largest, largest_difference(output(seed, {with_score(left), place}),
                                                     output(seed, {with_score(right), place})));
    }
    return largest;
  };
}

const std::vector<Identity> statements{
    {"Nguyen", "a window is its expectation, which mask=exact is, and the product of its pointers: m = E(m) + φ_L φ_R",
     1e-12, expected_window_difference},
    {"Nguyen", "segments of one token are tokens", 1e-12, between("window(segment=1)", "window")},
    {"Nguyen", "one segment for all keys: the window is 2 everywhere", 1e-12,
     [](std::uint64_t seed) {
       const Values window = computed(seed, {fmt::format("window(segment={})", length)}).at("window");
       return largest_difference(window, Values(window.size(), 2));
     }},
    {"Yang", "a Gaussian of infinite width changes nothing", 1e-9,
     between("gaussian(window=fixed, width=1000000)", "global")},
    {"Shu", "flexible attention with penalties of 0 and an infinite threshold equals its score alone", 1e-9,
     between("classic(dot + flexible(sigma=1000000))", "classic(dot)", Place::cross)},
    {"Watson", "fine-grained attention: the worked example, c = (0.634595, 0.486383)", 1e-6, fine_grained_difference},
    {"Watson", "padding changes nothing, with any method", 1e-12, with_any_method(padding_difference)},
    {"Watson", "in a decoder, later tokens change nothing", 1e-12, with_any_method(later_token_difference)},
    {"Watson", "local-m with a window over the whole sentence equals its score alone, for any score", 1e-12,
     between("classic({score} + local_m(half_width=100))", "classic({score})")},
    {"Watson", "local-p with a very long window equals its score alone, for any score", 1e-9,
     between("classic({score} + local_p(half_width=1000000))", "classic({score})")},
    {"Fan", "mask attention with M = 1 is self-attention", 0,
     [](std::uint64_t seed) {
       return largest_difference(output(seed, {.specification = "man", .given = {{"mask", mask_of(false)}}}),
                                 output(seed, {"global"}));
     }},
    {"Fan", "mask attention with M = I, one head and a ReLU is a feed-forward layer", 1e-12, feed_forward_difference},
    {"Fan", "a static mask as wide as the sentence is self-attention", 1e-12,
     between("sman(width=fixed, distance=100)", "global")},
    {"Fan", "the distance of a W_Q and c W_K is never above the bound 9 delta", 1e-9, above_distance_bound},
};

}  // namespace

Finding identities(Cli& cli) {
  std::string paper;
  std::uint64_t seed = 1;
  cli.option("--paper", paper, "the paper whose statements are checked; default: all")
      .one_of({"Nguyen", "Yang", "Shu", "Watson", "Fan"});
  cli.option("--seed", seed, "seed of the random numbers");
  cli.parse();
  Table table({"paper", "statement", "largest difference", "tolerance", "holds"});
  std::string broken;
  for (const Identity& each : statements) {
    if (!paper.empty() && paper != each.paper) continue;
    const double difference = each.difference(seed);
    const bool holds = difference <= each.tolerance;  // false for NaN
    table.row({each.paper, each.statement, fmt::format("{:.1e}", difference), fmt::format("{:.0e}", each.tolerance),
               holds ? "yes" : "no"});
    if (!holds) broken += fmt::format("{}{} ({:.3g})", broken.empty() ? "" : "; ", each.statement, difference);
  }
  require(broken.empty(), "does not hold: {}", broken);
  return {.title = "Statements of the papers",
          .notes = {fmt::format("Computed in double precision for {} random sentences of {} tokens; all hold.",
                                sentences, length)},
          .tables = {{"", table}}};
}

}  // namespace fovea
