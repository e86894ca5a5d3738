/// The interface between fovea's library and its module that uses MPI, which is loaded when it is needed.
#pragma once
#include "nn/parallel/process_group.h"

namespace fovea {

inline constexpr const char* mpi_module_file = "libfovea_mpi.so";
inline constexpr const char* mpi_start_name = "fovea_start_mpi";

/// Starts MPI and returns the group of all processes, which the caller owns.
using StartMpi = ProcessGroup*();

}  // namespace fovea
