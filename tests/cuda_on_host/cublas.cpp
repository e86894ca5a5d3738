// cuBLAS's products on the host: operations in a stream's queue that multiply with the CPU's tiles.
#include <cstdint>
#include <stdexcept>

#include "tests/cuda_on_host/cublas_v2.h"
#include "tests/cuda_on_host/matrix.h"
#include "tests/cuda_on_host/runtime.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace {

using fovea::cuda_on_host::Matrix;

/// The sizes and layouts of the products of a batch, as cuBLAS takes them.
struct Products {
  cublasHandle_t handle;
  bool transpose_a, transpose_b;
  int m, n, k, lda, ldb, ldc, batch;
  const void *alpha, *beta;
  cudaDataType types[3];  ///< of a, b and c
  cublasComputeType_t compute;
};

/// Appends the products of matrices at at(k) = {a, b, c} for k < batch; at() runs with them, in device memory.
template <class T, class At>
cublasStatus_t enqueue_as(const Products& all, const At& at) {
  const Matrix<T> a{nullptr, all.m, all.k, all.lda, all.transpose_a},
      b{nullptr, all.k, all.n, all.ldb, all.transpose_b};
  if (!a.fits() || !b.fits() || all.ldc < std::max(1, a.rows)) return CUBLAS_STATUS_INVALID_VALUE;
  const T alpha = *static_cast<const T*>(all.alpha), beta = *static_cast<const T*>(all.beta);
  fovea::cuda_on_host::enqueue(
      all.handle->stream, "gemm", [=, ldc = all.ldc, batch = all.batch, compute = all.compute] {
        for (int k = 0; k < batch; ++k) {
          Matrix<T> left = a, right = b;
          const auto [first_a, first_b, first_c] = at(k, sizeof(T));
          left.first = static_cast<const T*>(first_a);
          right.first = static_cast<const T*>(first_b);
          multiply(left, right, static_cast<T*>(first_c), ldc, alpha, beta, compute == CUBLAS_COMPUTE_32F_FAST_16BF);
        }
      });
  return CUBLAS_STATUS_SUCCESS;
}

template <class At>
cublasStatus_t enqueue_batch(const Products& all, const At& at) {
  for (cudaDataType type : all.types)
    if (type != all.types[0]) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool is_f64 = all.types[0] == CUDA_R_64F;
  if (is_f64 != (all.compute == CUBLAS_COMPUTE_64F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  return is_f64 ? enqueue_as<double>(all, at) : enqueue_as<float>(all, at);
}

struct Addresses {
  const void *a, *b;
  void* c;
};

}  // namespace

const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "an unsupported value or parameter was passed to the function";
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                                          cublasOperation_t transpose_b, int m, int n, int k, const void* alpha,
                                          const void* a, cudaDataType a_type, int lda, long long stride_a,
                                          const void* b, cudaDataType b_type, int ldb, long long stride_b,
                                          const void* beta, void* c, cudaDataType c_type, int ldc, long long stride_c,
                                          int batch, cublasComputeType_t compute, cublasGemmAlgo_t) {
  return enqueue_batch({handle,
                        transpose_a == CUBLAS_OP_T,
                        transpose_b == CUBLAS_OP_T,
                        m,
                        n,
                        k,
                        lda,
                        ldb,
                        ldc,
                        batch,
                        alpha,
                        beta,
                        {a_type, b_type, c_type},
                        compute},
                       [=](long long k, long long size) {
                         return Addresses{static_cast<const std::byte*>(a) + k * stride_a * size,
                                          static_cast<const std::byte*>(b) + k * stride_b * size,
                                          static_cast<std::byte*>(c) + k * stride_c * size};
                       });
}

cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b,
                                   int m, int n, int k, const void* alpha, const void* const* a, cudaDataType a_type,
                                   int lda, const void* const* b, cudaDataType b_type, int ldb, const void* beta,
                                   void* const* c, cudaDataType c_type, int ldc, int batch, cublasComputeType_t compute,
                                   cublasGemmAlgo_t) {
  for (const void* const* addresses : {a, b, static_cast<const void* const*>(c)})
    if (!fovea::cuda_on_host::is_device_memory(addresses, sizeof(void*) * static_cast<std::size_t>(batch)))
      return CUBLAS_STATUS_INVALID_VALUE;
  return enqueue_batch({handle,
                        transpose_a == CUBLAS_OP_T,
                        transpose_b == CUBLAS_OP_T,
                        m,
                        n,
                        k,
                        lda,
                        ldb,
                        ldc,
                        batch,
                        alpha,
                        beta,
                        {a_type, b_type, c_type},
                        compute},
                       [=](long long number, long long) {
                         for (const void* address : {a[number], b[number], static_cast<const void*>(c[number])})
                           if (compute == CUBLAS_COMPUTE_32F_FAST_16BF && k % 4 == 0 &&
                               reinterpret_cast<std::uintptr_t>(address) % 16 != 0)
                             throw std::runtime_error("cublasGemmBatchedEx: a matrix at no multiple of 16 bytes");
                         return Addresses{a[number], b[number], c[number]};
                       });
}
