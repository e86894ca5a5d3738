/// The attentions of a trained model on one sentence.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/data/text_pair.h"
#include "experiments/support/report/attention_view.h"

namespace fovea {

/// One attention of a model.
struct AttentionChoice {
  std::string place =
      "any";  ///< encoder, decoder or cross; any: the first of cross, encoder, decoder that is not plain
  int layer = 1, number = 1;
};

struct SentenceView {
  TextPair pair;  ///< of classifiers: the text is the source, the class the target
  std::vector<AttentionView> attentions;
  std::string predicted = {};  ///< of classifiers: the class that the model predicts

  /// The source and the target, with an arrow between them; of classifiers the text, its label and the prediction.
  std::string text() const;
  /// Throws Error and lists the model's attentions if there is none of this choice.
  const AttentionView& chosen(const AttentionChoice& choice) const;
};

}  // namespace fovea
