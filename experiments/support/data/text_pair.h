/// Pairs of texts: a sentence and its translation, an article and its headline, a text and its label.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fovea {

struct TextPair {
  std::string source = {}, target = {};  ///< a language model's text is a target; a label is the target of its text
  std::string alignment = {};  ///< gold links "i-j i-j", word numbers of source and target from 0; empty: unknown
  std::vector<std::string> more_targets = {};  ///< of a test set: further references
  std::string alignment_place = {};            ///< file and line of the alignment
  // of labelled texts:
  int group = -1;          ///< the value of PairSource::group(), for accuracy by group; -1: not known or not reported
  int nouns_between = -1;  ///< of agreement: nouns between subject and verb; -1: not known
  bool is_hard = false;    ///< of agreement: belongs to the hard subset (labelled_texts.h)
};

enum class Part { train, dev, test };
inline constexpr Part all_parts[] = {Part::train, Part::dev, Part::test};

/// "train", "dev" or "test".
constexpr const char* name_of(Part part) {
  constexpr const char* names[] = {"train", "dev", "test"};
  return names[std::size_t(part)];
}

using PairVisitor = std::function<void(const TextPair&)>;

/// A source of pairs, which are visited and not stored: of a corpus only the token numbers need fit into memory.
class PairSource {
 public:
  virtual ~PairSource() = default;
  /// Calls the visitor with every pair of the part, in the same order each time; of several test sets, with those of
  /// number `test`.
  virtual void visit(Part part, const PairVisitor& visitor, std::size_t test = 0) const = 0;
  /// One line: the files, and how they are read.
  virtual std::string description() const = 0;
  /// The names of the test sets.
  virtual std::vector<std::string> tests() const { return {"test"}; }
  /// The number of bad pairs that the last visits left out, with the reasons; empty for none.
  virtual std::string left_out() const { return {}; }
  /// Where the targets are labels, all labels; a label is predicted, not written word by word.
  virtual std::vector<std::string> classes() const { return {}; }
  /// The name of the number in TextPair::group, such as "attractors"; empty if the pairs have no groups.
  virtual std::string group() const { return {}; }
};

}  // namespace fovea
