/// Data sets made by grammars: for trying a method in a minute, with nothing to download. The same specification gives
/// the same texts on every machine. No text is in two parts: the hash of a text decides which part may have it.
#pragma once
#include <string>
#include <string_view>

#include "experiments/support/data/classification.h"
#include "experiments/support/data/generated_options.h"

namespace fovea {

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
/// Options: train=20000, dev=500, test=2000, seed=1, attractors=4 (at most; 0-4), nouns=150 (10-150, different nouns).
/// `hard_subset` keeps the test examples with no noun in between or attractors only, see agreement_data.h.
/// Throws Error naming the option and its column.
ClassificationData generate_agreement(std::string_view specification, bool hard_subset);

/// Is a text positive or negative? The label is the sign of the sum over its polarity words, +1 or -1 each, where `not`
/// flips the next polarity word, however many neutral words lie between (0-2 here). Texts whose sum is 0 are drawn
/// anew.
///
///   text  -> (neutral | polar | not neutral{0,2} polar)*      of a length drawn uniformly
///
/// Each text leans one way: its polarity words count for the leaning side with probability .7.
///
/// Options: train=20000, dev=500, test=2000, seed=1, length=10-20 (words; 150-400 is like IMDB), polar=0.3 (share of
/// words that start a polar phrase), not=0.3 (share of those that are negated).
/// Throws Error naming the option and its column.
ClassificationData generate_sentiment(std::string_view specification);

}  // namespace fovea
