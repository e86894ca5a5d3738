/// Tasks that separate the claims about localness: each needs one property of attention, which is known in advance.
#pragma once
#include <vector>

#include "experiments/support/data/grammar.h"

namespace fovea {

/// Draws texts whose words all have a tag. A tag is a function of words around it, or elsewhere, that the task states;
/// words are drawn evenly unless the task says otherwise. The letters are a and b where a majority is asked for; of as
/// many of each, the word's own letter wins.
///
///   task        the tag of a word                                                     needs
///   majority    the letter that most of the words at most 3 places away have          one fixed width
///   widths      two letters: the majority at most 1, and at most 9 places away        a width for each head
///   own_width   the word is a letter and a width of 1, 3 or 9: the majority at most   a width that depends on the
///   query
///               so many places away
///   segments    signs | end segments of 3 to 15 words: the majority in the segment    bounds that depend on the keys
///   ranks       how many of the digits at most 3 places away are smaller              one fixed width; comparing
///   back        the word 5 places back                                                one fixed distance
///   displaced   the word is a letter and a distance of -3 to 3: the letter there      a distance that the query gives
///   agreement   subjects, a twelfth of the words and at most 40 apart, are singular   the nearest of some keys, near
///               or plural, as are other nouns: the number of the last subject         or far
///   recall      the word is a key and a value, and each key stands at two places:     content alone, at any distance
///               the value at the other one
///
/// Beyond the ends of the text there are no words; a tag that is to come from there is the word's own letter.
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
