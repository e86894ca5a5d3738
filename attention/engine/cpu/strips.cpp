#include "attention/engine/cpu/strips.h"

namespace fovea {

Tensor rows_of_keys(const Tensor& x, std::int64_t keys) {
  Shape shape = x.shape();
  shape[-1] = keys;
  return with_unit_rows(x.size(-1) == keys ? x : x.expand(shape).contiguous());
}

Tensor empty_by_position(const Shape& shape, DType dtype) {
  const int by_position[] = {0, 2, 1, 3};  // the layout of split_heads(), so that merge_heads() need not copy
  return shape.rank() == 4 ? Tensor::empty(shape, by_position, dtype, Device::cpu) : Tensor::empty(shape, dtype);
}

StripInput query_input(const Variable& queries, const StripShape& s) {
  return {queries, {s.sentences, s.heads, s.queries, queries.size(-1)}, false};
}

StripInput key_input(const Variable& keys, const StripShape& s) {
  Shape buffer{s.sentences, s.heads, s.keys, keys.size(-1)};
  if (s.parts > 1) buffer.insert(0, s.parts);
  return {keys, buffer, false};
}

}  // namespace fovea
