/// Data sets made by grammars: nothing to download, and the rules to be learnt are known. The same specification,
/// `generated:name=value,...`, gives the same texts on every machine. No text, or source of a pair, is in two parts:
/// its hash decides which part may have it. All have the options train=20000, dev=500, test=500 (sizes; 2000 test texts
/// where they have labels) and seed=1. Errors name the option and its column.
#pragma once
#include <memory>
#include <string_view>

#include "experiments/support/data/text_pair.h"

namespace fovea {

/// Is this `generated` or `generated:option=value,...`, and not a path?
bool is_generated(std::string_view data);
/// Why flags of files have no effect on generated data.
inline constexpr const char* data_without_files = "the data are generated, and have no files: --data names yours";

/// The number of a verb from the words before it.
///
///   S    -> [NP V NP Conj] [P NP] Head [Adv]    the label is the number of the verb that follows
///   Head -> Det [Adj] N Mod{0,5}                N is the head: its number is the label
///   NP   -> Det [Adj] N [Mod]
///   Mod  -> P Det [Adj] N | that V Det [Adj] N | that Det [Adj] N V
///
/// Determiners and verbs (all in the past tense) do not show number, so only the nouns do, each of which has a singular
/// and a plural form that must be learnt; every noun's number is drawn evenly. Nouns between the head and the verb of
/// the other number are attractors; the group is their count. The nouns of what may come before the head (a clause and
/// a place, .15 each) are no attractors, but which noun is the head must be seen from the words around it. Modifiers of
/// the head: 0-5 with probability .2, .2, .2, .15, .15, .1; elsewhere .3; adjectives .3, adverbs .2, relative clauses
/// .4 of the modifiers. Attractors are 0 to 4 in .38, .31, .19, .09 and .03 of the texts.
///
/// Options: attractors=4 (at most; 0-4), nouns=150 (10-150, different nouns). `hard_subset` keeps the test examples
/// with no noun in between or attractors only, see labelled_texts.h.
std::unique_ptr<PairSource> generate_agreement(std::string_view specification, bool hard_subset);

/// Is a text positive or negative? The label is the sign of the sum over its polarity words, +1 or -1 each, where `not`
/// flips the next polarity word, however many neutral words lie between (0-2 here). Texts whose sum is 0 are drawn
/// anew.
///
///   text  -> (neutral | polar | not neutral{0,2} polar)*      of a length drawn uniformly
///
/// Each text leans one way: its polarity words count for the leaning side with probability .7.
///
/// Options: length=10-20 (words; 150-400 is like IMDB), polar=0.3 (share of words that start a polar phrase), not=0.3
/// (share of those that are negated).
std::unique_ptr<PairSource> generate_sentiment(std::string_view specification);

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
/// Options: words=25 (of each type, 4-100), phrases=2-6, length=2-5 (words of a phrase), swap=0.3 (probability of the
/// particle).
std::unique_ptr<PairSource> generate_translation(std::string_view specification);

/// The sources of generate_translation(), and as target a tag for each word, which says where its translation goes:
/// left, right or stay, compared with a word-by-word translation; none for the particle, which is not translated. The
/// options are those of generate_translation(). With the option task, texts and tags of LocalnessGrammar.
std::unique_ptr<PairSource> generate_tags(std::string_view specification);

/// Articles and headlines. The headline shortens the first sentence; the other sentences do not matter.
///
///   article  -> sentence{3,6}
///   sentence -> Det [Adj] N [P Det N] V Det [Adj] N [Adv] .
///   headline -> [Adj] N V N                                   subject, verb and object of the first sentence
///
/// Options: sentences=3-6, nouns=150 (10-150).
std::unique_ptr<PairSource> generate_summaries(std::string_view specification);

/// Lines of text for language models, as pairs without a source.
///
///   next word -> one of 4 words that the last two words allow, with probability .5, .25, .15, .1
///              | the word 1 to 4 places back (copies)
///              | an opening bracket, ( or [ ; the closing one of the innermost that is open
///
/// Options: words=200 (10-2000), length=10-30, copies=0.15, brackets=0.05.
std::unique_ptr<PairSource> generate_lines(std::string_view specification);

}  // namespace fovea
