/// The flags of Transformers, presets of them, and encoders.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/program/json_file.h"
#include "nn/encoder_classifier.h"
#include "nn/transformer.h"

namespace fovea {

class Cli;

/// Declares --preset NAME or --preset FILE.json. A preset is a JSON file with the values of flags, as in a
/// configuration, and "about", a line for --help-all. NAME is a file experiments/presets/NAME.json. A program ignores
/// values of flags that it does not have.
void preset_flag(Cli& cli, std::string& preset);

/// The names of the files in experiments/presets, sorted.
std::vector<std::string> preset_names();
/// The values of a preset, without "about". Throws Error if there is no such preset or file; the message lists the
/// presets.
Json preset_values(const std::string& name);

/// The flags that encoders and encoder-decoders have in common: the sizes, norms and dropout of a stack of layers, and
/// what is before the stack.
struct TransformerFlags : TransformerOptions {
  TransformerFlags() : TransformerOptions{.layers = 2, .model_dim = 128, .heads = 4, .feed_forward_dim = 512} {}

  Positions positions = Positions::sinusoidal;
  std::int64_t longest = 512;
  bool embedding_norm = false, embedding_scale = true;
  std::string attention;  ///< a specification
  bool list_attentions = false;

  /// Declares --layers, --model-dim, --heads, --dropout, --attention and --list-attentions. `dropped_out` names what
  /// --dropout drops, `attention_note` adds to the description of --attention: both differ between models.
  void add_sizes(Cli& cli, const std::string& dropped_out, const std::string& attention_note);
  /// Declares --feed-forward-dim, --activation, --norm, --recompute and others of the layers.
  void add_blocks(Cli& cli);
  /// Declares --positions, --max-positions, --embedding-norm and --embedding-scale.
  void add_inputs(Cli& cli);

  /// Throws Error unless the heads divide the width, or have a width of their own.
  void require_heads() const;
  /// Throws Error if the machine's memory is too small for `copies` copies of so many parameters, and for `kept`
  /// numbers that the layers keep for the backward pass.
  void require_memory(double parameters, int copies, double kept = 0) const;
};

/// Returns a factory of the attentions that `specification`, the value of `flag`, describes. Throws Error with the flag
/// for a wrong specification; the factory does for a method that is not defined at a place.
AttentionFactory flagged_attention(const char* flag, const std::string& specification);

/// The defaults are the "tiny" Transformer of Nguyen et al. 2020, §5.3. Dropout applies to embeddings, attention
/// weights, hidden layers and the outputs of blocks.
struct EncoderModelOptions : TransformerFlags {
  std::string preset;  ///< --preset
  Pool pool = Pool::masked;
  EncoderModelOptions() { attention = "global"; }

  void add_to(Cli& cli);
  /// Declares the flags of classifiers alone: --pool and add_inputs().
  void add_classifier(Cli& cli);
  /// Throws Error if the machine's memory is too small for `copies` copies of the encoder's parameters (training keeps
  /// four: parameters, gradients and Adam's two moments), and for the values that the layers keep for the backward pass
  /// of `tokens` tokens.
  void require_memory(int copies, std::int64_t tokens = 0) const;
  /// Throws Error, with the flag, for sizes and attentions of which no encoder can be made, and for too little memory
  /// as require_memory() does.
  void check(int copies = 4) const;
  /// The encoder's sizes and dropout. Throws Error unless the heads divide the width.
  TransformerOptions encoder() const;
  /// The factory of the attentions that --attention describes.
  AttentionFactory factory() const { return flagged_attention("--attention", attention); }
  /// Makes a classifier with the attentions of `specification`.
  std::unique_ptr<EncoderClassifier> make(const std::string& specification, std::int64_t vocabulary,
                                          std::int64_t classes) const;
};

}  // namespace fovea
