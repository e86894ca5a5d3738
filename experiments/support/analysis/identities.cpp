// Statements of the papers about their methods: both sides of each equation are computed on random numbers.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/core.h>

#include "attention/registry.h"
#include "autograd/operations.h"
#include "experiments/support/analysis/commands.h"
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

Values values_of(const Variable& x) { return x.value().to_vector<double>(); }

double largest_difference(const Values& left, const Values& right) {
  require(left.size() == right.size(), "{} numbers and {} cannot be compared", left.size(), right.size());
  double largest = 0;
  for (std::size_t k = 0; k < left.size(); ++k) largest = std::max(largest, std::abs(left[k] - right[k]));
  return largest;
}

/// Random numbers by name: parameters of the same name have the same values in all attentions.
struct Draws {
  std::uint64_t seed;

  Tensor random(const std::string& name, const Shape& shape) const {
    Tensor values = Tensor::empty(shape, DType::f64);
    Generator generator(stable_hash(name) + seed);
    fill_normal(values, generator);
    return values;
  }
  Tensor states() const { return random("states", {sentences, length, width}); }

  /// Gives a module random parameters, but those that are given.
  void fill(Module& module, const std::map<std::string, Tensor>& given = {}) const {
    module.to(DType::f64);
    module.train(false);
    for (auto& parameter : module.parameters()) {
      const auto own = given.find(parameter.name);
      Tensor value = parameter.variable.value();
      value.copy_from(own == given.end() ? random(parameter.name, value.shape()) : own->second);
    }
  }
};

/// An attention and its inputs. Undefined states are replaced by random ones.
struct Call {
  std::string specification;
  Place place = Place::encoder;
  Tensor states = {}, mask = {}, lengths = {}, query = {};
  std::map<std::string, Tensor> parameters = {};
  int heads = 2;
};

/// The quantities that the attention computes, such as its "window", and its "output".
std::map<std::string, Values> computed(const Draws& draws, const Call& call) {
  const NoGrad off;
  const Variable x = call.states.defined() ? call.states : draws.states();
  AttentionTrace trace;
  AttentionInput input{.query = x, .key = x, .value = x, .key_lengths = call.lengths, .trace = &trace};
  if (call.query.defined()) input.query = call.query;
  if (call.mask.defined()) input.mask = call.mask;
  input.causal = call.place == Place::decoder;
  const auto attention =
      attention_factory(call.specification)({.model_dim = x.size(2), .heads = call.heads, .place = call.place});
  draws.fill(*attention, call.parameters);
  std::map<std::string, Values> all{{"output", values_of(attention->forward(input))}};
  for (const auto& [name, value] : trace.quantities) all[name] = values_of(value);
  return all;
}
Values output(const Draws& draws, const Call& call) { return computed(draws, call).at("output"); }

/// A matrix of all pairs of tokens, [1, 1, length, n], with ones everywhere or on its diagonal only.
Tensor mask_of(bool is_identity) {
  Tensor mask = Tensor::full({1, 1, length, length}, is_identity ? 0 : 1, DType::f64);
  for (std::int64_t i = 0; i < length; ++i) mask.slice(2, i, i + 1).slice(3, i, i + 1).fill(1);
  return mask;
}

/// Fan et al. 2021, section 3: a feed-forward layer is mask attention with M = I, one head and a ReLU.
double feed_forward_difference(const Draws& draws) {
  const NoGrad off;
  FeedForward block(width, 2 * width);
  draws.fill(block);
  std::map<std::string, Tensor> same_parameters;
  for (auto& p : block.parameters())
    same_parameters[(p.name.starts_with("inner") ? "value" : "output") + p.name.substr(5)] = p.variable.value();
  return largest_difference(
      output(draws, {.specification = fmt::format("man + activation(function=relu, width={})", 2 * width),
                     .mask = mask_of(true),
                     .parameters = same_parameters,
                     .heads = 1}),
      values_of(block.forward(Variable(draws.states()))));
}

/// Nguyen et al. 2020, appendix, corrected: m̂ = E(m) + φ_L φ_R, where the expectation is that of the discrete window
/// between independent pointers, which may be in either order.
double expected_window_difference(const Draws& draws) {
  const auto all = computed(draws, {"window"});  // [sentences, H, length, n]
  const Values &left = all.at("left_pointer"), &right = all.at("right_pointer"), &window = all.at("window");
  double largest = 0;
  for (std::size_t row = 0; row < window.size(); row += length)
    for (std::int64_t j = 0; j < length; ++j) {
      double expected = 0;
      for (std::int64_t l = 0; l < length; ++l)
        for (std::int64_t r = 0; r < length; ++r)
          if (std::min(l, r) <= j && j <= std::max(l, r))
            expected += left[row + std::size_t(l)] * right[row + std::size_t(r)];
      const std::size_t at = row + std::size_t(j);
      largest = std::max(largest, std::abs(window[at] - expected - left[at] * right[at]));
    }
  return largest;
}

