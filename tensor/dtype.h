/// Element types of tensors, and the dispatch from a DType, known at run time, to a C++ type.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tensor/error.h"
#include "tensor/formula/list.h"
#include "tensor/formula/target.h"

namespace fovea {

enum class DType : std::uint8_t { f32, f64, bf16, i32, i64, u8, boolean };

/// bfloat16: the upper half of an f32, rounded to nearest even. Storage only; arithmetic is done in f32.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  FOVEA_HD explicit bf16(float value) {
    auto wide = std::bit_cast<std::uint32_t>(value);
    bool is_nan = (wide & 0x7fffffffu) > 0x7f800000u;
    bits = is_nan ? static_cast<std::uint16_t>((wide >> 16) | 0x40u)
                  : static_cast<std::uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
  }
  template <class T>
  FOVEA_HD explicit bf16(T value) : bf16(static_cast<float>(value)) {}
  FOVEA_HD operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

template <class T>
struct Type {
  using type = T;
};

/// The element types, in the order of DType.
using ElementTypes = FunctorList<float, double, bf16, std::int32_t, std::int64_t, std::uint8_t, bool>;
template <class T>
inline constexpr DType dtype_of = static_cast<DType>(place_of<T>(ElementTypes{}));

std::string_view name(DType dtype);
inline bool is_float(DType dtype) { return dtype <= DType::bf16; }

/// Calls body(Type<T>{}) with the element type of `dtype`.
template <class Body>
decltype(auto) visit(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f32:
      return body(Type<float>{});
    case DType::f64:
      return body(Type<double>{});
    case DType::bf16:
      return body(Type<bf16>{});
    case DType::i32:
      return body(Type<std::int32_t>{});
    case DType::i64:
      return body(Type<std::int64_t>{});
    case DType::u8:
      return body(Type<std::uint8_t>{});
    case DType::boolean:
      return body(Type<bool>{});
  }
  fail("unknown dtype {}", static_cast<int>(dtype));
}

/// Bytes per element.
inline std::size_t size_of(DType dtype) {
  return visit(dtype, [](auto type) { return sizeof(typename decltype(type)::type); });
}

/// Calls body(Type<T>{}) with the element type of `dtype`, which must be f32 or f64, the two types that arithmetic is
/// done in. Throws Error otherwise; the message begins with `what`, the name of the operation.
template <class Body>
decltype(auto) visit_real(std::string_view what, DType dtype, Body&& body) {
  if (dtype == DType::f32) return body(Type<float>{});
  if (dtype == DType::f64) return body(Type<double>{});
  fail("{}: computes in f32 or f64, not {}; cast the tensor first", what, name(dtype));
}

/// Calls body(Type<T>{}) with the element type of `dtype`, which must be i32 or i64, the two types of indices. Throws
/// Error otherwise; the message begins with `what`, the name of the operation.
template <class Body>
decltype(auto) visit_index(std::string_view what, DType dtype, Body&& body) {
  if (dtype == DType::i32) return body(Type<std::int32_t>{});
  if (dtype == DType::i64) return body(Type<std::int64_t>{});
  fail("{}: an index is i32 or i64, not {}", what, name(dtype));
}

}  // namespace fovea
