/// Pairs of texts: a sentence and its translation, an article and its headline.
#pragma once
#include <functional>
#include <string>

namespace fovea {

struct TextPair {
  std::string source, target;
  std::string alignment;  ///< gold links "i-j i-j", words of source and target counted from 0; empty: none are known
};

enum class Part { train, dev, test };

/// Where pairs come from. They are visited, not held: a corpus may be larger than memory.
class PairSource {
 public:
  virtual ~PairSource() = default;
  /// Visits every pair of the part in order; the same ones each time.
  virtual void visit(Part part, const std::function<void(const TextPair&)>& visitor) const = 0;
  /// Where they come from and how they are read, one line.
  virtual std::string description() const = 0;
  /// What the last visits left out because it was no good, and why; empty: nothing.
  virtual std::string left_out() const { return {}; }
};

}  // namespace fovea
