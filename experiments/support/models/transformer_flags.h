/// The flags that encoders and encoder-decoders have in common.
#pragma once
#include <cstdint>
#include <string>

#include "nn/transformer.h"

namespace fovea {

class Cli;

struct TransformerFlags {
  int layers = 2;
  std::int64_t model_dim = 128;
  int heads = 4;
  std::int64_t feed_forward_dim = 512;
  double dropout = 0.1;
  Norm norm = Norm::pre;
  Recompute recompute = Recompute::none;
  std::string attention;  ///< a specification
  bool list_attentions = false;

  /// Declares --layers, --model-dim, --heads, --dropout, --attention and --list-attentions. `dropped_out` names what
  /// --dropout drops, `attention_note` adds to the description of --attention: both differ between models.
  void add_sizes(Cli& cli, const std::string& dropped_out, const std::string& attention_note);
  /// Declares --feed-forward-dim, --norm and --recompute.
  void add_blocks(Cli& cli);

  /// Throws Error unless the heads divide the width.
  void require_heads() const;
  bool operator==(const TransformerFlags&) const = default;
};

/// Returns a factory of the attentions that `specification`, the value of `flag`, describes. Throws Error with the flag
/// for a wrong specification; the factory does for a method that is not defined at a place.
AttentionFactory flagged_attention(const char* flag, const std::string& specification);

}  // namespace fovea
