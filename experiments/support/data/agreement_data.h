/// The texts of `agreement`: the number of an English verb from the words before it.
/// Linzen, Dupoux & Goldberg 2016, "Assessing the Ability of LSTMs to Learn Syntax-Sensitive Dependencies".
#pragma once
#include "experiments/support/data/labelled_texts.h"

namespace fovea {

struct AgreementOptions : ExampleLimits {
  std::string data =
      "generated";              ///< a file, a directory, or generated[:options] (experiments/support/data/generated.h)
  std::int64_t split_seed = 1;  ///< shuffles Linzen's single file before it is split

  /// Declares --data, --hard-subset, --split-seed, --train-examples, --test-examples.
  void add_to(Cli& cli);
};

/// Reads tab-separated files whose header names the columns, in two layouts, found out from the header:
/// - Linzen's `agr_50_mostcommon_10K.tsv`: sentence, verb_index (from 1), verb_pos (VBZ, VBP), n_intervening,
///   n_diff_intervening and others; fields may be quoted. One file: shuffled by split_seed, then 9 % train, 1 % dev,
///   the rest test, which are Tensor2Tensor's shares.
/// - `sva_{train,dev,test}.tsv`: sentence, verb_idx (from 0), label (SING, PLUR), n_attractors (-1: not known). Of one
///   file alone, 10 % dev and 10 % test are split off by hash.
/// The text is the words before the verb; classes are singular and plural; the group is the number of attractors, nouns
/// between subject and verb of the other number: 0-4, and -1 for unknown or more, as Linzen reports them.
///
/// hard_subset is Tensor2Tensor's filter, test examples with n_intervening == n_diff_intervening: no noun in between,
/// or attractors only. Files that only count attractors keep the test examples that have at least one. Throws Error
/// with file and line, or with what was looked for and what was found.
LabelledTexts load(const AgreementOptions& options);

}  // namespace fovea
