// Matrix products through cuBLAS.
#include "tensor/gemm.h"

#include <array>

#include "cuda/matrix_operand.h"
#include "tensor/element_loop.h"
#include "tensor/kernels.h"

namespace fovea::cuda {

namespace {

cublasHandle_t blas() {
  static cublasHandle_t handle = [] {
    cublasHandle_t made;
    check_blas(cublasCreate(&made), "cublasCreate");
    check_blas(cublasSetStream(made, stream()), "cublasSetStream");
    return made;
  }();
  return handle;
}

/// Computes `batch` products with one call of cuBLAS, as cᵀ = bᵀ aᵀ, because cuBLAS stores matrices by columns.
/// `stride` holds the distances between neighbouring matrices in c, a and b.
template <class T>
void strided_batch(const Operand& a, const Operand& b, const Tensor& c, const T* first_a, const T* first_b, T* first_c,
                   std::int64_t batch, const std::array<std::int64_t, 3>& stride, double alpha, double beta) {
  auto m = static_cast<int>(c.size(-2)), n = static_cast<int>(c.size(-1)), k = static_cast<int>(a.tensor.size(-1));
  int leading = leading_of(c, -1, -2);
  if constexpr (std::is_same_v<T, float>) {
    auto compute = matmul_precision() == Precision::bf16 ? CUBLAS_COMPUTE_32F_FAST_16BF : CUBLAS_COMPUTE_32F;
    float scale = static_cast<float>(alpha), keep = static_cast<float>(beta);
    check_blas(
        cublasGemmStridedBatchedEx(blas(), b.operation, a.operation, n, m, k, &scale, first_b, CUDA_R_32F, b.leading,
                                   stride[2], first_a, CUDA_R_32F, a.leading, stride[1], &keep, first_c, CUDA_R_32F,
                                   leading, stride[0], static_cast<int>(batch), compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
  } else {
    check_blas(cublasDgemmStridedBatched(blas(), b.operation, a.operation, n, m, k, &alpha, first_b, b.leading,
                                         stride[2], first_a, a.leading, stride[1], &beta, first_c, leading, stride[0],
                                         static_cast<int>(batch)),
               "cublasDgemmStridedBatched");
  }
  auto elements = [&](std::int64_t rows, std::int64_t columns, std::int64_t step) {
    return (step == 0 ? 1 : batch) * rows * columns;  // one matrix for all products lies in memory once
  };
  launched("gemm", static_cast<std::int64_t>(sizeof(T)) *
                       (elements(m, k, stride[1]) + elements(k, n, stride[2]) + (beta == 0 ? 1 : 2) * batch * m * n));
}

/// Makes the largest dimension the last one, which one call of cuBLAS computes: with heads split, [B, T, H, D] seen as
/// [B, H, T, D], the two batch dimensions cannot be merged, and there are many more sentences than heads.
void put_largest_last(ElementLoop<3>& loop) {
  int largest = 0;
  for (int d = 1; d < loop.rank(); ++d)
    if (loop.shape[d] >= loop.shape[largest]) largest = d;
  std::swap(loop.shape[largest], loop.shape[-1]);
  for (Shape& strides : loop.strides) std::swap(strides[largest], strides[-1]);
}

/// Returns a view of x's batch dimensions: all but the last two, with one element per matrix.
Tensor batch_of(const Tensor& x) {
  Shape shape(std::span(x.shape().begin(), static_cast<std::size_t>(x.rank() - 2)));
  Shape strides(std::span(x.strides().begin(), static_cast<std::size_t>(x.rank() - 2)));
  return x.as_strided(shape, strides);
}

void gemm(const Tensor& left, const Tensor& right, Tensor& c, double alpha, double beta) {
  if (c.elements() == 0) return;
  if (!fits(c, -1, -2) && fits(c, -2, -1)) {  // columns of c are contiguous: cᵀ = bᵀ aᵀ has contiguous rows
    Tensor transposed = c.transpose(-1, -2);
    return cuda::gemm(right.transpose(-1, -2), left.transpose(-1, -2), transposed, alpha, beta);
  }
  if (!fits(c, -1, -2)) {  // neither is: the result is computed in a packed tensor
    Tensor packed = Tensor::empty(c.shape(), c.dtype(), c.device());
    if (beta != 0) packed.copy_from(c);
    cuda::gemm(left, right, packed, alpha, beta);
    c.copy_from(packed);
    return;
  }
  Operand a = operand(left), b = operand(right);
  Tensor a_batch = batch_of(a.tensor), b_batch = batch_of(b.tensor), c_batch = batch_of(c);
  ElementLoop<3> loop = plan_loop<3>(c_batch.shape(), {&c_batch, &a_batch, &b_batch});
  put_largest_last(loop);
  visit_real("gemm", c.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T *first_a = a.tensor.data<T>(), *first_b = b.tensor.data<T>();
    T* first_c = c.mutable_data<T>();
    std::array<std::int64_t, 3> stride{loop.strides[0][-1], loop.strides[1][-1], loop.strides[2][-1]};
    loop.for_rows(0, loop.rows(), [&](auto& offset) {
      strided_batch<T>(a, b, c, first_a + offset[1], first_b + offset[2], first_c + offset[0], loop.inner(), stride,
                       alpha, beta);
    });
  });
}

const Provide provide(Device::cuda, [](Kernels& table) { table.gemm = gemm; });

}  // namespace

}  // namespace fovea::cuda
