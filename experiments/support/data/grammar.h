/// The base of all grammars: reads the options `generated:name=value,...`, draws random words, and chooses for each
/// text whether it belongs to the training, development or test set.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "experiments/support/data/text_pair.h"
#include "experiments/support/text/split_mix.h"
#include "experiments/support/text/words.h"

namespace fovea {

/// Both ends included.
struct IntegerRange {
  std::int64_t low, high;
};

/// One of several names.
struct GrammarChoice {
  std::vector<std::string> names;
  std::size_t chosen = 0;
};

/// One option: its name, where its value goes, and the values that it may have: numbers from `low` to `high`, or one of
/// the choice's names. A range is `10-20`, or `10` for exactly ten.
struct GrammarOption {
  std::string name;
  std::variant<std::int64_t*, double*, IntegerRange*, GrammarChoice*> value;
  double low = 0, high = 0;
};

/// Pairs that a grammar draws until each part has its size. Eight tenths of all hashes of texts are the training
/// part's, one tenth the development part's, one tenth the test part's: no text is in two parts.
class GeneratedPairs : public PairSource {
 public:
  /// Draws a pair, or returns nothing if this draw gave no usable pair; then the caller draws again.
  using Draw = std::function<std::optional<TextPair>(SplitMix& random)>;

  /// Reads the specification into the options and the sizes; options that it does not name keep their values. Throws
  /// Error naming the option and its column.
  GeneratedPairs(std::string_view specification, std::int64_t tests, std::vector<GrammarOption> options);

  void draw_by(Draw draw) { draw_ = std::move(draw); }
  /// The targets are these labels; `group` names what TextPair::group counts.
  void label(std::vector<std::string> classes, std::string group) {
    classes_ = std::move(classes);
    group_ = std::move(group);
  }
  /// Test pairs are only those that `wanted` accepts.
  void test_on(std::function<bool(const TextPair&)> wanted) { wanted_ = std::move(wanted); }

  /// Throws Error where the options leave hardly any text for the part.
  void visit(Part part, const PairVisitor& visitor, std::size_t test = 0) const override;
  std::string description() const override { return specification_; }
  std::vector<std::string> classes() const override { return classes_; }
  std::string group() const override { return group_; }

 private:
  std::string specification_, group_;
  std::vector<std::string> classes_;
  std::int64_t sizes_[3] = {20000, 500, 500}, seed_ = 1;
  Draw draw_;
  std::function<bool(const TextPair&)> wanted_;
};

// ---- Drawing

template <std::size_t n>
std::string_view one_of(SplitMix& random, const std::array<std::string_view, n>& words) {
  return words[std::size_t(random.below(n))];
}

/// Index drawn with the given weights, which sum to 1; the last takes what rounding leaves.
template <std::size_t n>
int weighted(SplitMix& random, const std::array<double, n>& weights) {
  double place = double(random.next() >> 11) * 0x1p-53;
  for (std::size_t i = 0; i + 1 < n; ++i) {
    if (place < weights[i]) return int(i);
    place -= weights[i];
  }
  return int(n) - 1;
}

}  // namespace fovea
