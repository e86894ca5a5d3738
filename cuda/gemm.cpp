// Matrix products through cuBLAS.
//
// Tried, and did not pay: a call for each sentence where heads are split, because no single stride describes the batch.
// A step of the preset mini with 4096 tokens took 10429 launches, with a call for each head 845 (`benchmark step
// --launches`).
#include "cuda/gemm_addresses.h"
#include "cuda/gemm_epilogue.h"
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

/// The products of a batch: c = alpha a b + beta c for each element of `loop`, whose operands are c, a and b. cuBLAS
/// computes cᵀ = bᵀ aᵀ, because it stores matrices by columns.
template <class T>
class Batch {
 public:
  Batch(const Operand& a, const Operand& b, Tensor& c, const ElementLoop<3>& loop, double alpha, double beta)
      : a_(a),
        b_(b),
        loop_(loop),
        first_{c.mutable_data<T>(), a.tensor.data<T>(), b.tensor.data<T>()},
        m_(blas_size(c.size(-2))),
        n_(blas_size(c.size(-1))),
        k_(blas_size(a.tensor.size(-1))),
        leading_(leading_of(c, -1, -2)),
        alpha_(static_cast<T>(alpha)),
        beta_(static_cast<T>(beta)) {}

  /// One call for all products, which takes the matrices' addresses.
  void by_address() const {
    const Tensor addresses = gemm_addresses(loop_, {first_.c, first_.a, first_.b}, sizeof(T));
    const std::int64_t count = addresses.size(1);
    const auto* at = addresses.data<std::int64_t>();
    auto matrices = [&](std::int64_t k) { return reinterpret_cast<const void* const*>(at + k * count); };
    check_blas(cublasGemmBatchedEx(blas(), b_.operation, a_.operation, n_, m_, k_, &alpha_, matrices(2), element,
                                   b_.leading, matrices(1), element, a_.leading, &beta_,
                                   const_cast<void* const*>(matrices(0)), element, leading_, blas_size(count),
                                   may_round() ? compute() : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
               "cublasGemmBatchedEx");
    launched("gemm", bytes(loop_.shape));
  }

  /// One call for each row of the loop, in which matrices are equally far apart.
  void by_stride() const {
    const Shape row{loop_.inner()};
    loop_.for_rows(0, loop_.rows(), [&](auto& offset) {
      check_blas(
          cublasGemmStridedBatchedEx(blas(), b_.operation, a_.operation, n_, m_, k_, &alpha_, first_.b + offset[2],
                                     element, b_.leading, loop_.strides[2][-1], first_.a + offset[1], element,
                                     a_.leading, loop_.strides[1][-1], &beta_, first_.c + offset[0], element, leading_,
                                     loop_.strides[0][-1], blas_size(loop_.inner()), compute(), CUBLAS_GEMM_DEFAULT),
          "cublasGemmStridedBatchedEx");
      launched("gemm", bytes(row));
    });
  }

 private:
  /// The bytes that the products of the last dimensions of the loop, those of `shape`, move at least. A matrix that
  /// serves several products lies in memory once.
  std::int64_t bytes(const Shape& shape) const {
    auto matrices = [&](std::size_t operand) {
      std::int64_t count = 1;
      for (int d = 1; d <= shape.rank(); ++d) count *= loop_.strides[operand][-d] == 0 ? 1 : shape[-d];
      return count;
    };
    const auto m = std::int64_t{m_}, n = std::int64_t{n_}, k = std::int64_t{k_};
    return static_cast<std::int64_t>(sizeof(T)) *
           (matrices(1) * m * k + matrices(2) * k * n + (beta_ == T(0) ? 1 : 2) * shape.elements() * m * n);
  }

  /// Whether cuBLAS may round factors of by_address() to bf16. It asks for matrices at multiples of 16 bytes where k is
  /// a multiple of 4, and cannot look at addresses that lie in device memory.
  bool may_round() const {
    if (!is_f32 || k_ % 4 != 0) return true;
    auto bits = reinterpret_cast<std::uintptr_t>(first_.c) | reinterpret_cast<std::uintptr_t>(first_.a) |
                reinterpret_cast<std::uintptr_t>(first_.b);
    for (const Shape& strides : loop_.strides)
      for (const std::int64_t stride : strides) bits |= static_cast<std::uintptr_t>(stride) * sizeof(T);
    return bits % 16 == 0;
  }

  static constexpr bool is_f32 = std::is_same_v<T, float>;
  static constexpr cudaDataType element = is_f32 ? CUDA_R_32F : CUDA_R_64F;
  static cublasComputeType_t compute() { return is_f32 ? compute_type_of_f32() : CUBLAS_COMPUTE_64F; }

  const Operand &a_, &b_;
  const ElementLoop<3>& loop_;
  struct {
    T* c;
    const T *a, *b;
  } first_;
  int m_, n_, k_, leading_;
  T alpha_, beta_;
};

/// Makes the largest dimension the last one: a call of cuBLAS with strides computes one row of the loop. With heads
/// split, [B, T, H, D] seen as [B, H, T, D], the two batch dimensions cannot be merged.
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
    const Batch<T> batch(a, b, c, loop, alpha, beta);
    // addresses take two launches, that of their kernel and that of the products
    loop.rows() > 2 ? batch.by_address() : batch.by_stride();
  });
}

const Provide provide(Device::cuda, [](Kernels& table) {
  table.gemm = [](const Tensor& a, const Tensor& b, Tensor& c, const GemmForm& form) {
    if (form.bias || form.column_sums) return gemm_with_epilogue(a, b, c, form);
    cuda::gemm(a, b, c, form.alpha, form.beta);
    return true;
  };
});

}  // namespace

}  // namespace fovea::cuda
