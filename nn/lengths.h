/// The lengths of padded sentences. They may lie on the CPU while a model is on a GPU, or on the GPU.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

/// Throws Error unless `lengths` has one length in least … most for each of the B sentences, i32 or i64 [B], or is
/// undefined. A wrong length on a GPU is an error of the next call that waits for the GPU, so that the check itself
/// need not wait. `what`, a string literal, begins the message.
void require_lengths(const char* what, const Tensor& lengths, std::int64_t B, std::int64_t least, std::int64_t most);

/// Returns whether position t of sentence b is a token and not padding, bool [B, T], on `device`. `lengths` is [B].
Tensor real_positions(const Tensor& lengths, std::int64_t T, Device device);

}  // namespace fovea
