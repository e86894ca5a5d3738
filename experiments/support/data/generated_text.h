/// Texts made by grammars, for translation, summarization and language modelling: nothing to download, and the
/// rules to be learnt are known. The same specification gives the same texts on every machine; no source is in two
/// parts.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "experiments/support/data/generated_options.h"
#include "experiments/support/data/text_pairs.h"

namespace fovea {

/// A language of phrases, and its translation.
///
///   sentence -> ([pa] phrase){2,6}
///   phrase   -> head word{1,4}           of one of 8 types, which have words of their own; neighbours differ in type
///
/// Word by word the translation is a dictionary, and three things must be seen around the word:
///   order        phrases of the types 4 to 7 are turned round: the last word comes first
///   agreement    every word but the head ends in -a or -o, as the head's class demands (half of the heads have each)
///   long moves   a phrase behind the particle `pa` changes places with the phrase behind it, which has no particle;
///                the particle itself is not translated
/// The first two are local: they never look beyond the phrase. The alignment links each word with its translation.
///
/// Options: train=20000, dev=500, test=500, seed=1, words=25 (of each type, 4-100), phrases=2-6, length=2-5 (words of a
/// phrase), swap=0.3 (probability of the particle).
/// Throws Error naming the option and its column.
std::unique_ptr<PairSource> generate_translation(std::string_view specification);

/// The sources of generate_translation(), and as target a tag for each word, which says where its translation goes:
/// left, right or stay, compared with a word-by-word translation; none for the particle, which is not translated. The
/// options are those of generate_translation().
std::unique_ptr<PairSource> generate_tags(std::string_view specification);

/// Articles and headlines. The headline shortens the first sentence; the other sentences do not matter.
///
///   article  -> sentence{3,6}
///   sentence -> Det [Adj] N [P Det N] V Det [Adj] N [Adv] .
///   headline -> [Adj] N V N                                   subject, verb and object of the first sentence
///
/// Options: train=20000, dev=500, test=500, seed=1, sentences=3-6, nouns=150 (10-150).
/// Throws Error naming the option and its column.
std::unique_ptr<PairSource> generate_summaries(std::string_view specification);

/// Lines of text for language models, as pairs without a source.
///
///   next word -> one of 4 words that the last two words allow, with probability .5, .25, .15, .1
///              | the word 1 to 4 places back (copies)
///              | an opening bracket, ( or [ ; the closing one of the innermost that is open
///
/// Options: train=20000, dev=500, test=500, seed=1, words=200 (10-2000), length=10-30, copies=0.15, brackets=0.05.
/// Throws Error naming the option and its column.
std::unique_ptr<PairSource> generate_lines(std::string_view specification);

}  // namespace fovea
