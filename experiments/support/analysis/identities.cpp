#include "experiments/support/analysis/identities.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "attention/registry.h"
#include "autograd/operations.h"
#include "experiments/support/data/split_mix.h"
#include "experiments/support/program/cli.h"
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

/// The largest change of the first tokens' results when the tokens after them become padding, or other tokens.
double padding_difference(const Draws& draws, const std::string& specification) {
  constexpr std::int64_t real = length - 3;
  const Variable all(draws.states), cut(draws.states.slice(1, 0, real).clone());
  const Tensor lengths = Tensor::from(std::vector<std::int32_t>(sentences, real), {sentences});
  const Values padded = draws.output(specification, {.query = all, .key = all, .value = all, .key_lengths = lengths});
  const Values alone = draws.output(specification, {.query = cut, .key = cut, .value = cut});
  Values kept;
  for (std::int64_t b = 0; b < sentences; ++b)
    kept.insert(kept.end(), padded.begin() + b * length * width, padded.begin() + (b * length + real) * width);
  return largest_difference(kept, alone);
}

double later_token_difference(const Draws& draws, const std::string& specification) {
  constexpr std::int64_t same = length - 3;
  Tensor other = draws.states.clone();
  other.slice(1, same, length).copy_from(draws.random("other tokens", {sentences, length - same, width}));
  const Variable before(draws.states), after(other);
  const Values first = draws.output(specification, {.query = before, .key = before, .value = before}, Place::decoder);
  const Values second = draws.output(specification, {.query = after, .key = after, .value = after}, Place::decoder);
  double largest = 0;
  for (std::int64_t b = 0; b < sentences; ++b)
    for (std::int64_t k = b * length * width; k < (b * length + same) * width; ++k)
      largest = std::max(largest, std::abs(first[std::size_t(k)] - second[std::size_t(k)]));
  return largest;
}

/// The largest difference over several attentions.
template <class Difference>
double largest_of(const std::vector<std::string>& specifications, const Difference& difference) {
  double largest = 0;
  for (const std::string& specification : specifications) largest = std::max(largest, difference(specification));
  return largest;
}

struct Identity {
  const char *paper, *statement;
  double tolerance;
  double (*difference)(const Draws&);
};

const std::vector<std::string> localness{
    "global", "gaussian", "gaussian(window=layer)", "relative", "window", "window(use=additive)", "sman", "dman"};
const std::vector<std::string> scores{"dot", "scaled_dot", "general", "additive", "location"};

const std::vector<Identity> identities{
    {"Nguyen", "a window is its expectation and the product of its pointers: m = E(m) + φ_L φ_R", 1e-12,
     expected_window_difference},
    {"Nguyen", "mask=exact is the expectation of the window", 1e-12,
     [](const Draws& draws) {
       Values exact = draws.quantity("window(mask=exact)", "window");
       const Values left = draws.quantity("window", "left_pointer"), right = draws.quantity("window", "right_pointer");
       for (std::size_t k = 0; k < exact.size(); ++k) exact[k] += left[k] * right[k];
       return largest_difference(exact, draws.quantity("window", "window"));
     }},
    {"Nguyen", "segments of one token are tokens", 1e-12,
     [](const Draws& draws) { return largest_difference(draws.output("window(segment=1)"), draws.output("window")); }},
    {"Nguyen", "one segment for all keys: the window is 2 everywhere", 1e-12,
     [](const Draws& draws) {
       const Values window = draws.quantity(fmt::format("window(segment={})", length), "window");
       return largest_difference(window, Values(window.size(), 2));
     }},
    {"Yang", "a Gaussian of infinite width changes nothing", 1e-9,
     [](const Draws& draws) {
       return largest_difference(draws.output("gaussian(window=fixed, width=1000000)"), draws.output("global"));
     }},
    {"Shu", "flexible attention with penalties of 0 and an infinite threshold equals its score alone", 1e-9,
     [](const Draws& draws) {
       return largest_difference(draws.output("classic(dot + flexible(sigma=1000000))", {}, Place::cross),
                                 draws.output("classic(dot)"));
     }},
    {"Watson", "fine-grained attention: the worked example, c = (0.634595, 0.486383)", 1e-6, fine_grained_difference},
    {"Watson", "padding changes nothing, with any method", 1e-12,
     [](const Draws& draws) {
       return largest_of(localness, [&](const std::string& one) { return padding_difference(draws, one); });
     }},
    {"Watson", "in a decoder, later tokens change nothing", 1e-12,
     [](const Draws& draws) {
       return largest_of(localness, [&](const std::string& one) { return later_token_difference(draws, one); });
     }},
    {"Watson", "local-m with a window over the whole sentence equals its score alone, for any score", 1e-12,
     [](const Draws& draws) {
       return largest_of(scores, [&](const std::string& score) {
         return largest_difference(draws.output("classic(" + score + " + local_m(half_width=100))"),
                                   draws.output("classic(" + score + ")"));
       });
     }},
    {"Watson", "local-p with a very long window equals its score alone, for any score", 1e-9,
     [](const Draws& draws) {
       return largest_of(scores, [&](const std::string& score) {
         return largest_difference(draws.output("classic(" + score + " + local_p(half_width=1000000))"),
                                   draws.output("classic(" + score + ")"));
       });
     }},
    {"Fan", "mask attention with M = 1 is self-attention", 0,
     [](const Draws& draws) {
       const Variable x(draws.states);
       return largest_difference(draws.output("man", {.query = x, .key = x, .value = x, .mask = mask_of(false)}),
                                 draws.output("global"));
     }},
    {"Fan", "mask attention with M = I, one head and a ReLU is a feed-forward layer", 1e-12, feed_forward_difference},
    {"Fan", "a static mask as wide as the sentence is self-attention", 1e-12,
     [](const Draws& draws) {
       return largest_difference(draws.output("sman(width=fixed, distance=100)"), draws.output("global"));
     }},
};

}  // namespace

void IdentityCheck::add_to(Cli& cli) {
  cli.option("--paper", paper, "the paper whose statements are checked; default: all")
      .one_of({"Nguyen", "Yang", "Shu", "Watson", "Fan"});
  cli.option("--seed", seed, "seed of the random numbers");
}

Finding checked_identities(const IdentityCheck& options) {
  const Draws draws(options.seed);
  Table table({"paper", "statement", "largest difference", "tolerance", "holds"});
  std::string broken;
  for (const Identity& each : identities) {
    if (!options.paper.empty() && options.paper != each.paper) continue;
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
