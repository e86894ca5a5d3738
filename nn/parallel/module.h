/// The modules of fovea's library that use MPI and NCCL. They are loaded when several processes train together:
/// programs that run alone, or on machines without these libraries, do not need them.
#pragma once
#include "nn/parallel/device_sums.h"
#include "nn/parallel/process_group.h"

namespace fovea {

inline constexpr const char* mpi_module_file = "libfovea_mpi.so";
inline constexpr const char* mpi_start_name = "fovea_start_mpi";
/// Starts MPI and returns the group of all processes, which the caller owns.
using StartMpi = ProcessGroup*();

inline constexpr const char* nccl_module_file = "libfovea_nccl.so";
inline constexpr const char* nccl_start_name = "fovea_start_nccl";
/// Connects the GPUs of the group's processes (start_device_sums()). The caller owns the result.
using StartDeviceSums = DeviceSums*(ProcessGroup& group);

/// Loads the module `file`, which lies in the folder of the library, and returns the address of its function
/// `function`. If it cannot be loaded, throws Error with the message `otherwise`, followed by the system's reason.
void* function_of_module(const char* file, const char* function, const char* otherwise);

}  // namespace fovea
