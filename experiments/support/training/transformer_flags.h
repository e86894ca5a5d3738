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
  std::string attention;  ///< a specification

  /// Declares --layers, --model-dim, --heads, --dropout and --attention. What differs between models is said here: what
  /// is dropped out, and what else --attention means.
  void add_sizes(Cli& cli, const std::string& dropped_out, const std::string& attention_note);
  /// Declares --feed-forward-dim and --norm.
  void add_blocks(Cli& cli);

  /// Throws Error unless the heads divide the width.
  void require_heads() const;
  bool operator==(const TransformerFlags&) const = default;
};

/// What makes attentions of the specification, which is the value of `flag`: errors name it, those of a method that is
/// not defined at some place too.
AttentionFactory flagged_attention(const char* flag, const std::string& specification);

}  // namespace fovea
