/// The <cstdint> of kernels that are compiled at run time: NVRTC has no files of the standard library, so the library
/// carries this text in their place. It has the types that the carried headers use.
#pragma once

namespace std {

using uint8_t = unsigned char;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long;
using uint64_t = unsigned long;
using uintptr_t = unsigned long;

}  // namespace std
