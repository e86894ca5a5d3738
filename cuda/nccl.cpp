// Sums over processes on GPUs, by NCCL in a stream of its own. A module of its own: nn/parallel/module.h.
#include <nccl.h>

#include "cuda/stream.h"
#include "nn/parallel/module.h"
#include "tensor/error.h"

namespace fovea {

namespace {

using cuda::check;

void check_nccl(ncclResult_t result, const char* what) {
  require(result == ncclSuccess, "nccl: {}: {}", what, ncclGetErrorString(result));
}

class NcclSums final : public DeviceSums {
 public:
  explicit NcclSums(ProcessGroup& group) {
    ncclUniqueId id{};
    if (group.is_first()) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    group.broadcast(&id, sizeof id);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
    check_nccl(ncclCommInitRank(&communicator_, group.size(), id, group.rank()), "ncclCommInitRank");
  }
  ~NcclSums() override {
    ncclCommDestroy(communicator_);
    cudaEventDestroy(event_);
    cudaStreamDestroy(stream_);
  }

  void begin(Tensor& x) override {
    let_wait(stream_, cuda::stream());  // for the kernels that write x
    void* data = x.mutable_address();
    check_nccl(ncclAllReduce(data, data, static_cast<std::size_t>(x.elements()),
                             x.dtype() == DType::f64 ? ncclDouble : ncclFloat, ncclSum, communicator_, stream_),
               "ncclAllReduce");
    cuda::launched("all_reduce", 2 * static_cast<std::int64_t>(x.bytes()));
  }
  void wait() override { let_wait(cuda::stream(), stream_); }

 private:
  /// Work that is appended to `later` from now on runs after the work that `earlier` has now.
  void let_wait(cudaStream_t later, cudaStream_t earlier) {
    check(cudaEventRecord(event_, earlier), "cudaEventRecord");
    check(cudaStreamWaitEvent(later, event_, 0), "cudaStreamWaitEvent");
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
  ncclComm_t communicator_ = nullptr;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) DeviceSums* fovea_start_nccl(ProcessGroup& group) {
  return new NcclSums(group);
}

}  // namespace fovea
