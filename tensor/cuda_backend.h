/// What cuda/ implements for tensor/: the primitives, on device memory. Everything else is built from these.
#pragma once
#include <cstddef>
#include <string>

#include "tensor/reduce.h"
#include "tensor/storage.h"
#include "tensor/tensor.h"

namespace fovea {

/// One GPU. Calls are ordered on one stream; copies to the host wait for it.
class CudaBackend {
 public:
  virtual ~CudaBackend() = default;

  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void deallocate(std::byte* block, std::size_t bytes) = 0;
  virtual AllocatorStatistics statistics() const = 0;
  virtual void reset_peak() = 0;
  virtual void release_cache() = 0;
  virtual void synchronize() = 0;

  /// Contiguous bytes, in any direction between host and device.
  virtual void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) = 0;
  /// Strided, broadcasting, casting; both on the GPU.
  virtual void copy(Tensor& to, const Tensor& from) = 0;
  virtual void fill(Tensor& to, double value) = 0;

  /// The contracts of gemm.h, reduce.h, scan.h and gather.h.
  virtual void gemm(const Tensor& a, const Tensor& b, Tensor& c, double alpha, double beta) = 0;
  /// out has in's rank, and size 1 where it is reduced.
  virtual void reduce(Reduction reduction, const Tensor& in, Tensor& out) = 0;
  virtual void cumulative_sum(const Tensor& in, Tensor& out, bool reverse) = 0;
  virtual void gather_rows(const Tensor& table, const Tensor& index, Tensor& out) = 0;
  virtual void scatter_add_rows(Tensor& table, const Tensor& index, const Tensor& rows) = 0;

  virtual std::string describe() const = 0;  ///< "NVIDIA H200, 139 GiB"
};

/// The backend of the first GPU. Throws Error in one line: built without CUDA, or no GPU here.
CudaBackend& cuda_backend();
bool cuda_is_available();

}  // namespace fovea
