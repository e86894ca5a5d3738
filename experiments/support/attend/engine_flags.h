/// --engine and --precision of the programs that compute attention: one wording for all of them.
#pragma once
#include <string>

#include "attention/engine/attend.h"
#include "experiments/support/program/cli.h"
#include "tensor/gemm.h"

namespace fovea {

/// A description of the engines except `fastest`.
inline const std::string engine_help =
    "how attention is computed; composed: plain operations on all query-key pairs; blockwise: the same on blocks of "
    "queries; fused: the fast engine";

/// A description of --precision bf16 for programs that round only matrix products.
inline const std::string precision_help =
    "bf16: the operands of large matrix products, or on a GPU of any of them, are rounded to bf16; the rest is f32";

/// Declares --engine with the values fastest, fused, blockwise and composed.
inline Cli::Option engine_flag(Cli& cli, AttentionEngine& engine) {
  return cli.choice("--engine", engine,
                    {{"fastest", AttentionEngine::fastest},
                     {"fused", AttentionEngine::fused},
                     {"blockwise", AttentionEngine::blockwise},
                     {"composed", AttentionEngine::composed}},
                    engine_help +
                        "; fastest: fused if the method has a fused form, except for a few keys on the CPU; otherwise "
                        "composed or, for millions of pairs, blockwise");
}

/// Declares --precision with the values f32 and bf16.
inline Cli::Option precision_flag(Cli& cli, Precision& precision) {
  return cli.choice("--precision", precision, {{"f32", Precision::f32}, {"bf16", Precision::bf16}}, precision_help);
}

}  // namespace fovea
