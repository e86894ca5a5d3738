// cuBLAS's products on the host: operations in a stream's queue that multiply with the CPU's tiles.
#include "tests/cuda_on_host/cublas_v2.h"
#include "tests/cuda_on_host/matrix.h"
#include "tests/cuda_on_host/runtime.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace {

using fovea::cuda_on_host::Matrix;

template <class T>
cublasStatus_t enqueue_batch(cublasHandle_t handle, const Matrix<T>& a, long long stride_a, const Matrix<T>& b,
                             long long stride_b, T* c, int ldc, long long stride_c, int batch, T alpha, T beta,
                             bool rounds) {
  if (!a.fits() || !b.fits() || ldc < std::max(1, a.rows)) return CUBLAS_STATUS_INVALID_VALUE;
  fovea::cuda_on_host::enqueue(handle->stream, "gemm", [=] {
    for (int k = 0; k < batch; ++k) {
      Matrix<T> left = a, right = b;
      left.first += k * stride_a;
      right.first += k * stride_b;
      multiply(left, right, c + k * stride_c, ldc, alpha, beta, rounds);
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

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
                                          const void* a, cudaDataType, int lda, long long stride_a, const void* b,
                                          cudaDataType, int ldb, long long stride_b, const void* beta, void* c,
                                          cudaDataType, int ldc, long long stride_c, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  return enqueue_batch<float>(handle, {static_cast<const float*>(a), m, k, lda, transpose_a == CUBLAS_OP_T}, stride_a,
                              {static_cast<const float*>(b), k, n, ldb, transpose_b == CUBLAS_OP_T}, stride_b,
                              static_cast<float*>(c), ldc, stride_c, batch, *static_cast<const float*>(alpha),
                              *static_cast<const float*>(beta), compute == CUBLAS_COMPUTE_32F_FAST_16BF);
}

cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transpose_a,
                                         cublasOperation_t transpose_b, int m, int n, int k, const double* alpha,
                                         const double* a, int lda, long long stride_a, const double* b, int ldb,
                                         long long stride_b, const double* beta, double* c, int ldc, long long stride_c,
                                         int batch) {
  return enqueue_batch<double>(handle, {a, m, k, lda, transpose_a == CUBLAS_OP_T}, stride_a,
                               {b, k, n, ldb, transpose_b == CUBLAS_OP_T}, stride_b, c, ldc, stride_c, batch, *alpha,
                               *beta, false);
}
