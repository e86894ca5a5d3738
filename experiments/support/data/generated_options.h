/// The options of generated data sets, `generated:name=value,...`, and the choice of a part for each generated text.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/support/data/split_mix.h"

namespace fovea {

/// Is this `generated` or `generated:option=value,...`, and not a path?
bool is_generated(std::string_view data);

/// Both ends included.
struct IntegerRange {
  std::int64_t low, high;
};

/// One option: its name, a description of its values, and a setter, which returns false for a wrong value.
struct GeneratedOption {
  std::string name, expected;
  std::function<bool(std::string_view)> set;

  static GeneratedOption integer(std::string name, std::int64_t& value, IntegerRange range);
  static GeneratedOption number(std::string name, double& value, double low, double high);
  /// `10-20`, or `10` for exactly ten.
  static GeneratedOption interval(std::string name, IntegerRange& value, IntegerRange range);
};

/// The number of examples of each part, and the seed of the generator.
struct GeneratedSizes {
  std::int64_t train = 20000, dev = 500, test = 2000, seed = 1;
  std::vector<GeneratedOption> options();
};

/// Gives every `name=value` of the specification to its option; options that are not named keep their defaults. Throws
/// Error naming the option and its column.
void read_generated_options(std::string_view specification, const std::vector<GeneratedOption>& options);

enum class GeneratedPart { train, dev, test };

/// A generated text and the function that stores it; nothing where the text is not wanted.
struct DrawnText {
  std::string text;
  std::function<void()> keep;
};

/// Draws until enough texts have fallen to the part. Eight tenths of all hashes are the training part's, one tenth the
/// development part's, one tenth the test part's: no text is in two parts. Throws Error where hardly any text falls to
/// it.
void draw_part(std::string_view specification, const GeneratedSizes& sizes, GeneratedPart part,
               const std::function<DrawnText(SplitMix&)>& draw);

// ---- Drawing

void append_word(std::string& text, std::string_view word);

template <std::size_t n>
std::string_view one_of(SplitMix& random, const std::array<std::string_view, n>& words) {
  return words[static_cast<std::size_t>(random.below(n))];
}

/// Index drawn with the given weights, which sum to 1; the last takes what rounding leaves.
template <std::size_t n>
int weighted(SplitMix& random, const std::array<double, n>& weights) {
  double place = static_cast<double>(random.next() >> 11) * 0x1p-53;
  for (std::size_t i = 0; i + 1 < n; ++i) {
    if (place < weights[i]) return static_cast<int>(i);
    place -= weights[i];
  }
  return static_cast<int>(n) - 1;
}

}  // namespace fovea
