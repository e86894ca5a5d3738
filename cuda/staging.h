/// Copies from the host to the device that the host does not wait for.
#pragma once
#include <cstddef>

namespace fovea::cuda {

/// Appends a copy of host memory to the stream. The bytes are taken before the function returns, so the caller may
/// change or free them at once. The host waits, which synchronizations() counts, only if copies of more than
/// `most_staged_bytes` are under way.
void upload(void* to, const void* from, std::size_t bytes);

/// Frees the pinned memory of all copies that are finished.
void release_staging();

inline constexpr std::size_t most_staged_bytes = std::size_t{1} << 30;

}  // namespace fovea::cuda