/// Watson's slides: the worked example of fine-grained attention, with four keys and one query of width 2.
double fine_grained_difference(const Draws& draws) {
  return largest_difference(
      output(draws, {.specification = "classic(fine_grained)",
                     .place = Place::cross,
                     .states = Tensor::of({1, 0, 0, 1, 1, 1, 0.5, -0.5}, {1, 4, 2}),
                     .query = Tensor::of({0.5, 1}, {1, 1, 2}),
                     .parameters = {{"fine_grained.query_projection", Tensor::of({1, 0, 0, 1}, {2, 2})},
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

double padding_difference(const Draws& draws, const std::string& specification) {
  const Tensor lengths = Tensor::from(std::vector<std::int32_t>(sentences, same), {sentences});
  return same_token_difference(
      output(draws, {.specification = specification, .lengths = lengths}),
      output(draws, {.specification = specification, .states = draws.states().slice(1, 0, same).clone()}));
}

double later_token_difference(const Draws& draws, const std::string& specification) {
  Tensor other = draws.states();
  other.slice(1, same, length).copy_from(draws.random("other tokens", {sentences, length - same, width}));
  return same_token_difference(output(draws, {specification, Place::decoder}),
                               output(draws, {specification, Place::decoder, other}));
}

/// Fan et al. 2021, eq. 10: |a W_Q - c W_K|² is at most 9 times the largest of the squared distances of the steps a
/// W_Q, b W_K, b W_Q, c W_K. Returns by how much, as a share of that, the distance is above the bound in 10 000 random
/// draws.
double above_distance_bound(const Draws& draws) {
  constexpr std::int64_t count = 10'000;
  const NoGrad off;
  const Variable a(draws.random("a", {count, 1, width})), b(draws.random("b", {count, 1, width})),
      c(draws.random("c", {count, 1, width})), query(draws.random("W_Q", {count, width, width})),
      key(draws.random("W_K", {count, width, width}));
  const auto squared = [](const Variable& from, const Variable& to) {
    const Variable step = from - to;
    return values_of(sum(step * step, {2}));
  };
  const Variable aq = matmul(a, query), bq = matmul(b, query), bk = matmul(b, key), ck = matmul(c, key);
  const Values whole = squared(aq, ck), first = squared(aq, bk), second = squared(bk, bq), third = squared(bq, ck);
  double above = 0;
  for (std::size_t k = 0; k < whole.size(); ++k)
    above = std::max(above, whole[k] / std::max({first[k], second[k], third[k]}) - 9);
  return above;
}

/// The largest difference over all kinds of localness.
std::function<double(const Draws&)> with_any_method(double (*difference)(const Draws&, const std::string&)) {
  return [=](const Draws& draws) {
    double largest = 0;
    for (const char* method :
         {"global", "gaussian", "gaussian(window=layer)", "relative", "window", "window(use=additive)", "sman", "dman"})
      largest = std::max(largest, difference(draws, method));
    return largest;
  };
}

struct Identity {
  const char *paper, *statement;
  double tolerance;
  std::function<double(const Draws&)> difference;
};

/// The difference between the results of two attentions, the largest one if they have a part {score}, which then is
/// each score in turn.
std::function<double(const Draws&)> between(const std::string& left, const std::string& right,
                                            Place place = Place::encoder) {
  return [=](const Draws& draws) {
    double largest = 0;
    for (const char* score : {"dot", "scaled_dot", "general", "additive", "location"}) {
      const auto with_score = [&](const std::string& text) {
        return fmt::format(fmt::runtime(text), fmt::arg("score", score));
      };
      largest = std::max(
          largest, largest_difference(output(draws, {with_score(left), place}), output(draws, {with_score(right)})));
    }
    return largest;
  };
}

const std::vector<Identity> statements{
    {"Nguyen", "a window is its expectation and the product of its pointers: m = E(m) + φ_L φ_R", 1e-12,
     expected_window_difference},
    {"Nguyen", "mask=exact is the expectation of the window", 1e-12,
     [](const Draws& draws) {
       Values exact = computed(draws, {"window(mask=exact)"}).at("window");
       const auto paper = computed(draws, {"window"});
       const Values &left = paper.at("left_pointer"), &right = paper.at("right_pointer");
       for (std::size_t k = 0; k < exact.size(); ++k) exact[k] += left[k] * right[k];
       return largest_difference(exact, paper.at("window"));
     }},
    {"Nguyen", "segments of one token are tokens", 1e-12, between("window(segment=1)", "window")},
    {"Nguyen", "one segment for all keys: the window is 2 everywhere", 1e-12,
     [](const Draws& draws) {
       const Values window = computed(draws, {fmt::format("window(segment={})", length)}).at("window");
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
     [](const Draws& draws) {
       return largest_difference(output(draws, {.specification = "man", .mask = mask_of(false)}),
                                 output(draws, {"global"}));
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
  const Draws draws{seed};
  Table table({"paper", "statement", "largest difference", "tolerance", "holds"});
  std::string broken;
  for (const Identity& each : statements) {
    if (!paper.empty() && paper != each.paper) continue;
    const double difference = each.difference(draws);
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
