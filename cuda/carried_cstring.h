/// The <cstring> of kernels that are compiled at run time, as carried_cstdint.h is their <cstdint>.
#pragma once

namespace std {

using ::memcpy;

}  // namespace std
