/// The commands of `analyze`. Each declares its flags, parses the command line, and returns what it finds.
#pragma once
#include "experiments/support/report/finding.h"

namespace fovea {

class Cli;

// Commands about one sentence (sentence_findings.cpp)
Finding attention_of_sentence(
    Cli& cli);                     ///< quantities as maps or curves, or of one query (Yang et al. 2018, figure 1)
Finding decoding_steps(Cli& cli);  ///< gate, focus, window of each step. Shu & Nakayama 2017, figure 1
Finding alignments(Cli& cli);      ///< weights with gold links, error rates. Luong et al. 2015, figure 7

// Distributions over sentences (distributions.cpp)
Finding widths(Cli& cli);  ///< centers and widths of each layer and head. Yang et al. 2018, figures 2 and 3
Finding mass(Cli& cli);    ///< the attention within distances, of all layers. Fan et al. 2021, table 5
Finding starts(Cli& cli);  ///< where and how wide methods look, with initial and with trained parameters

// Scores of finished runs (score_findings.cpp)
Finding scores_by_length(Cli& cli);
Finding ngram_gaps(Cli& cli);  ///< Yang et al. 2018, figure 4
Finding trade_off(Cli& cli);   ///< over the values of an option at test time. Shu & Nakayama 2017, figure 3

Finding model_description(Cli& cli);  ///< sub-layers, equations, parameters. Fan et al. 2021, figure 2

// Computations without a run
Finding computation(Cli& cli);  ///< an attention on given numbers. Nguyen et al. 2020, figures 1 and 2
Finding identities(Cli& cli);   ///< statements of the papers, both sides computed

/// The specification with the option set in every method that has it; empty if none has.
std::string with_option(const std::string& specification, const std::string& name, const std::string& value);

}  // namespace fovea
