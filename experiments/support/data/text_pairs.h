/// Pairs of texts: a sentence and its translation, an article and its headline.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace fovea {

struct TextPair {
  std::string source = {}, target = {};
  std::string alignment = {};  ///< gold links "i-j i-j", word numbers of source and target from 0; empty: unknown
  std::vector<std::string> more_targets = {};  ///< of a test set: further references
};

enum class Part { train, dev, test };

/// A source of pairs, which are visited and not stored: a corpus may be larger than memory.
class PairSource {
 public:
  virtual ~PairSource() = default;
  /// Calls the visitor with every pair of the part, in the same order each time.
  virtual void visit(Part part, const std::function<void(const TextPair&)>& visitor) const = 0;
  /// One line: the files, and how they are read.
  virtual std::string description() const = 0;
  /// The number of bad pairs that the last visits left out, with the reasons; empty for none.
  virtual std::string left_out() const { return {}; }
};

}  // namespace fovea
