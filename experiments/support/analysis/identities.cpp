// Statements of the papers about their methods: both sides of each equation are computed on random numbers.

#include <algorithm>
#include <cmath>
#include <functional>

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

// The random sentences: their number, tokens of each, width of the states; and the heads of attentions.
constexpr std::int64_t sentences = 2, length = 9, width = 6;
constexpr int heads_of_all = 2;

double largest_difference(const Values& left, const Values& right) {
  require(left.size() == right.size(), "{} numbers and {} cannot be compared", left.size(), right.size());
  double largest = 0;
  for (std::size_t k = 0; k < left.size(); ++k) largest = std::max(largest, std::abs(left[k] - right[k]));
  return largest;
}

Values values_of(const Variable& x) { return x.value().to_vector<double>(); }

/// Random numbers and attentions. Parameters of the same name have the same values in all attentions.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed), states(random("states", {sentences, length, width})) {}

  Tensor random(const std::string& name, const Shape& shape) const {
    Tensor values = Tensor::empty(shape, DType::f64);
    Generator generator(stable_hash(name) + seed_);
    fill_normal(values, generator);
    return values;
  }

  void fill(Module& module) const {
    module.to(DType::f64);
    module.train(false);
    for (auto& parameter : module.parameters()) {
      Tensor value = parameter.variable.value();
      value.copy_from(random(parameter.name, value.shape()));
    }
  }

  std::unique_ptr<Attention> attention(const std::string& specification, Place place = Place::encoder,
                                       int heads = heads_of_all) const {
    auto made = attention_factory(specification)({.model_dim = width, .heads = heads, .place = place});
    fill(*made);
    return made;
  }

  /// The output of an attention for random states.
  Values output(const std::string& specification, AttentionInput input = {}, Place place = Place::encoder) const {
    const NoGrad off;
    if (!input.query.defined()) input.query = input.key = input.value = Variable(states);
    input.causal = place == Place::decoder;
    return values_of(attention(specification, place)->forward(input));
  }

  /// A quantity that an attention computes for random states, such as its window.
  Values quantity(const std::string& specification, const std::string& name) const {
    AttentionTrace trace;
    AttentionInput input;
    input.trace = &trace;
    output(specification, input);
    for (const auto& [each, value] : trace.quantities)
      if (each == name) return values_of(value);
    fail("{} computes no {}", specification, name);
  }

 private:
  std::uint64_t seed_;

 public:
  const Tensor states;  // [sentences, length, d]
};

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
  const auto attention =
      draws.attention(fmt::format("man + activation(function=relu, width={})", 2 * width), Place::encoder, 1);
  for (auto& of_block : block.parameters())
    for (auto& of_attention : attention->parameters()) {
      const bool is_first = of_block.name.starts_with("inner");
      if (of_attention.name == (is_first ? "value" : "output") + of_block.name.substr(5))
        of_attention.variable.value().copy_from(of_block.variable.value());
    }
  const Variable x(draws.states);
  return largest_difference(values_of(attention->forward({.query = x, .key = x, .value = x, .mask = mask_of(true)})),
                            values_of(block.forward(x)));
}

/// Nguyen et al. 2020, appendix, corrected: m̂ = E(m) + φ_L φ_R, where the expectation is that of the discrete window
/// between independent pointers, which may be in either order.
double expected_window_difference(const Draws& draws) {
  const Values left = draws.quantity("window", "left_pointer"), right = draws.quantity("window", "right_pointer");
  const Values window = draws.quantity("window", "window");  // [sentences, H, length, n], as the pointers
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
  const NoGrad off;
  const auto attention =
      attention_factory("classic(fine_grained)")({.model_dim = 2, .heads = 1, .place = Place::cross});
  draws.fill(*attention);
  const std::vector<std::pair<std::string, Values>> worked{{"query_projection", {1, 0, 0, 1}},
                                                           {"key_projection", {0.5, 0, 0, 2}},
                                                           {"bias", {0.1, -0.1}},
                                                           {"dimensions", {1, 0.5, -1, 0.5}}};
  for (auto& parameter : attention->parameters())
    for (const auto& [name, values] : worked)
      if (parameter.name == "fine_grained." + name)
        parameter.variable.value().copy_from(Tensor::from(values, parameter.variable.shape()));
  const Variable keys = Tensor::of({1, 0, 0, 1, 1, 1, 0.5, -0.5}, {1, 4, 2}), query = Tensor::of({0.5, 1}, {1, 1, 2});
  return largest_difference(values_of(attention->forward({.query = query, .key = keys, .value = keys})),
                            {0.634595, 0.486383});
}

// The tokens that are the same when others are padding or other ones.
constexpr std::int64_t same = length - 3;

/// The largest difference between the results of the same tokens; in `right` there may be no others.
double same_token_difference(const Values& left, const Values& right) {
  const std::size_t of_left = left.size() / sentences, of_right = right.size() / sentences;
  double largest = 0;
  for (std::size_t b = 0; b < sentences; ++b)
    for (std::size_t k = 0; k < same * width; ++k)
      largest = std::max(largest, std::abs(left[b * of_left + k] - right[b * of_right + k]));
  return largest;
}

double padding_difference(const Draws& draws, const std::string& specification) {
  const Variable all(draws.states), cut(draws.states.slice(1, 0, same).clone());
  const Tensor lengths = Tensor::from(std::vector<std::int32_t>(sentences, same), {sentences});
  return same_token_difference(
      draws.output(specification, {.query = all, .key = all, .value = all, .key_lengths = lengths}),
      draws.output(specification, {.query = cut, .key = cut, .value = cut}));
}

double later_token_difference(const Draws& draws, const std::string& specification) {
  Tensor other = draws.states.clone();
  other.slice(1, same, length).copy_from(draws.random("other tokens", {sentences, length - same, width}));
  const Variable after(other);
  return same_token_difference(
      draws.output(specification, {}, Place::decoder),
      draws.output(specification, {.query = after, .key = after, .value = after}, Place::decoder));
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
    for (const char* score : {"dot", "scaled_dot", "general", "additive", "location"})
      largest = std::max(
          largest,
          largest_difference(draws.output(fmt::format(fmt::runtime(left), fmt::arg("score", score)), {}, place),
                             draws.output(fmt::format(fmt::runtime(right), fmt::arg("score", score)))));
    return largest;
  };
}

const std::vector<Identity> statements{
    {"Nguyen", "a window is its expectation and the product of its pointers: m = E(m) + φ_L φ_R", 1e-12,
     expected_window_difference},
    {"Nguyen", "mask=exact is the expectation of the window", 1e-12,
     [](const Draws& draws) {
       Values exact = draws.quantity("window(mask=exact)", "window");
       const Values left = draws.quantity("window", "left_pointer"), right = draws.quantity("window", "right_pointer");
       for (std::size_t k = 0; k < exact.size(); ++k) exact[k] += left[k] * right[k];
       return largest_difference(exact, draws.quantity("window", "window"));
     }},
    {"Nguyen", "segments of one token are tokens", 1e-12, between("window(segment=1)", "window")},
    {"Nguyen", "one segment for all keys: the window is 2 everywhere", 1e-12,
     [](const Draws& draws) {
       const Values window = draws.quantity(fmt::format("window(segment={})", length), "window");
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
       const Variable x(draws.states);
       return largest_difference(draws.output("man", {.query = x, .key = x, .value = x, .mask = mask_of(false)}),
                                 draws.output("global"));
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
  const Draws draws(seed);
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
