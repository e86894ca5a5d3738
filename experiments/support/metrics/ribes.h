/// RIBES 1.03: Isozaki et al. 2010, "Automatic Evaluation of Translation Quality for Distant Language Pairs".
///
///   RIBES = NKT P^alpha BP^beta
///
/// NKT: the fraction of the aligned words' pairs that are in the reference's order (Kendall's tau, 0 to 1); P: the
/// fraction of the hypothesis's words that are aligned; BP = min(1, exp(1 - |reference| / |hypothesis|)).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "experiments/support/metrics/ngrams.h"

namespace fovea {

struct RibesOptions {
  double alpha = 0.25, beta = 0.10;
};

/// The places in the reference of the hypothesis's aligned words, in the hypothesis's order. A word that occurs once in
/// both is aligned; any other by the shortest n-gram around it (to its left, else to its right) that does.
std::vector<int> ribes_alignment(const Words& hypothesis, const Words& reference);

/// Of one sentence, 0 to 1, with the best of the references; words are what lies between white space, case counts. That
/// of a corpus is the mean of its sentences.
double ribes(const std::string& hypothesis, std::span<const std::string> references, const RibesOptions& options = {});

}  // namespace fovea
