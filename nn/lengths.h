/// The lengths of padded sentences. They may lie on the CPU while a model is on a GPU, or on the GPU.
#pragma once
#include <string_view>

#include "tensor/tensor.h"

namespace fovea {

/// Throws Error unless `lengths` has one length for each of the B sentences, [B], or is undefined. Lengths on the CPU
/// must also be in least … most. Those on a GPU are not read, because the host would have to wait. `what` begins the
/// message.
void require_lengths(std::string_view what, const Tensor& lengths, std::int64_t B, std::int64_t least,
                     std::int64_t most);

/// Returns whether position t of sentence b is a token and not padding, bool [B, T], on `device`. `lengths` is [B].
Tensor real_positions(const Tensor& lengths, std::int64_t T, Device device);

}  // namespace fovea
