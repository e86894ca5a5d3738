/// Tasks that separate the claims about localness: each needs one property of attention, which is known in advance.
#pragma once
#include <vector>

#include "experiments/support/data/grammar.h"

namespace fovea {

/// Draws texts whose words all have a tag. A tag is a function of the words around it, or of words elsewhere, that the
/// task states. Words are drawn evenly unless the task says otherwise. Where a majority is asked for, words are the
/// letters a and b; on a tie, the tag is the word's own letter.
///
///   task        the tag of a word                                                    needs
///   majority    the majority at most 3 places away                                   one fixed width
///   widths      two letters: the majorities at most 1 and at most 9 places away      a width for each head
///   own_width   a word is a letter and a width w of 1, 3 or 9: the majority at       a width that depends on the
///               most w places away                                                   query
///   segments    signs | end segments of 3 to 15 words: the majority in the segment   bounds that depend on the keys
///   ranks       how many of the digits at most 3 places away are smaller             one fixed width; comparing
///   back        the letter 5 places back                                             one fixed distance
///   displaced   a word is a letter and a distance of -3 to 3: the letter there       a distance that the query gives
///   agreement   a twelfth of the words, at most 40 apart, are subjects; these and    the nearest of some keys, near
///               other nouns are singular or plural: the number of the last subject   or far
///   recall      a word is a key and a value, and each key occurs twice: the value    content alone, at any distance
///               of the other occurrence
///
/// In `back` and `displaced`, the tag is the word's own letter if the place lies beyond the ends of the text. In
/// `recall`, one key of a text with an odd number of words occurs once; its tag is its own value.
///
/// Options: task=majority, length=40-60 (words; at least 8).
class LocalnessGrammar {
 public:
  LocalnessGrammar();
  std::vector<GrammarOption> options();
  TextPair draw(SplitMix& random) const;

 private:
  GrammarChoice task_;
  IntegerRange length_{40, 60};
};

}  // namespace fovea
