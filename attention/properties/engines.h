/// Outputs and gradients of one call, to compare engines and devices by.
#pragma once
#include "attention/properties/cases.h"
#include "tensor/kernels.h"

namespace fovea::properties {

struct Sizes {
  std::int64_t sentences, queries, keys;
  std::vector<std::int32_t> lengths;
  bool are_masked = false;  ///< each query may see two thirds of the keys alone, chosen at random
};
/// Sizes just below and above those of strips and vectors: one strip and several, a sentence without keys, one part of
/// a head and several, and enough sentences for a thread to process whole ones.
extern const std::vector<Sizes> all_sizes;

/// The output, then the gradients of the keys, the queries and every parameter, with one random cotangent. The numbers
/// are the same on every device. Throws Error if the host waits for a device that is not the CPU.
std::vector<Tensor> output_and_gradients(Attention& attention, Place place, const Sizes& sizes,
                                         DType dtype = DType::f64, AttentionTrace* trace = nullptr,
                                         Device device = Device::cpu);

/// Throws Error unless the tensors of two such results differ by at most tolerance times the largest number of the
/// second one, or 1 if that is larger.
void require_alike(const std::vector<Tensor>& one, const std::vector<Tensor>& other, double tolerance,
                   const std::string& what);

}  // namespace fovea::properties
