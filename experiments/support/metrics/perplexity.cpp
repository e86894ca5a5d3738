#include "experiments/support/metrics/perplexity.h"

#include <algorithm>

#include "experiments/support/text/words.h"

namespace fovea {

Likelihood units_of_line(std::string_view line) {
  Likelihood units;
  for (std::string_view word : split_words(line)) {
    ++units.words;
    units.characters += character_count(word);
  }
  units.characters += std::max<std::int64_t>(units.words, 1);  // spaces, and the line's end
  ++units.words;
  return units;
}

}  // namespace fovea
