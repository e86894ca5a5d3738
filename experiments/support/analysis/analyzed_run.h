/// A trained run, opened from its directory to look into its model.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/analysis/task.h"
#include "experiments/support/data/pair_data.h"
#include "experiments/support/data/text_pair.h"
#include "experiments/support/data/vocabulary.h"
#include "experiments/support/models/sequence_models.h"
#include "experiments/support/models/sequence_options.h"
#include "experiments/support/report/attention_view.h"
#include "nn/module.h"

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

/// The run's title_of(), followed by its trial of a search if there is one. The run need not be finished.
std::string title_of_run(const std::filesystem::path& run);

class AnalyzedRun {
 public:
  virtual ~AnalyzedRun() = default;
  /// Loads the model of a run, with its options overridden by `flags`. The sentences are those of one part of its data,
  /// which is read when it is needed.
  static std::unique_ptr<AnalyzedRun> open(const std::filesystem::path& run, Part part = Part::test,
                                           const std::vector<std::string>& flags = {});

  /// The number of sentences.
  std::size_t size() { return set().pairs.size(); }
  /// Sentence k, from 0: for encoder-decoders and language models under teacher forcing. Throws Error, about
  /// --sentence, unless there is one.
  SentenceView sentence(std::size_t k);
  /// A text of the user's. `target` is its translation or summary; without it, the model's own is taken. Names the
  /// words that the vocabulary does not have on standard error. Throws Error for a text without words, and for bytes
  /// that are not UTF-8.
  virtual SentenceView text(const std::string& text, const std::optional<std::string>& target) = 0;
  virtual const Module& model() const = 0;
  /// Gives the model again the values with which its training began: those of the run's seed, or those of --init.
  virtual void restart() = 0;
  /// The sub-layers of a layer of the encoder or the decoder, in order.
  virtual std::vector<SpecifiedSubLayer> sub_layers(Place stack) const = 0;

  /// The texts of sentence k; of classifiers the text and its class.
  TextPair texts(std::size_t k);

 protected:
  AnalyzedRun(const std::filesystem::path& run, Part part)
      : run_(run), tokenizers_(load_tokenizers(run)), part_(part) {}
  /// Reads the part of the run's data, with the vocabulary of the run; called when it is needed.
  virtual PairData read(Part part) = 0;
  /// Pair k with the attentions of the model.
  virtual SentenceView view(const EncodedPairs& pairs, std::size_t k, const TextPair& texts) = 0;
  /// The sentences; read at the first call. Prints a warning, once for each run, if the data have changed since the
  /// training.
  const PairSet& set();
  /// Sets the method of every view: the specification of its place and number.
  void name_methods(SentenceView& sentence) const;
  /// Throws Error unless a text of the user's has words and is UTF-8. Prints a note with the words that the vocabulary
  /// does not have.
  static void check_text(const std::string& flag, const std::string& text, const Tokenizer& tokenizer);
  /// Gives this model of the run the values with which its training began.
  void begin_again(Module& model) const;

  std::filesystem::path run_;
  PairTokenizers tokenizers_;

 private:
  Part part_;
  std::optional<PairData> data_;
};

// ---- Opens trained models: encoders (classifiers, taggers), encoder-decoders and language models.

/// A trained model that reads a text with one encoder.
struct AnalyzedEncoder {
  std::unique_ptr<Module> model;
  std::string attention;        ///< the specification of its layers' attentions
  std::int64_t max_length = 0;  ///< a text's first tokens that the model reads; 0: all
  bool has_end = false;         ///< whether </s> is the last token of a text
  /// Reads the tokens of a text, i32 [1, T], with their number, i32 [1], and fills the traces of the layers. Returns
  /// what the model predicts, for readers: a class, or tags.
  std::function<std::string(const Tensor& tokens, const Tensor& lengths, std::vector<AttentionTrace>* traces)> predict;
  /// Reads a part of the run's data; called when one of its sentences is needed.
  std::function<PairData(const PairTokenizers& tokenizers, Part part)> data;
};

std::unique_ptr<AnalyzedRun> open_encoder_run(const std::filesystem::path& run, AnalyzedEncoder encoder, Part part);

/// Opens a run with these options, those of its config.json.
std::unique_ptr<AnalyzedRun> open_sequence_run(const std::filesystem::path& run, SequenceOptions options, Part part);

}  // namespace fovea
