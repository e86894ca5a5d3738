/// Data sets made by grammars: for trying a method in a minute, with nothing to download. The same specification gives
/// the same texts on every machine. No text is in two parts: the hash of a text decides which part may have it.
#pragma once
#include <string>
#include <string_view>

#include "experiments/support/classification.h"

namespace fovea {

/// Is this `generated` or `generated:option=value,...`, and not a path?
bool is_generated(std::string_view data);

/// The number of a verb from the words before it.
///
///   S    -> [PP ,] NP [Adv]                     the verb that follows is what the number is asked of
///   NP   -> Det [Adj] N Mod*                    N is the head: its number is the label; uniform
///   Mod  -> PP | that V Det [Adj] N | that Det [Adj] N V
///   PP   -> P Det [Adj] N
///
/// Determiners and the verbs of relative clauses (past tense) do not show number, so only the nouns do, each of which
/// has a singular and a plural form that must be learnt. Nouns between head and verb of the other number are
/// attractors; the group is their count. P(0..4 attractors) = .35, .25, .2, .12, .08, and nouns of the same number are
/// added between them: 0, 1 or 2 with probability .6, .25, .15. The PP in front (.3) has a noun of random number that
/// is no attractor, but it keeps the head from being always the first noun.
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
