// cuBLAS's products on the host: operations in a stream's queue that multiply with the CPU's tiles.
#include <vector>

#include "tensor/cpu/tiled_gemm.h"
#include "tensor/dtype.h"
#include "tests/cuda_on_host/cublas_v2.h"
#include "tests/cuda_on_host/runtime.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace {

using fovea::MatrixView;

/// A matrix as cuBLAS describes it: columns `leading` elements apart, turned over with CUBLAS_OP_T.
template <class T>
struct Matrix {
  const T* first;
  int rows, columns, leading;  ///< after turning
  bool turned;

  MatrixView<const T> view() const {
    return turned ? MatrixView<const T>{first, leading, 1} : MatrixView<const T>{first, 1, leading};
  }
  /// Row by row in `storage`, each element rounded to bf16.
  MatrixView<const T> rounded(std::vector<T>& storage) const {
    storage.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
    MatrixView<const T> from = view();
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j)
        storage[static_cast<std::size_t>(i) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(j)] =
            static_cast<T>(float(fovea::bf16(static_cast<float>(*from.at(i, j)))));
    return {storage.data(), columns, 1};
  }
};

/// c = alpha a b + beta c. The tiles write rows: cᵀ = bᵀ aᵀ, whose rows are cuBLAS's columns.
template <class T>
void multiply(const Matrix<T>& a, const Matrix<T>& b, T* c, int ldc, T alpha, T beta, bool rounds) {
  std::vector<T> a_storage, b_storage;
  MatrixView<const T> left = rounds ? a.rounded(a_storage) : a.view(), right = rounds ? b.rounded(b_storage) : b.view();
  fovea::tiled_gemm(fovea::Product<T>{b.columns, a.rows, a.columns, alpha, beta}, right.transposed(), left.transposed(),
                    MatrixView<T>{c, ldc, 1});
}

template <class T>
cublasStatus_t enqueue_batch(cublasHandle_t handle, const Matrix<T>& a, long long stride_a, const Matrix<T>& b,
                             long long stride_b, T* c, int ldc, long long stride_c, int batch, T alpha, T beta,
                             bool rounds) {
  const bool fits = a.leading >= std::max(1, a.turned ? a.columns : a.rows) &&
                    b.leading >= std::max(1, b.turned ? b.columns : b.rows) && ldc >= std::max(1, a.rows);
  if (!fits) return CUBLAS_STATUS_INVALID_VALUE;
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
