/// Stands in for <nccl.h> in builds with -Dcuda=host: processes of one machine add tensors in shared memory. Names,
/// signatures and meanings are NCCL's own.
#pragma once
#include <cstddef>

#include "tests/cuda_on_host/cuda_runtime.h"

struct ncclUniqueId {
  char internal[128];
};
using ncclComm_t = struct ncclComm*;
enum ncclResult_t { ncclSuccess = 0, ncclSystemError = 2, ncclInvalidArgument = 4 };
enum ncclDataType_t { ncclFloat = 7, ncclDouble = 8 };
enum ncclRedOp_t { ncclSum = 0 };

const char* ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t communicator);
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t communicator, cudaStream_t stream);
