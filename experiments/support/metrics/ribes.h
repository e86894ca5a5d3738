/// RIBES 1.03: Isozaki et al. 2010, "Automatic Evaluation of Translation Quality for Distant Language Pairs".
///
///   RIBES = NKT P^alpha BP^beta,  alpha = 0.25,  beta = 0.10
///
/// NKT: the fraction of the aligned words' pairs that are in the reference's order (Kendall's tau, 0 to 1); P: the
/// fraction of the hypothesis's words that are aligned; BP = min(1, exp(1 - |reference| / |hypothesis|)).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "experiments/support/metrics/ngrams.h"

namespace fovea {

/// Returns the positions in the reference of the aligned words, in the order of the hypothesis. A word that occurs once
/// in both texts is aligned. Another word is aligned if an n-gram with it (the shortest one to its left, or else to its
/// right) occurs once in both.
std::vector<int> ribes_alignment(const Words& hypothesis, const Words& reference);

/// Returns RIBES of one sentence, 0 to 1: the largest value over the references. Words are separated by white space;
/// upper and lower case differ. RIBES of a corpus is the mean over its sentences.
double ribes(const std::string& hypothesis, std::span<const std::string> references);

}  // namespace fovea
